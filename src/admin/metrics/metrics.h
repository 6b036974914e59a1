/*
 * The metrics: all that is in docs/metrics.md, from what the telemetry has seen
 * and what the database said when it was last looked at. What is not known has no
 * sample: a zero would be a claim.
 */
#pragma once

#include "base/bytes.h"

#include <jansson.h>
#include <stddef.h>

struct telemetry;

/* By a request's Accept header, or NULL. */
enum metrics_format metrics_format_for(const char *accept);
const char *metrics_content_type(enum metrics_format format);

/* Of a telemetry that has just been refreshed. `look` is the answer of the outbox's look at itself, or
 * NULL. Appends. */
void metrics_write(struct bytes *out, enum metrics_format format, const struct telemetry *telemetry,
    const json_t *look);

/* To compare them with the documentation; NULL behind the last. */
const char *metrics_name(size_t i);

/*
 * The two text formats of metrics, told apart in one place: Prometheus 0.0.4 and
 * OpenMetrics 1.0. A family is begun, then come its samples.
 */

struct histogram;

enum metrics_format { METRICS_PROMETHEUS, METRICS_OPENMETRICS };

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM, METRIC_INFO };

struct metric_label {
        const char *name; /* NULL ends a list of labels */
        const char *value;
};

struct metrics_text {
        struct bytes *out; /* borrowed */
        enum metrics_format format;
        const char *name; /* of the family: borrowed */
        enum metric_type type;
};

/* The name is without _total and _info; the unit, or NULL, is the name's last word. */
void metrics_text_family(struct metrics_text *text, const char *name, enum metric_type type,
    const char *unit, const char *help);

/* Labels may be NULL. A value that is not a number means that it is not known: no sample. */
void metrics_text_sample(
    struct metrics_text *text, const struct metric_label *labels, double value);
void metrics_text_histogram(struct metrics_text *text, const struct metric_label *labels,
    const struct histogram *histogram);

void metrics_text_end(struct metrics_text *text);
