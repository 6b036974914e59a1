/*
 * When a delivery that failed is tried again, and when it is given up. Pure.
 */
#pragma once

#include "base/backoff.h"
#include "outbox/settlement.h"
#include "pgcourier/outcome.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A peer that asks for a longer delay than this gets this. */
#define RETRY_MAX_PEER_DELAY_MS (INT64_C(24) * 60 * 60 * 1000)

struct retry_policy {
        struct backoff backoff;
        /* In place of the backoff, the delay after each failed attempt, used as it is. A delivery
         * is given up after the last. Borrowed; NULL: none. */
        const int64_t *delays_ms;
        size_t n_delays;
        uint32_t max_attempts; /* 0: any number */
        int64_t max_age_ms;    /* sum of the delays, without outages of the sink; 0: any */
};

struct retry_decision {
        bool gives_up;
        enum dead_reason reason; /* if it gives up: DEAD_ATTEMPTS or DEAD_AGE */
        int64_t delay_ms;        /* otherwise */
};

/*
 * After an attempt that ended in RETRY, or in a SINK_DOWN that is charged. `n_attempts` counts it
 * too; `retried_ms` is the sum of the delays before it; `jitter` is any 32-bit value. The delay is
 * the policy's own, or the one that the peer asked for if that is larger (at most
 * RETRY_MAX_PEER_DELAY_MS).
 */
struct retry_decision retry_decide(const struct retry_policy *policy, const struct outcome *outcome,
    uint32_t n_attempts, int64_t retried_ms, uint32_t jitter);
