/*
 * Sees to it that the outbox is maintained (operator/maintenance.h): a round every
 * half a minute, whoever owns the lanes, because a table that nobody keeps grows.
 * Says in the log what was done, and who keeps what is over from going.
 */
#pragma once

#include "config/config.h"

#include <stdbool.h>
#include <uv.h>

struct retention_timer;

struct retention_timer_events {
        /* True: nothing is to be told now, as there may be other credentials: retention_timer_configure() has the round
         * tried again with them. */
        bool (*on_login_refused)(void *owner);
};

struct retention_timer *retention_timer_create(uv_loop_t *loop, const struct config *config,
    const struct retention_timer_events *events, void *owner);

/* From the next round on. */
void retention_timer_configure(
    struct retention_timer *retention_timer, const struct postgres_config *config);
void retention_timer_destroy(
    struct retention_timer *retention_timer); /* NULL is allowed; a round under way is given up */

/* The outbox is there: the first round begins, unless one did before. */
void retention_timer_start(struct retention_timer *retention_timer);
