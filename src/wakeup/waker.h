/*
 * Wakes the relay when there is news. The bell (bell.h) decides; the doorbell's
 * connection, the outbox's session and a timer tell it what happens, and do what
 * it wants.
 */
#pragma once

#include "config/config.h"

#include <stdbool.h>
#include <uv.h>

struct outbox;
struct waker;

struct waker_events {
        /* Inside waker_serve(): all lanes are to poll; `is_rung`: because a writer has rung. */
        void (*on_poll)(void *owner, bool is_rung);
        void (*on_dirty)(void *owner); /* call waker_serve() before the loop waits */
        /* True: there may be other credentials; nothing is to be reported before the next try. */
        bool (*on_login_refused)(void *owner);
};

/* Makes the outbox listen, which is not open yet. */
struct waker *waker_create(uv_loop_t *loop, const struct config *config, struct outbox *outbox,
    const struct waker_events *events, void *owner);
void waker_open(struct waker *waker);
void waker_destroy(struct waker *waker); /* NULL is allowed */

/* Other settings: of the relay; and of the next connection. */
void waker_configure(struct waker *waker, const struct relay_config *config);
void waker_configure_connection(struct waker *waker, const struct postgres_config *config);

/* The outbox's session is there, or lost. */
void waker_session_up(struct waker *waker);
void waker_session_down(struct waker *waker);

/* Some lane is ours, or none. */
void waker_own(struct waker *waker, bool is_any);

/* Makes the server answer on a connection that rests, so that a dead one is noticed. */
void waker_check(struct waker *waker);

/* The end of a turn of the loop: does what the bell wants. */
void waker_serve(struct waker *waker);
