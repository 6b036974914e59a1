/*
 * What wakes the relay when there is news. The bell decides; the doorbell's
 * connection, the outbox's session and a timer tell it what happens and carry
 * out what it wants.
 */
#pragma once

#include "config/config.h"

#include <stdbool.h>
#include <uv.h>

struct outbox;
struct waker;

struct waker_events {
        /* Inside waker_serve(): every lane is to look, because a writer has rung or by itself. */
        void (*on_look)(void *owner, bool is_rung);
        void (*on_dirty)(void *owner); /* call waker_serve() before the loop waits */
        /* True: there may be other credentials; nothing is to be told before the next try. */
        bool (*on_login_refused)(void *owner);
};

/* The outbox, which is not open yet, is made to listen. */
struct waker *waker_create(uv_loop_t *loop, const struct config *config, struct outbox *outbox,
    const struct waker_events *events, void *owner);
void waker_open(struct waker *waker);
void waker_destroy(struct waker *waker); /* NULL is allowed */

/* Its settings are others: those of the relay alone; and those of the next connection. */
void waker_configure(struct waker *waker, const struct relay_config *config);
void waker_configure_connection(struct waker *waker, const struct postgres_config *config);

/* Some lane is ours, or none. */
void waker_own(struct waker *waker, bool is_any);

/* Has the server answer on a connection that rests, so that a dead one is found out. */
void waker_check(struct waker *waker);

void waker_serve(struct waker *waker);
