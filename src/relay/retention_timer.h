/*
 * Maintains the outbox (operator/maintenance.h) every 30 seconds, whether or not this relay owns
 * any lanes. Logs what was dropped, and which sink still holds expired partitions.
 */
#pragma once

#include "config/config.h"

#include <stdbool.h>
#include <uv.h>

struct retention_timer;

struct retention_timer_events {
        /* True: the credentials may have changed; log nothing, retention_timer_configure() tries
         * the round again. */
        bool (*on_login_refused)(void *owner);
};

struct retention_timer *retention_timer_create(uv_loop_t *loop, const struct config *config,
    const struct retention_timer_events *events, void *owner);

/* From the next round on. */
void retention_timer_configure(
    struct retention_timer *retention_timer, const struct postgres_config *config);
void retention_timer_destroy(
    struct retention_timer *retention_timer); /* NULL is allowed; a round under way is given up */

/* The schema is there: starts the first round, unless it was started before. */
void retention_timer_start(struct retention_timer *retention_timer);
