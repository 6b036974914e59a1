/*
 * A drain by one of the strategies:
 *
 *   STRATEGY DSN BATCH null|redis:SOCKET|http:PORT [LOOK_EVERY_MS]
 *
 * delivers all that its table holds and ends; lease, with LOOK_EVERY_MS, waits for so long and
 * starts again, until its standard input ends. Its result is one line on standard output, `events=N batches=N us=N`: from the first
 * request to the database until the sink has acknowledged the last event. It keeps its connections
 * until its standard input ends, so that the measuring program can look at its processes first.
 */
#pragma once

#include "database.h"
#include "sink.h"

#include <stdbool.h>

struct run {
        const char *dsn;
        int batch;
        char batch_text[12]; /* the same as a parameter */
        int look_every_ms;   /* 0: once */
        const struct sink *sink;
        struct event *events; /* the batch at hand */
        int capacity;
        int64_t started_us, ended_us;
        int64_t n_events, n_batches;
};

/* Before anything is prepared, and after it. */
void run_init(struct run *run, int n_args, char **args);
void run_start(struct run *run);

/* Delivers all rows and returns when the sink has acknowledged them. Adds their ids to *ids, unless
 * that is NULL; returns the largest. */
int64_t run_deliver(struct run *run, const PGresult *rows, struct id_list *ids);

/* Nothing is left: waits, and says whether to start again. */
bool run_goes_on(const struct run *run);

/* Prints the result and waits for the end of standard input. */
void run_end(struct run *run);
