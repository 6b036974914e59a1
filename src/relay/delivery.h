/* One event on its way to one sink. */
#pragma once

#include "base/list.h"
#include "pgcourier/sink.h"

#include <stdbool.h>
#include <stdint.h>

enum delivery_state {
        DELIVERY_READY,     /* may start */
        DELIVERY_BLOCKED,   /* behind an earlier one of its key */
        DELIVERY_IN_FLIGHT, /* with the sink */
        DELIVERY_WAITING,   /* failed, to be tried again when due */
        DELIVERY_DONE,      /* delivered; waits in the window for those before it */
};

struct delivery {
        const struct event *event; /* borrowed from its page in the window */
        enum delivery_state state;
        uint32_t n_attempts; /* that count: started, and not ended by an outage or by us */
        int64_t due_ms;      /* while WAITING */
        uint64_t sequence;   /* its place in the delivery order of its lane */
        struct list link;    /* turns.c's, while READY or WAITING */

        /* key_order.c's */
        struct key_chain *chain; /* the undelivered ones of its key, itself included; or NULL */
        struct list chain_link;
        bool has_failed; /* at least once since it joined the chain */

        struct attempt attempt;
};
