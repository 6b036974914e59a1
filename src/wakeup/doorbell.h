/*
 * The connection that holds the doorbell's lock, waits for it and gives it up,
 * and does nothing else. While a relay holds or awaits the lock, every writer
 * rings, which the `work` session hears (outbox.h). bell.h decides when.
 */
#pragma once

#include "config/config.h"

#include <uv.h>

struct doorbell;

struct doorbell_events {
        void (*on_connected)(void *owner); /* the lock is not held */
        void (*on_lost)(
            void *owner, const struct error *error, int64_t retry_ms); /* and with it the lock */
        /* Each answers doorbell_await(). */
        void (*on_granted)(void *owner);
        void (*on_refused)(void *owner);
        /* Answers doorbell_check_crowd(). */
        void (*on_crowd)(void *owner, bool is_crowded);
};

/* No wait is longer than `wait_max_ms`. */
struct doorbell *doorbell_create(uv_loop_t *loop, const struct postgres_config *config,
    int64_t wait_max_ms, const struct doorbell_events *events, void *owner);
void doorbell_open(struct doorbell *doorbell);
void doorbell_configure(struct doorbell *doorbell, const struct postgres_config *config);
void doorbell_destroy(struct doorbell *doorbell); /* NULL is allowed; gives up the lock */

/* The server that events are read from: the lock of another one keeps no writer from falling silent
 * here. NULL: any, because none are read now. */
void doorbell_follow(struct doorbell *doorbell, const char *server);

/* Waits for the lock, at most so long. When it is granted, every transaction that wrote events
 * without ringing has ended. To be called when connected, and not while another wait lasts. */
void doorbell_await(struct doorbell *doorbell, int64_t wait_ms);
void doorbell_give_up(struct doorbell *doorbell);

/* Do transactions queue in order to notify, anywhere in the cluster? Answered by on_crowd. */
void doorbell_check_crowd(struct doorbell *doorbell);

/* Makes the server answer, so that a dead connection is noticed. */
void doorbell_check(struct doorbell *doorbell);
