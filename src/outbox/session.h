/*
 * The `work` session, shared by the parts of the outbox: agreement.c, claim.c, page.c, parked.c,
 * settle.c and receiver.c each add their statements and their side of a lane's store; outbox.c
 * begins and ends the session.
 */
#pragma once

#include "base/list.h"
#include "loop/timer.h"
#include "members/view.h"
#include "outbox/attempt_log.h"
#include "outbox/cursor.h"
#include "outbox/outbox.h"
#include "outbox/page_text.h"
#include "outbox/routing.h"
#include "pg/array_literal.h"
#include "pg/pg_conn.h"
#include "pg/pooling.h"

/* The settings of a session that reads and writes by statements of ours: the planner knows nothing
 * of a growing log's end. $1: statement_timeout, $2: lock_timeout. */
#define SESSION_SETTINGS                                                                           \
        "SELECT set_config('search_path', 'pg_catalog', false),"                                   \
        " set_config('synchronous_commit', 'off', false),"                                         \
        " set_config('default_transaction_isolation', 'read committed', false),"                   \
        " set_config('plan_cache_mode', 'force_generic_plan', false),"                             \
        " set_config('enable_seqscan', 'off', false),"                                             \
        " set_config('enable_bitmapscan', 'off', false),"                                          \
        " set_config('jit', 'off', false),"                                                        \
        " set_config('statement_timeout', $1, false),"                                             \
        " set_config('lock_timeout', $2, false),"                                                  \
        " set_config('idle_in_transaction_session_timeout', '30s', false)," DEAD_CLIENT_SETTINGS

struct outbox {
        uv_loop_t *loop;                 /* borrowed */
        struct postgres_config postgres; /* its texts are borrowed */
        struct pg_conn *conn;            /* owned */
        struct pooling *pooling;         /* asked for while a session begins; NULL: it is not */
        struct list settle_batches;    /* settle_batch::link: gathered, or sent and not answered */
        struct settle_batch *settling; /* of these, the one being gathered; or NULL */
        struct attempt_log *attempts;  /* owned: those that no settle has taken along yet */
        struct timer *attempts_due;    /* owned: armed while there are any */
        size_t n_attempts_alone;       /* those that were last written without a settle */
        struct page_statements pages;
        struct frame_marks marks;
        struct filter_queue *queue;   /* owned */
        char server[64];              /* since when it runs */
        char role[136];               /* of the session, as SQL writes it */
        struct membership membership; /* owns its texts; without a name: it joins no others */
        char locks[48];               /* the digest of those of members and lanes, last read */
        bool is_reading_members, reads_members_again;
        char member[80];    /* its name as a member of this session; empty: it is none */
        unsigned n_polling; /* pages under way that open a difference */
        uint64_t n_news;    /* events that these found, by the one with most */
        uint64_t n_ours;    /* the same of those for the lane's own sink */
        struct outbox_events events;
        void *owner; /* borrowed */

        bool is_listening;
        struct outbox_news news;
        void *news_owner; /* borrowed */
};

struct lane_store {
        struct outbox *outbox; /* borrowed */
        struct lane_store_events events;
        void *owner; /* borrowed */

        const char *sink;     /* borrowed */
        const char *settings; /* borrowed; NULL: not to be noted */
        const char *topics;   /* borrowed, like the next */
        const char *types;
        char lane[16];                  /* as a parameter */
        char n_shards[16];              /* the same: that its sink is to have */
        char lock_id[16];               /* the same; of the lock that was tried last */
        bool is_covered;                /* by another lane's lock */
        bool is_owner_lane;             /* its cursor is for others to see */
        char *start_snapshot;           /* owned; NULL: it begins with the first event */
        char start_floor[24];           /* as a parameter */
        bool is_durable;                /* its settles are flushed to disk */
        char epoch[24];                 /* as a parameter; of the last claim */
        char pace[96];                  /* as a parameter; empty: it has none */
        struct attempt_pack *pack_open; /* attempt_log_add()'s */
        size_t n_attempts;              /* that the settle under way takes along */
        char place[32];                 /* the same; where its cursor's row is: "(0,1)" */
        char place_page[32];            /* the same; and where that page begins: "(0,0)" */

        struct cursor claimed;       /* between its two answers; owns its frames */
        struct page_request request; /* the page being read; owns its frames */
        struct page *page; /* it was empty, and what comes behind it is asked for; owned */
        struct routing_params route; /* which events its pages have */
        bool tells_shards;           /* of which shard each is, of n_shards */
        char *shards; /* owned; an array of the shards whose events they have; NULL: all */
        struct frame *newest_end; /* until it is past this, former shards' events are left out */
        /* Judges them, where the database tells only in part what the lane takes; borrowed. */
        const struct routing *judge;
        int64_t upto;                  /* it reads no further */
        unsigned n_halved;             /* so many times it reads less, because pages failed */
        int64_t asked_us, answered_us; /* of the last page; monotonic clock */
};

/* Prepared in every session. */
extern const struct pg_statement agreement_statements[];
extern const unsigned n_agreement_statements;
extern const struct pg_statement claim_statements[];
extern const unsigned n_claim_statements;
extern const struct pg_statement next_id_statement;
extern const struct pg_statement parked_statement;
extern const struct pg_statement due_lanes_statement;
extern const struct pg_statement receiver_statements[];
extern const unsigned n_receiver_statements;
extern const struct pg_statement settle_one_statement;
extern const struct pg_statement settle_batch_statement;
extern const struct pg_statement settle_statements[];
extern const unsigned n_settle_statements;

/* session.c */

/* A page that opens a difference is asked for, or has come (NULL: it failed). */
void session_note_polling(struct outbox *outbox);
void session_note_polled(struct outbox *outbox, const struct page *page);

/* What was asked is not answered any more. */
void session_forget(struct outbox *outbox);
/* Closes the session for good and tells the owner why. */
void session_refuse(struct outbox *outbox, const struct error *error);

/* Releases the page that waits for an answer. */
void lane_store_forget_page(struct lane_store *store);

/* membership.c */

extern const struct pg_statement membership_statements[];
extern const unsigned n_membership_statements;

void session_join(struct outbox *outbox);
void session_forget_membership(struct outbox *outbox);

/* settle.c */

/* What is executed between these is on disk when it is answered, if the store's lane asks for
 * it. */
void session_begin_durable(struct lane_store *store);
void session_end_durable(struct lane_store *store);

/* Where the row of the store's cursor is, and what that says about where it was. */
enum cursor_room lane_store_note_place(struct lane_store *store, const char *place);

/* Settles that were gathered, or not answered: no answer will come. */
void session_drop_settle_batches(struct outbox *outbox);

/* Attempts that no settle takes along. */
void session_write_attempts(struct outbox *outbox);
