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

/* The least value of a bucket. */
static int64_t log_bucket_start(unsigned bucket)
{
        return bucket < 8 ? bucket : (int64_t)(8 + bucket % 8) << (bucket / 8 - 1);
}

void histogram_init(struct histogram *histogram, const struct histogram_bounds *bounds)
{
        unsigned n = 0;

        *histogram = (struct histogram){.bounds = bounds};
        for (unsigned i = 0; i <= HISTOGRAM_BOUNDS_MAX; i++)
                histogram->limits[i] = i < bounds->n_bounds ? bounds->bounds[i] : INT64_MAX;
        for (unsigned bucket = 0; bucket < LOG_HISTOGRAM_BUCKETS; bucket++) {
                while (histogram->limits[n] < log_bucket_start(bucket))
                        n++;
                histogram->first[bucket] = (uint8_t)n;
        }
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
                        return i < 8 ? start : start + width * (rank - n_before - 0.5) / count;
                }
                n_before += count;
        }
        return -1;
}
