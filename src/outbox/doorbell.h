/*
 * The doorbell's inner side: a connection of its own that LISTENs and is never
 * in a transaction. Being rung means that there may be something to read, or
 * that somebody changed something by hand; it is a hint, and the sweep covers
 * the loss of any of them.
 */
#pragma once

#include "config/config.h"

#include <uv.h>

struct doorbell;

struct doorbell_events {
        /* Also called once after each (re)connect: what was rung meanwhile went unheard. */
        void (*on_rung)(void *owner);
        /* Something was changed by hand: pauses, parked deliveries. Also once after each (re)connect.
         * May be NULL. */
        void (*on_control)(void *owner);
        void (*on_connected)(void *owner);
        void (*on_lost)(void *owner, const struct error *error, int64_t retry_ms);
};

struct doorbell *doorbell_create(uv_loop_t *loop, const struct postgres_config *config,
    const struct doorbell_events *events, void *owner);
void doorbell_open(struct doorbell *doorbell);
void doorbell_destroy(struct doorbell *doorbell); /* NULL is allowed */

/* Makes the server answer, so that a connection that died in silence is found out. */
void doorbell_check(struct doorbell *doorbell);
