/*
 * The two text formats of metrics, told apart in one place: Prometheus 0.0.4 and
 * OpenMetrics 1.0. A family is begun, then come its samples.
 */
#pragma once

#include "base/bytes.h"

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
