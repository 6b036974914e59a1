/*
 * Drives one real sink on a loop of its own, in the relay's place: hands it attempts and keeps what
 * each came to. Aborts the test when the sink breaks its contract: answers twice or inside a call,
 * leaves a handle on the loop, or lets a wait be in vain (after 30 s). That no attempt is finished
 * too early is asserted by sinks/sink.c.
 */
#pragma once

#include "pgcourier/sink.h"

#include <stdbool.h>
#include <stddef.h>

#define SINK_DRIVER_MAX_ATTEMPTS 25000

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
        uv_timer_t deadline;
        uv_timer_t pulse; /* so that a condition outside the loop is looked at, too */
        const char *awaited;
        struct sink *sink; /* NULL once it is being closed */
        bool is_closed;
        struct driven_attempt *attempts; /* by number */
        size_t n_started;
        size_t n_finished;
        bool is_probed;
        struct outcome probe_outcome;
        void *target; /* of the attempts that are started from now on; NULL: the sink has none */

        /* Optional: called inside each finish, when it has been noted. */
        void (*on_finished)(struct sink_driver *driver);
};

/* Opens the sink; aborts the test if that fails. `options` is borrowed. SIGPIPE is ignored from
 * now on, as in the program. */
void sink_driver_init(struct sink_driver *driver, const struct sink_ops *ops, const void *options);

/* The same for so many attempts in flight; 0: as many as the kind likes. */
void sink_driver_init_for(struct sink_driver *driver, const struct sink_ops *ops,
    const void *options, unsigned concurrency);

/* Closes the sink unless that was done, runs the loop dry and closes it. */
void sink_driver_deinit(struct sink_driver *driver);

/* Only closes the sink, and waits until it says that it is closed. */
void sink_driver_close(struct sink_driver *driver);

/* The same without the wait; may be called inside a finish. */
void sink_driver_start_close(struct sink_driver *driver);

/* Starts an attempt without running the loop. The event is copied, what it points at is borrowed.
 * Returns its number. */
size_t sink_driver_start(struct sink_driver *driver, const struct event *event);
void sink_driver_flush(struct sink_driver *driver);

/* Runs the loop until all attempts are finished. */
void sink_driver_finish(struct sink_driver *driver);

/* Runs the loop until `condition(context)`, and not a turn longer; `awaited` says for what. */
void sink_driver_run_until(struct sink_driver *driver, bool (*condition)(void *context),
    void *context, const char *awaited);

/* Start, flush and finish one attempt. */
struct outcome sink_driver_deliver(struct sink_driver *driver, const struct event *event);
struct outcome sink_driver_probe(struct sink_driver *driver);

/* A JSON event with this payload; its event_id is made from `number`. */
struct event sample_event(int64_t number, const char *json);
