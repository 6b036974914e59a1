/*
 * Drives one sink directly on a loop, in the relay's place: counts answers and
 * checks that each attempt gets exactly one.
 */
#pragma once

#include "pgcourier/sink.h"

#include <stdbool.h>

struct sink_drive {
        uv_loop_t loop;
        struct sink_settings settings;
        struct sink *sink; /* NULL: not open */
        bool is_closed;
        bool is_probed;
        struct outcome probe_outcome;
};

/* An attempt and how it ended. */
struct
try {
        struct attempt attempt;
        unsigned n_answers;
        struct outcome outcome;
};

/* Opens the sink; aborts the test if it refuses. `options` is borrowed until sink_drive_end(). */
void sink_drive_begin(
    struct sink_drive *drive, const struct sink_ops *ops, const char *name, const void *options);

/* Closes the sink and waits until it says that it is closed. */
void sink_drive_close(struct sink_drive *drive);

/* The same, unless done, and closes the loop; aborts the test if a handle is left on it. */
void sink_drive_end(struct sink_drive *drive);

/* Runs the loop until the condition holds; aborts the test with `what` after 20 s. */
void sink_drive_until(
    struct sink_drive *drive, bool (*condition)(void *context), void *context, const char *what);

/* Starts an attempt. `event` is borrowed until it is answered. */
void sink_drive_start(struct sink_drive *drive, struct try *try, const struct event *event);

/* Runs the loop until all have been answered. */
void sink_drive_wait(struct sink_drive *drive, struct try *tries, unsigned n_tries);

/* Both. */
struct outcome sink_drive_deliver(struct sink_drive *drive, const struct event *event);

struct outcome sink_drive_probe(struct sink_drive *drive);
