/*
 * The questions that a probe asks the brokers: do they answer, is the topic there, and how many
 * brokers have an event before it counts as delivered. Blocks: runs on a thread of libuv's pool.
 */
#pragma once

#include "pgcourier/outcome.h"

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>
#include <stdbool.h>

struct kafka_config;
struct kafka_topics;

struct kafka_probe {
        const struct kafka_config *config; /* borrowed, as the next two */
        const struct kafka_topics *topics;
        rd_kafka_t *client;
        atomic_bool is_hurried; /* set by the loop: no broker is there, so give up soon */
};

/* False: no broker answered within connect_timeout, or before the probe was hurried. */
bool kafka_probe_ask(struct kafka_probe *probe, struct outcome *out_outcome);
