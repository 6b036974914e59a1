#include "wakeup/waker.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "log/log.h"
#include "loop/timer.h"
#include "outbox/outbox.h"
#include "wakeup/bell.h"
#include "wakeup/doorbell.h"

#include <stdlib.h>

struct waker {
        struct bell bell;
        struct outbox *outbox;     /* borrowed */
        struct doorbell *doorbell; /* owned */
        struct timer *poll;        /* owned; the bell's next_due */
        enum bell_state logged;
        bool is_rung; /* since the last poll */
        struct waker_events events;
        void *owner; /* borrowed */
};

static void on_connected(void *owner)
{
        struct waker *waker = owner;

        log_info("listening");
        bell_connected(&waker->bell, clock_monotonic_us());
        waker->events.on_dirty(waker->owner);
}

static void on_lost(void *owner, const struct error *error, int64_t retry_ms)
{
        struct waker *waker = owner;

        /* While the session is down, too, its own warning is enough. */
        if (error->kind != ERROR_LOGIN || !waker->events.on_login_refused(waker->owner))
                log_at(outbox_is_up(waker->outbox) ? LEVEL_WARN : LEVEL_DEBUG,
                    "doorbell_connection_lost", kv_text("error", error->text),
                    kv_int("retry_ms", retry_ms));
        bell_lost(&waker->bell, clock_monotonic_us());
        waker->events.on_dirty(waker->owner);
}

static void on_granted(void *owner)
{
        struct waker *waker = owner;

        bell_granted(&waker->bell, clock_monotonic_us());
        waker->events.on_dirty(waker->owner);
}

static void on_crowd(void *owner, bool is_crowded)
{
        struct waker *waker = owner;

        bell_crowded(&waker->bell, is_crowded, clock_monotonic_us());
        waker->events.on_dirty(waker->owner);
}

static void on_refused(void *owner)
{
        struct waker *waker = owner;

        bell_refused(&waker->bell, clock_monotonic_us());
        waker->events.on_dirty(waker->owner);
}

static void on_poll_due(void *owner)
{
        struct waker *waker = owner;

        waker->events.on_dirty(waker->owner);
}

static void on_rung(void *owner)
{
        struct waker *waker = owner;

        bell_rung(&waker->bell, clock_monotonic_us());
        waker->is_rung = waker->bell.is_poll_wanted; /* or it polls all the time anyway */
        waker->events.on_dirty(waker->owner);
}

static void on_polling(void *owner)
{
        struct waker *waker = owner;

        bell_polling(&waker->bell, clock_monotonic_us());
}

static void on_polled(void *owner, uint64_t n_news, uint64_t n_ours)
{
        struct waker *waker = owner;

        bell_polled(&waker->bell, n_news, n_ours, clock_monotonic_us());
        waker->events.on_dirty(waker->owner);
}

struct waker *waker_create(uv_loop_t *loop, const struct config *config, struct outbox *outbox,
    const struct waker_events *events, void *owner)
{
        static const struct doorbell_events doorbell_events = {.on_connected = on_connected,
            .on_lost = on_lost,
            .on_crowd = on_crowd,
            .on_granted = on_granted,
            .on_refused = on_refused};
        static const struct outbox_news news = {
            .on_rung = on_rung, .on_polling = on_polling, .on_polled = on_polled};
        struct waker *waker = xcalloc(1, sizeof *waker);

        bell_init(&waker->bell, config->relay.sweep_ms, config->relay.poll_interval_ms);
        waker->events = *events;
        waker->owner = owner;
        waker->outbox = outbox;
        waker->poll = timer_create_on(loop, on_poll_due, waker);
        waker->doorbell =
            doorbell_create(loop, &config->postgres, BELL_WAIT_MAX_MS, &doorbell_events, waker);
        outbox_listen(outbox, &news, waker);
        return waker;
}

void waker_configure(struct waker *waker, const struct relay_config *config)
{
        bell_configure(&waker->bell, config->sweep_ms, config->poll_interval_ms);
}

void waker_configure_connection(struct waker *waker, const struct postgres_config *config)
{
        doorbell_configure(waker->doorbell, config);
}

void waker_open(struct waker *waker)
{
        doorbell_open(waker->doorbell);
}

void waker_destroy(struct waker *waker)
{
        if (waker == NULL)
                return;
        doorbell_destroy(waker->doorbell);
        timer_destroy(waker->poll);
        free(waker);
}

void waker_session_up(struct waker *waker)
{
        doorbell_follow(waker->doorbell, outbox_server(waker->outbox));
}

void waker_session_down(struct waker *waker)
{
        doorbell_follow(waker->doorbell, NULL);
}

void waker_own(struct waker *waker, bool is_any)
{
        bell_own(&waker->bell, is_any, clock_monotonic_us());
}

void waker_check(struct waker *waker)
{
        /* A wait is answered in any case. */
        if (waker->bell.lock == BELL_LOCK_FREE || waker->bell.lock == BELL_LOCK_HELD)
                doorbell_check(waker->doorbell);
}

static void log_state(struct waker *waker)
{
        if (waker->bell.state == waker->logged)
                return;
        log_debug("doorbell_state", kv_text("from", bell_state_name(waker->logged)),
            kv_text("to", bell_state_name(waker->bell.state)));
        waker->logged = waker->bell.state;
}

static void arm(struct waker *waker, int64_t now_us)
{
        int64_t due_us = bell_next_due(&waker->bell);

        if (due_us < 0)
                timer_disarm(waker->poll);
        else
                timer_arm(
                    waker->poll, due_us > now_us ? (uint64_t)(due_us - now_us + 999) / 1000 : 0);
}

/* False if nothing was wanted. */
static bool serve_wish(struct waker *waker)
{
        int64_t wait_ms;

        switch (bell_next_wish(&waker->bell, &wait_ms)) {
        case BELL_NOTHING:
                return false;
        case BELL_CHECK_CROWD:
                doorbell_check_crowd(waker->doorbell);
                return true;
        case BELL_AWAIT:
                doorbell_await(waker->doorbell, wait_ms);
                return true;
        case BELL_GIVE_UP:
                doorbell_give_up(waker->doorbell);
                return true;
        }
        return false;
}

void waker_serve(struct waker *waker)
{
        int64_t now_us = clock_monotonic_us();

        log_state(waker);
        while (serve_wish(waker))
                ;
        if (bell_wants_poll(&waker->bell, now_us)) {
                bool is_rung = waker->is_rung;
                waker->is_rung = false;
                waker->events.on_poll(waker->owner, is_rung);
        }
        arm(waker, now_us);
}
