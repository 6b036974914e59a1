#include "telemetry/histogram.h"

#include <math.h>

const struct histogram_bounds histogram_times = {
    .n_bounds = 17,
    .bounds = {500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 250000, 500000, 1000000, 2500000,
        5000000, 10000000, 30000000, 60000000, 300000000},
    .units = 1e6,
};

const struct histogram_bounds histogram_events = {
    .n_bounds = 13,
    .bounds = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000},
    .units = 1,
};

#define SUB_BITS 3
#define SUBS     (1 << SUB_BITS)

/* Up to 7 each value has its bucket; above, the highest bit and the three that follow decide. */
static unsigned log_bucket(int64_t value)
{
        unsigned exponent;

        if (value < SUBS)
                return value > 0 ? (unsigned)value : 0;
        exponent = 63 - (unsigned)__builtin_clzll((unsigned long long)value);
        if (exponent > 39)
                return LOG_HISTOGRAM_BUCKETS - 1;
        return (exponent - SUB_BITS + 1) * SUBS + (unsigned)(value >> (exponent - SUB_BITS)) % SUBS;
}

static int64_t log_bucket_start(unsigned bucket)
{
        if (bucket < SUBS)
                return bucket;
        return (int64_t)(SUBS + bucket % SUBS) << (bucket / SUBS - 1);
}

void histogram_init(struct histogram *histogram, const struct histogram_bounds *bounds)
{
        unsigned n = 0;

        *histogram = (struct histogram){.bounds = bounds};
        for (unsigned bucket = 0; bucket < LOG_HISTOGRAM_BUCKETS; bucket++) {
                while (n < bounds->n_bounds && bounds->bounds[n] < log_bucket_start(bucket))
                        n++;
                histogram->first[bucket] = (uint8_t)n;
        }
}

/* No log bucket is as wide as the distance of two bounds: one comparison is enough. */
static void add(struct histogram *histogram, unsigned bucket, int64_t value)
{
        const struct histogram_bounds *bounds = histogram->bounds;
        unsigned i = histogram->first[bucket];

        if (i < bounds->n_bounds && value > bounds->bounds[i])
                i++;
        histogram->counts[i]++;
        histogram->n_values++;
        histogram->sum += (uint64_t)value;
}

void histogram_add(struct histogram *histogram, int64_t value)
{
        if (value < 0)
                value = 0;
        add(histogram, log_bucket(value), value);
}

void histogram_add_both(struct histogram *histogram, struct log_histogram *of_moment, int64_t value)
{
        unsigned bucket;

        if (value < 0)
                value = 0;
        bucket = log_bucket(value);
        add(histogram, bucket, value);
        of_moment->counts[bucket]++;
        of_moment->n_values++;
}

void log_histogram_merge(struct log_histogram *into, const struct log_histogram *from)
{
        if (from->n_values == 0)
                return;
        for (unsigned i = 0; i < LOG_HISTOGRAM_BUCKETS; i++)
                into->counts[i] += from->counts[i];
        into->n_values += from->n_values;
}

double log_histogram_quantile(const struct log_histogram *histogram, double share)
{
        double rank = ceil(share * (double)histogram->n_values), n_before = 0;

        for (unsigned i = 0; i < LOG_HISTOGRAM_BUCKETS; i++) {
                double count = histogram->counts[i];
                if (count > 0 && n_before + count >= rank) {
                        double start = (double)log_bucket_start(i);
                        double width = (double)(log_bucket_start(i + 1) - log_bucket_start(i));
                        /* As if those of the bucket were spread evenly over it. */
                        return i < SUBS ? start : start + width * (rank - n_before - 0.5) / count;
                }
                n_before += count;
        }
        return -1;
}
