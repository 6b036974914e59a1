/*
 * The `work` session, shared by the parts of the outbox: claim.c, page.c and
 * settle.c each add their statements and their side of a lane's store.
 */
#pragma once

#include "outbox/outbox.h"
#include "outbox/pg_conn.h"

struct outbox {
        struct pg_conn *conn; /* owned */
        struct outbox_events events;
        void *owner; /* borrowed */
};

struct lane_store {
        struct outbox *outbox; /* borrowed */
        struct lane_store_events events;
        void *owner; /* borrowed */

        const char *sink; /* borrowed */
        char lane[16];    /* as a parameter */
        char *topics;     /* owned: an array literal of LIKE patterns */
        enum start start;
        char epoch[24]; /* as a parameter; of the last claim */

        struct page_request request; /* the page being read; owns its frames */
};

/* Prepared in every session. */
extern const struct pg_statement claim_statements[];
extern const unsigned n_claim_statements;
extern const struct pg_statement page_statement;
extern const struct pg_statement settle_statements[];
extern const unsigned n_settle_statements;

/* Closes the session for good and tells the owner why. */
void session_refuse(struct outbox *outbox, const struct error *error);
