/*
 * The `work` session, shared by the parts of the outbox: claim.c, page.c,
 * parked.c and settle.c each add their statements and their side of a lane's
 * store, pauses.c those of the outbox as a whole.
 */
#pragma once

#include "outbox/array_literal.h"
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

        const char *sink;            /* borrowed */
        char lane[16];               /* as a parameter */
        struct array_literal topics; /* LIKE patterns */
        enum start start;
        char epoch[24]; /* as a parameter; of the last claim */

        struct cursor claimed;       /* between its two answers; owns its frames */
        struct page_request request; /* the page being read; owns its frames */
};

/* Prepared in every session. */
extern const struct pg_statement claim_statements[];
extern const unsigned n_claim_statements;
extern const struct pg_statement page_statement;
extern const struct pg_statement parked_statement;
extern const struct pg_statement pause_statements[];
extern const unsigned n_pause_statements;
extern const struct pg_statement settle_statements[];
extern const unsigned n_settle_statements;
extern const struct pg_statement tick_statement;

/* The first look at the pauses, while the session is greeted; on_up comes after it. */
void session_read_pauses(struct outbox *outbox, pg_result_fn *on_result);
void session_tell_pauses(struct outbox *outbox, PGresult *result); /* takes it */

/* Closes the session for good and tells the owner why. */
void session_refuse(struct outbox *outbox, const struct error *error);
