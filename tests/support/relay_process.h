/*
 * A running pgcourier: the built program (environment variable PGCOURIER) with a config file and a
 * log of its own. It runs as the user of the test and dies with the test. Every failure aborts the
 * test and shows the end of the relay's log.
 */
#pragma once

#include "support/process.h"

struct relay_process {
        struct process process;
        char *folder;
        char *config_path;
        char *log_path; /* everything since relay_start() */
        long log_start; /* where the log of the last start begins */
};

/* Writes the config file from a printf format and runs `pgcourier run -c FILE`. Does not wait. */
struct relay_process *relay_start(const char *config_format, ...)
    __attribute__((format(printf, 1, 2)));

/* After relay_stop() or relay_kill(): the same config file, the log goes on. */
void relay_start_again(struct relay_process *relay);

/* Waits for `text`, e.g. "event=lane_acquired", in a log line since the last start. */
void relay_wait_for_log(struct relay_process *relay, const char *text, int64_t deadline_ms);

/* Replaces the config file as a whole, as an editor does; and, the second, sends SIGHUP. Does not
 * wait. */
void relay_rewrite(struct relay_process *relay, const char *config_format, ...)
    __attribute__((format(printf, 2, 3)));
void relay_reload(struct relay_process *relay, const char *config_format, ...)
    __attribute__((format(printf, 2, 3)));

/* How many lines since the last start hold `text`. */
unsigned relay_count_in_log(const struct relay_process *relay, const char *text);

/* SIGTERM; aborts the test unless the relay drains and exits with 0 and without a sanitizer
 * report. */
void relay_stop(struct relay_process *relay);

/* Waits for an end by itself; the exit code. Aborts the test on a sanitizer report. */
int relay_wait(struct relay_process *relay, int64_t deadline_ms);

void relay_kill(struct relay_process *relay); /* SIGKILL */

long relay_rss_kib(const struct relay_process *relay); /* resident memory */

/* Frees it; kills it first if it still runs. NULL is allowed. */
void relay_destroy(struct relay_process *relay);
