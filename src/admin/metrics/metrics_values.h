/* Single values that are shown as metrics; not a number: not known. */
#pragma once

#include <jansson.h>
#include <stdint.h>

struct sink_telemetry;
struct telemetry;

/* What the kernel says of this process. Not a number: not known. */
struct process_stats {
        double cpu_seconds;
        double resident_bytes;
        double virtual_bytes;
        double open_fds;
        double max_fds;
};

struct metrics_source {
        const struct telemetry *telemetry;
        const json_t *look; /* or NULL */
        struct process_stats process;
};

/* As the last look saw the database, and a sink in it. The second part of a path may be NULL. */
double value_at_source(const struct metrics_source *source, const char *const path[2]);
double value_at_sink(const struct metrics_source *source, const struct sink_telemetry *sink,
    const char *const path[2]);

double value_seconds(int64_t us); /* 0: there was none */

/* The gauges are 0 while no table has marks. */
double value_marked(const struct metrics_source *source);
double value_attempts_lost(const struct metrics_source *source);
double value_marks_failed(const struct metrics_source *source);
double value_marks_dead(const struct metrics_source *source);
double value_marks_waiting(const struct metrics_source *source);
double value_marks_lag(const struct metrics_source *source);
double value_is_ready(const struct metrics_source *source);
double value_is_source_up(const struct metrics_source *source);
double value_reconnects(const struct metrics_source *source);
double value_is_reload_ok(const struct metrics_source *source);
double value_loaded_at(const struct metrics_source *source);
double value_oldest_xmin(const struct metrics_source *source);
double value_foreign_locks(const struct metrics_source *source);
double value_orphans(const struct metrics_source *source);
double value_members(const struct metrics_source *source);
double value_cpu(const struct metrics_source *source);
double value_resident(const struct metrics_source *source);
double value_virtual_memory(const struct metrics_source *source);
double value_open_fds(const struct metrics_source *source);
double value_max_fds(const struct metrics_source *source);
double value_started_at(const struct metrics_source *source);

void process_stats_read(struct process_stats *out);
