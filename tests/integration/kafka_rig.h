/*
 * What the tests of the kafka sink share: librdkafka's mock of a cluster within the test's process,
 * a config, and events that are handed to the sink in order.
 */
#pragma once

#include "config/config.h"
#include "support/kafka_reader.h"
#include "support/sink_driver.h"

#include <criterion/criterion.h>
#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <string.h>

#include <librdkafka/rdkafka_mock.h> /* wants the other one before it */

enum {
        KAFKA_PRODUCE = 0,
        KAFKA_METADATA = 3,
        KAFKA_INIT_PRODUCER_ID = 22 /* requests, for errors */
};

extern const struct sink_ops kafka_sink_ops;

struct rig {
        struct sink_driver driver;
        struct kafka_config config; /* the test may change it before rig_open() */
        char *broker;
        struct event *events; /* and these until they are handed over */
        char (*payloads)[16]; /* the number of each, unless the test gives it another */
        char (*keys)[16];     /* likewise */

        /* Only with a mock. */
        rd_kafka_t *mock_client;
        rd_kafka_mock_cluster_t *mock;
};

#include "sink_rig.h"

/* A config for these brokers, the topic "events", and n events to come. */
void rig_init(struct rig *rig, const char *brokers, unsigned n_events);

/* The same with a mock of so many brokers, and the topic with so many partitions. */
void rig_init_mock(struct rig *rig, int n_brokers, int n_partitions, unsigned n_events);

void rig_open(struct rig *rig);
void rig_close(struct rig *rig); /* the sink only */
void rig_destroy(struct rig *rig);

/* How many records of the topic have this event's payload. */
unsigned rig_n_stored(const struct kafka_records *records, const struct event *event);
