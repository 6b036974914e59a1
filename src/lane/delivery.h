/*
 * One event on its way to one sink, the batch that it was read with, and the queue of those that
 * may start. Pure.
 */
#pragma once

#include "base/list.h"
#include "outbox/page.h"
#include "outbox/parked.h"
#include "outbox/settlement.h"
#include "pgcourier/sink.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 *   READY, BLOCKED -> IN_FLIGHT -> DECIDED    and back to READY or BLOCKED if an outage ended it
 *
 * A slow delivery may be parked while it is IN_FLIGHT. It then has a verdict already, and gets
 * another one when its attempt ends.
 */
enum delivery_state {
        DELIVERY_READY,     /* may start */
        DELIVERY_BLOCKED,   /* behind an earlier delivery of its key */
        DELIVERY_IN_FLIGHT, /* with the sink */
        DELIVERY_DECIDED,   /* delivered, or its verdict is on its way to the database */
};

/* What courier.parked has of a delivery. */
enum delivery_row {
        ROW_NONE,
        ROW_DELAYED, /* a row in state `delayed`: it has no place behind its key yet */
        ROW_IN_LINE, /* a row in any other state */
};

struct batch;

struct delivery {
        const struct event *event; /* borrowed from its batch */
        struct batch *batch;       /* what it was read with */
        enum delivery_state state;
        enum delivery_row row;
        uint32_t n_attempts; /* that count: started, and not ended by an outage or by us */
        int64_t retried_ms;  /* the sum of the delays so far */
        int64_t started_ms;  /* while IN_FLIGHT */
        int64_t started_us;  /* the runner's: the same, monotonic clock */
        uint64_t sequence;   /* its place in the delivery order of its lane; from the stream only */
        struct list link;    /* of a struct ready_queue, while READY */
        /* parked_reader::claimed, while it is in memory and has or gets a row. */
        struct list claimed_link;

        uint64_t n_started; /* attempts of the lane, with the latest one of this */

        /* What the database is to know; owned; NULL: nothing. The second one waits until the first
         * one, which a settle carries, is written. */
        struct verdict *verdict;
        struct verdict *next_verdict;

        /* key_order.c's */
        struct key_chain *chain; /* of its key, with itself in it; or NULL */
        struct list chain_link;
        bool has_failed;   /* at least once since it joined the chain */
        bool is_overtaken; /* a delivery that stood before it in the chain was stored meanwhile */

        struct attempt attempt;
};

/* Deliveries that were read together, from the stream (a page) or from courier.parked. */
struct batch {
        struct list link;
        struct page *page;           /* owned; NULL if it was parked */
        struct parked_batch *parked; /* owned; NULL if it is from the stream */
        size_t bytes;                /* of the payloads */
        int64_t arrived_us;          /* from the database; monotonic clock */
        size_t n_done; /* the cursor has passed so many of the first ones: window.c's; or all */
        size_t n_held; /* deliveries behind the cursor that still need the batch */
        size_t n_deliveries;
        struct delivery deliveries[];
};

/* Takes the page or the parked batch. The deliveries are READY, but in no queue. */
struct batch *batch_of_page(struct page *page);
struct batch *batch_of_parked(struct parked_batch *parked);

/* Frees it with its events and any verdict left. It is in no list any more. */
void batch_free(struct batch *batch);

/* It is neither with the sink nor decided. */
bool delivery_is_waiting(const struct delivery *delivery);

/* The cursor has passed it: what becomes of it now needs a verdict of its own. */
bool delivery_is_behind_cursor(const struct delivery *delivery);

/* The cursor may pass it: it is delivered, or has a verdict. */
bool delivery_is_decided(const struct delivery *delivery);

/* Its row of courier.parked is written, or a settle under way writes it. */
bool delivery_has_row(const struct delivery *delivery);

/*
 * The deliveries of a lane that may start, and which of them is next.
 *
 *   resumed   started or blocked before; these go first
 *   parked    read back from courier.parked    } these two in turn
 *   fresh     from the stream, never started   }
 *   suspects  they blame the destination, or their target is blamed: they go
 *             when no other can, until it has answered others (suspects.h)
 *
 * The lists link delivery::link, and own nothing.
 */
struct ready_queue {
        struct list resumed; /* in delivery order; those that were read back at the front */
        struct list parked;
        struct list fresh; /* in delivery order */
        struct list suspects;
        bool takes_newest; /* the last of the fresh ones goes before all others */
        bool is_turn_of_parked;
};

void ready_queue_init(struct ready_queue *ready);

/* Behind all others of its list. */
void ready_queue_add_fresh(struct ready_queue *ready, struct delivery *delivery);
void ready_queue_add_parked(struct ready_queue *ready, struct delivery *delivery);
void ready_queue_add_suspect(struct ready_queue *ready, struct delivery *delivery);

/* It was started or blocked before, and may start now. */
void ready_queue_resume(struct ready_queue *ready, struct delivery *delivery);

/* The destination has answered: suspects are tried like others. */
void ready_queue_clear_suspicion(struct ready_queue *ready);

bool ready_queue_is_any_ready(const struct ready_queue *ready);
bool ready_queue_is_any_unsuspected(const struct ready_queue *ready);
struct delivery *ready_queue_next(struct ready_queue *ready);      /* NULL if none is ready */
struct delivery *ready_queue_take_next(struct ready_queue *ready); /* NULL if none is ready */
