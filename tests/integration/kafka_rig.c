#include "kafka_rig.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>

static void fill_event(struct rig *rig, unsigned i)
{
        struct event *event = &rig->events[i];

        snprintf(rig->payloads[i], sizeof rig->payloads[i], "%u", i);
        snprintf(rig->keys[i], sizeof rig->keys[i], "k%u", i);
        *event = (struct event){.id = i,
            .topic = "orders",
            .key = rig->keys[i],
            .payload = rig->payloads[i],
            .payload_bytes = strlen(rig->payloads[i]),
            .is_json = true,
            .created_us = 1706745599000001};
        snprintf(event->event_id, sizeof event->event_id, "00000000-0000-4000-8000-%012u", i);
}

void rig_init(struct rig *rig, const char *brokers, unsigned n_events)
{
        static char topic[] = "events";
        static char none[] = "none";
        static char client_id[] = "pgcourier";
        static char source[] = "/test";

        *rig = (struct rig){.config = {.n_brokers = 1,
                                .topic = topic,
                                .max_topics = 1000,
                                .message = {.source = source},
                                .compression = none,
                                .batch_bytes = 131072,
                                .client_id = client_id,
                                .connect_timeout_ms = 5000,
                                .timeout_ms = 30000}};
        rig->broker = xstrdup(brokers);
        rig->config.brokers = &rig->broker;
        rig->events = xcalloc(n_events, sizeof *rig->events);
        rig->payloads = xcalloc(n_events, sizeof *rig->payloads);
        rig->keys = xcalloc(n_events, sizeof *rig->keys);
        for (unsigned i = 0; i < n_events; i++)
                fill_event(rig, i);
}

void rig_init_mock(struct rig *rig, int n_brokers, int n_partitions, unsigned n_events)
{
        rd_kafka_conf_t *conf = rd_kafka_conf_new();
        char reason[256];
        rd_kafka_t *client;
        rd_kafka_mock_cluster_t *mock;

        rd_kafka_conf_set(conf, "log_level", "0", reason, sizeof reason);
        client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason, sizeof reason);
        mock = rd_kafka_mock_cluster_new(client, n_brokers);
        rd_kafka_mock_topic_create(mock, "events", n_partitions, n_brokers);
        rig_init(rig, rd_kafka_mock_cluster_bootstraps(mock), n_events);
        rig->mock_client = client;
        rig->mock = mock;
}

void rig_open(struct rig *rig)
{
        sink_driver_init(&rig->driver, &kafka_sink_ops, &rig->config);
}

void rig_close(struct rig *rig)
{
        sink_driver_deinit(&rig->driver);
}

void rig_destroy(struct rig *rig)
{
        if (rig->driver.sink != NULL)
                rig_close(rig);
        if (rig->mock != NULL) {
                rd_kafka_mock_cluster_destroy(rig->mock);
                rd_kafka_destroy(rig->mock_client);
        }
        free(rig->broker);
        free(rig->events);
        free(rig->payloads);
        free(rig->keys);
}

unsigned rig_n_stored(const struct kafka_records *records, const struct event *event)
{
        unsigned n = 0;

        for (size_t i = 0; i < records->n; i++)
                n += records->items[i].value_bytes == event->payload_bytes &&
                     memcmp(records->items[i].value, event->payload, event->payload_bytes) == 0;
        return n;
}
