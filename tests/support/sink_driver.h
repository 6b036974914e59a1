/* Drives one real sink on a loop of its own, as the relay would, for tests. */
#pragma once

#include "pgcourier/sink.h"

#include <stdbool.h>
#include <stddef.h>

#define SINK_DRIVER_MAX_ATTEMPTS 20000

struct driven_attempt {
        struct attempt attempt;
        struct event event;
        struct sink_driver *driver;
        bool is_finished;
        size_t place; /* among the finished ones: 0 for the first */
        struct outcome outcome;
};

struct sink_driver {
        uv_loop_t loop;
        struct sink *sink;
        struct driven_attempt *attempts;
        size_t n_started;
        size_t n_finished;
        bool is_probed;
        struct outcome probe_outcome;
};

/* Opens the sink; aborts the test if that fails. `options` is borrowed. */
void sink_driver_init(struct sink_driver *driver, const struct sink_ops *ops, const void *options);

/* Closes the sink, runs the loop dry and closes it; aborts the test if a handle was left over. */
void sink_driver_deinit(struct sink_driver *driver);

/* Starts an attempt without running the loop. The event is copied, what it points at is borrowed.
 * Returns its number. */
size_t sink_driver_start(struct sink_driver *driver, const struct event *event);
void sink_driver_flush(struct sink_driver *driver);

/* Runs the loop until all attempts are finished; aborts the test after 30 s. */
void sink_driver_finish(struct sink_driver *driver);

/* Runs the loop until `condition(context)`; aborts the test after 30 s. */
void sink_driver_run_until(
    struct sink_driver *driver, bool (*condition)(void *context), void *context);

/* Start, flush and finish one attempt. */
struct outcome sink_driver_deliver(struct sink_driver *driver, const struct event *event);
struct outcome sink_driver_probe(struct sink_driver *driver);

/* A JSON event with this payload; its event_id is made from `number`. */
struct event sample_event(int64_t number, const char *json);
