/* What a lane may do, from the sink's configuration and, if it is a receiver's, from its row. */
#include "delivery/runner_internal.h"

/* A receiver's window holds what it has under way four times, and at least so much: a slow one must
 * not hold many pages in memory, a fast one must not wait for the next. */
#define RECEIVER_WINDOW    64
#define RECEIVER_BYTES_MAX (UINT64_C(1) << 20)

/* Progress is written so soon, with that of the other sinks. */
#define SETTLE_MS 20

/* All lanes of a sink that fans out are settled together, ten times a second. What a crash repeats is
 * bounded by their windows all the same. */
#define RECEIVER_SETTLE_MS      100
#define RECEIVER_SETTLE_IDLE_MS 30000

/* Its limit is one of requests, each of which may carry several events. */
static uint32_t receiver_concurrency(
    const struct sink_config *config, const struct endpoint *endpoint)
{
        const struct http_batch *batch = config->http != NULL ? config->http->batch : NULL;

        return endpoint->concurrency * (batch != NULL ? batch->events : 1);
}

static uint32_t receiver_window(const struct sink_config *config, uint32_t concurrency)
{
        uint32_t size = 4 * concurrency;

        if (size < RECEIVER_WINDOW)
                size = RECEIVER_WINDOW;
        return size < config->max_in_flight ? size : config->max_in_flight;
}

struct lane_policy runner_policy(
    const struct dispatcher *dispatcher, const struct endpoint *endpoint)
{
        const struct sink_config *config = dispatcher->config;
        struct lane_policy policy = {.by_key = config->order == ORDER_KEY,
            .sink_keeps_order = dispatcher->sink->ops->keeps_order,
            .max_concurrent = dispatcher->sink->max_concurrent,
            .max_in_flight = config->max_in_flight,
            .max_in_flight_bytes = config->max_in_flight_bytes,
            .max_event_bytes = config->max_event_bytes,
            .max_parked = config->max_parked,
            .park_after_ms = config->park_after_ms,
            .rate_per_s = config->rate.per_second,
            .rate_burst = config->rate.burst,
            .settle_delay_ms = SETTLE_MS / 2,
            .settle_idle_ms = 1000,
            .settle_step_ms = SETTLE_MS,
            .retry = {.backoff = {.first_ms = config->retry.first_ms,
                          .factor = config->retry.factor,
                          .max_ms = config->retry.max_ms},
                .delays_ms = config->retry.delays_ms,
                .n_delays = config->retry.n_delays,
                .max_attempts = config->retry.attempts,
                .max_age_ms = config->retry.max_age_ms}};

        if (endpoint == NULL)
                return policy;
        policy.max_concurrent = receiver_concurrency(config, endpoint);
        policy.max_in_flight = receiver_window(config, policy.max_concurrent);
        if (policy.max_in_flight_bytes > RECEIVER_BYTES_MAX)
                policy.max_in_flight_bytes = RECEIVER_BYTES_MAX;
        policy.rate_per_s = endpoint->rate_per_s;
        policy.rate_burst = endpoint->rate_burst;
        policy.settle_delay_ms = RECEIVER_SETTLE_MS;
        policy.settle_idle_ms = RECEIVER_SETTLE_IDLE_MS;
        policy.settle_step_ms = RECEIVER_SETTLE_MS;
        return policy;
}
