/* A module that takes events and drops them, and what can be wrong with one: each test compiles it
 * with another macro. */
#include <pgcourier/module.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef KIND
#define KIND "null"
#endif

void function_that_is_nowhere(void);

struct null_sink {
        struct sink sink;
        uv_timer_t timer;
        uv_check_t turn;
        unsigned n_in_turn; /* attempts since the loop waited last */
        sink_probed_fn *on_probed;
        sink_closed_fn *on_closed;
        void *owner;
};

static const struct sink_ops null_ops;
static struct null_sink *newest
    __attribute__((used)); /* never closed, and no leak: it is reachable */

static void on_turn(uv_check_t *turn)
{
        struct null_sink *null = turn->data;

        null->n_in_turn = 0;
}

static struct sink *null_open(const struct sink_settings *settings, struct error *error)
{
        struct null_sink *null = newest = calloc(1, sizeof *null);

#if defined SILENT
        (void)settings;
        (void)error;
        free(null);
        return NULL;
#elif !defined UNINITIALISED
        (void)error;
        sink_init(&null->sink, &null_ops, settings);
        uv_check_init(settings->loop, &null->turn);
        null->turn.data = null;
        uv_check_start(&null->turn, on_turn);
        uv_timer_init(settings->loop, &null->timer);
        null->timer.data = null;
#endif
        return &null->sink;
}

#if defined SLOW
static int64_t now_us(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

/* 2 ms for each attempt. Those that begin within 5 ms are 3, and 4 is what the turn takes. */
static void deliver_slowly(struct null_sink *null, struct attempt *attempt)
{
        struct outcome outcome = outcome_make(OUTCOME_REJECTED, "one more in this turn");

        for (int64_t began_us = now_us(); now_us() < began_us + 2000;)
                continue;
        attempt_finish_later(attempt, ++null->n_in_turn > 4 ? &outcome : &outcome_delivered);
}
#endif

#ifndef NO_DELIVER
static void null_deliver(struct sink *sink, struct attempt *attempt)
{
        (void)sink;
#if defined CALLS_NOTHING
        function_that_is_nowhere();
#elif defined FINISHES_AT_ONCE
        attempt_finish(attempt, &outcome_delivered);
#elif defined SLOW
        deliver_slowly((struct null_sink *)sink, attempt);
#elif defined FANS_OUT
        struct outcome outcome =
            outcome_make(OUTCOME_REJECTED, "%s wants nothing", (const char *)attempt->target);
        attempt_finish_later(attempt, &outcome);
#else
        attempt_finish_later(attempt, &outcome_delivered);
#endif
}
#endif

static void *null_open_target(
    struct sink *sink, const struct target_settings *settings, struct error *error)
{
        (void)sink;
        if (strncmp(settings->url, "https://", 8) != 0)
                return sink_open_failed(error, "the URL is none of ours");
        return strdup(settings->url + 8);
}

static void null_close_target(struct sink *sink, void *target)
{
        (void)sink;
        free(target);
}

static void null_cancel(struct sink *sink)
{
        (void)sink;
}

static void on_closed(uv_handle_t *handle)
{
        struct null_sink *null = handle->data;
        sink_closed_fn *call = null->on_closed;
        void *owner = null->owner;

        sink_deinit(&null->sink);
        free(null);
        call(owner);
}

static void on_turn_closed(uv_handle_t *handle)
{
        struct null_sink *null = handle->data;

        uv_close((uv_handle_t *)&null->timer, on_closed);
}

static void on_close_due(uv_timer_t *timer)
{
        struct null_sink *null = timer->data;

        uv_close((uv_handle_t *)&null->turn, on_turn_closed);
}

static void null_close(struct sink *sink, sink_closed_fn *call, void *owner)
{
        struct null_sink *null = (struct null_sink *)sink;

        null->on_closed = call;
        null->owner = owner;
#if defined CLOSES_LATE
        uv_timer_start(&null->timer, on_close_due, 3000, 0);
#else
        on_close_due(&null->timer);
#endif
}

static void on_timer(uv_timer_t *timer)
{
        struct null_sink *null = timer->data;

        null->on_probed(null->owner, &outcome_delivered);
}

static void null_probe(struct sink *sink, sink_probed_fn *call, void *owner)
{
        struct null_sink *null = (struct null_sink *)sink;

        null->on_probed = call;
        null->owner = owner;
        uv_timer_start(&null->timer, on_timer, 0, 0);
}

static const struct sink_ops null_ops = {
    .kind = KIND,
    .keeps_order = true,
    .open = null_open,
#ifndef NO_DELIVER
    .deliver = null_deliver,
#endif
#if defined FANS_OUT || defined FINISHES_AT_ONCE || defined SLOW
    .open_target = null_open_target,
    .close_target = null_close_target,
#endif
    .cancel = null_cancel,
    .close = null_close,
    .probe = null_probe,
};

#if defined OTHER_INTERFACE
const struct pgcourier_module pgcourier_module
    __attribute__((visibility("default"))) = {.interface = PGCOURIER_SINK_INTERFACE + 1};
#elif defined OTHER_SIZE
const struct pgcourier_module pgcourier_module
    __attribute__((visibility("default"))) = {.interface = PGCOURIER_SINK_INTERFACE,
        .sizes = {.module_ = sizeof(struct pgcourier_module), .ops = sizeof(struct sink_ops) + 8},
        .ops = &null_ops};
#elif defined NO_SYMBOL
const void *unused = &null_ops;
#else
PGCOURIER_MODULE(.version = "0.0.1", .ops = &null_ops);
#endif
