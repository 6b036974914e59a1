/* One event on its way to one sink. */
#pragma once

#include "base/list.h"
#include "outbox/settlement.h"
#include "pgcourier/sink.h"

#include <stdbool.h>
#include <stdint.h>

/*
 *   READY, BLOCKED -> IN_FLIGHT -> DECIDED    and back to READY or BLOCKED if an outage ended it
 *
 * A slow one may be parked while it is IN_FLIGHT: then it has a verdict already, and gets another
 * when its attempt ends.
 */
enum delivery_state {
        DELIVERY_READY,     /* may start */
        DELIVERY_BLOCKED,   /* behind an earlier one of its key */
        DELIVERY_IN_FLIGHT, /* with the sink */
        DELIVERY_DECIDED,   /* delivered, or its verdict is on its way to the database */
};

struct batch;

struct delivery {
        const struct event *event; /* borrowed from its batch */
        struct batch *batch;       /* what it came with */
        enum delivery_state state;
        bool is_parked;      /* it has a row in courier.parked */
        bool is_row_delayed; /* whose state is still `delayed` */
        bool is_decided;     /* window.c's: from the stream, and the position may pass it */
        bool is_passed;      /* window.c's: the position has passed it */
        uint32_t n_attempts; /* that count: started, and not ended by an outage or by us */
        int64_t retried_ms;  /* the sum of the delays so far */
        int64_t started_ms;  /* while IN_FLIGHT */
        int64_t started_us;  /* the route's: the same, monotonic clock */
        uint64_t sequence;   /* its place in the delivery order of its lane; from the stream only */
        struct list link;    /* ready_queue.c's, while READY */
        struct list claimed_link; /* lane::claimed, while it is parked and in memory */

        /* For suspicion: an unanswered attempt is charged only if the sink answered others since. */
        bool is_suspect;
        uint64_t n_answers_then; /* of the lane, when it failed last without being charged */

        /* What the database is to know; owned; NULL: nothing. The second waits until the first,
         * which is on its way, has arrived. */
        struct verdict *verdict;
        struct verdict *next_verdict;
        bool is_verdict_sent;

        /* key_order.c's */
        struct key_chain *chain; /* those of its key, itself included; or NULL */
        struct list chain_link;
        bool has_failed;     /* at least once since it joined the chain */
        bool is_out_of_line; /* one that stood before it was stored meanwhile */

        struct attempt attempt;
};
