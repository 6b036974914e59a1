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
        uint64_t counts[HISTOGRAM_BOUNDS_MAX + 1]; /* of each bucket alone */
        uint64_t n_values;
        uint64_t sum;

        uint8_t first[LOG_HISTOGRAM_BUCKETS];     /* the bucket of each log bucket's lowest value */
        int64_t limits[HISTOGRAM_BOUNDS_MAX + 1]; /* the bounds, and one above all */
};

struct log_histogram {
        uint32_t counts[LOG_HISTOGRAM_BUCKETS];
        uint64_t n_values;
};

void histogram_init(struct histogram *histogram, const struct histogram_bounds *bounds);

void log_histogram_merge(struct log_histogram *into, const struct log_histogram *from);

/* The value that a share of all (above 0, at most 1) does not exceed; negative if there is none. */
double log_histogram_quantile(const struct log_histogram *histogram, double share);

/* Up to 7 each value has its bucket; above, the highest bit and the three that follow decide. */
static inline unsigned log_histogram_bucket(uint64_t value)
{
        unsigned exponent;

        if (value < 8)
                return (unsigned)value;
        exponent = 63 - (unsigned)__builtin_clzll(value);
        if (exponent > 39)
                return LOG_HISTOGRAM_BUCKETS - 1;
        return (exponent - 2) * 8 + (unsigned)(value >> (exponent - 3)) % 8;
}

/* Clocks of two machines differ: a negative value counts as 0. */
static inline unsigned histogram_add(struct histogram *histogram, int64_t value)
{
        uint64_t positive = value > 0 ? (uint64_t)value : 0;
        unsigned bucket = log_histogram_bucket(positive);
        unsigned i = histogram->first[bucket];

        /* No log bucket is as wide as the distance of two bounds: one comparison is enough. */
        histogram->counts[i + (value > histogram->limits[i])]++;
        histogram->n_values++;
        histogram->sum += positive;
        return bucket;
}

/* Counts a value in both, which costs little more than one of them. */
static inline void histogram_add_both(
    struct histogram *histogram, struct log_histogram *of_moment, int64_t value)
{
        of_moment->counts[histogram_add(histogram, value)]++;
        of_moment->n_values++;
}
