/*
 * Two ways to count how long something took.
 *
 * A `struct histogram` counts for ever in the buckets that the metrics show: an
 * upper bound belongs to its bucket, as Prometheus has it. A `struct
 * log_histogram` is for quantiles of a short time: eight buckets to each power
 * of two, so that a quantile is off by an eighth at most.
 *
 * Both are filled from one look at the value's highest bits, so that counting
 * costs a few nanoseconds. Values are whole numbers: microseconds, or events.
 */
#pragma once

#include <stdint.h>

#define HISTOGRAM_BOUNDS_MAX 17 /* and one bucket more, for what is above all of them */

/* Each bound is at least twice the one before it. */
struct histogram_bounds {
        unsigned n_bounds;
        int64_t bounds[HISTOGRAM_BOUNDS_MAX];
        double units; /* of the bounds in one of the metrics: 1e6 for times */
};

extern const struct histogram_bounds histogram_times;  /* microseconds: 0.5 ms to 5 minutes */
extern const struct histogram_bounds histogram_events; /* 1 to 10000 */

#define LOG_HISTOGRAM_BUCKETS 304 /* the last one ends at 2^40: 12 days */

struct histogram {
        const struct histogram_bounds *bounds;
        uint8_t first[LOG_HISTOGRAM_BUCKETS]; /* the bucket of each log bucket's lowest value */
        uint64_t counts[HISTOGRAM_BOUNDS_MAX + 1]; /* of each bucket alone */
        uint64_t n_values;
        uint64_t sum;
};

void histogram_init(struct histogram *histogram, const struct histogram_bounds *bounds);

/* Clocks of two machines differ: a negative value counts as 0. */
void histogram_add(struct histogram *histogram, int64_t value);

struct log_histogram {
        uint32_t counts[LOG_HISTOGRAM_BUCKETS];
        uint64_t n_values;
};

/* Counts a value in both, which costs little more than one of them. */
void histogram_add_both(
    struct histogram *histogram, struct log_histogram *of_moment, int64_t value);

void log_histogram_merge(struct log_histogram *into, const struct log_histogram *from);

/* The value that a share of all (above 0, at most 1) does not exceed; negative if there is none. */
double log_histogram_quantile(const struct log_histogram *histogram, double share);
