/*
 * A lane that reads the outbox inside the test's process: the real connection, statements and lane,
 * with the test in place of a sink. Every delivery is recorded and at once taken as delivered.
 */
#pragma once

#include "lane/lane.h"
#include "outbox/outbox.h"
#include "outbox/routing.h"

#include <stdbool.h>
#include <stdint.h>

struct reader {
        uv_loop_t loop;
        struct outbox *outbox;
        struct agreement agreement;
        struct lane_store *store;
        struct lane lane;
        uv_prepare_t before_waiting;
        uv_timer_t poll; /* rings as often as possible while reader_run() is told to */
        struct postgres_config config;
        struct routing routing;
        bool is_owned;
        bool is_elsewhere;
        bool is_down;
        struct error refused; /* kind ERROR_NONE unless the outbox refused us */

        char **payloads; /* of all deliveries, in order; owned */
        int64_t *ids;
        size_t n_deliveries;
        size_t n_pages;
        size_t largest_page; /* events */
};

/* For sink "test", all topics, from the beginning, unless changed. */
struct reader_options {
        const char *sink;
        struct routing routing; /* without topics: all */
        enum start start;
        uint32_t max_in_flight;       /* 0: 1000 */
        uint64_t max_in_flight_bytes; /* 0: 16 MiB */
};

/* Connects and owns the lane (or is told that it is owned elsewhere, or refused). */
struct reader *reader_open(const char *dsn, const struct reader_options *options);

/* Rings, and runs the loop until everything there is has been read and settled. */
void reader_catch_up(struct reader *reader);

/* Runs the loop, looking for news all the time, until `is_done(context)`. */
void reader_follow(struct reader *reader, bool (*is_done)(void *context), void *context);

/* Closes the session without settling anything more: what a crash would leave. Frees it. */
void reader_close(struct reader *reader);
