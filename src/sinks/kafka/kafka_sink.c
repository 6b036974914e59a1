/*
 * Kafka: each event is one record, by librdkafka's idempotent producer. How the parts of the sink
 * hang together: kafka_internal.h.
 *
 * This is a shared object of its own, kafka.so, since librdkafka brings threads and four libraries
 * more; it is loaded if the file has a sink with a `kafka:` block (sinks/registry.h).
 */
#include "base/alloc.h"
#include "base/error.h"
#include "base/utf8.h"
#include "config/config.h"
#include "pgcourier/module.h"
#include "sinks/format/message.h"
#include "sinks/kafka/kafka_internal.h"
#include "sinks/kafka/kafka_properties.h"
#include "sinks/sink_contract.h"

#include <assert.h>
#include <stdlib.h>

extern const struct sink_ops kafka_sink_ops;

static const struct message_style style = {
    .own_prefix = "",
    .cloudevent_prefix = "ce_",
    .content_type_header = "content-type",
    .has_id = true,
    .has_key = false, /* the record has one */
    .has_type = true,
};

static struct kafka_sink *kafka_sink_from(struct sink *sink)
{
        return (struct kafka_sink *)sink;
}

static struct sink *kafka_open(const struct sink_settings *settings, struct error *error)
{
        const struct kafka_config *config = settings->options;
        rd_kafka_conf_t *conf = kafka_properties_make(config, settings->name, error);
        struct kafka_topics *topics;
        struct kafka_sink *sink;

        if (conf == NULL)
                return NULL;
        topics = kafka_topics_create(config, error);
        if (topics == NULL) {
                rd_kafka_conf_destroy(conf);
                return NULL;
        }
        sink = xcalloc(1, sizeof *sink);
        sink_init(&sink->base, &kafka_sink_ops, settings);
        sink->base.has_targets = !kafka_topics_are_fixed(topics);
        sink->config = config;
        sink->conf = conf;
        sink->topics = topics;
        sink->maker = message_maker_create(&config->message, &style);
        kafka_queue_init(sink);
        return &sink->base;
}

static void kafka_deliver(struct sink *base, struct attempt *attempt)
{
        struct kafka_sink *sink = kafka_sink_from(base);
        struct outcome rejected;
        struct kafka_topic *topic = kafka_topics_find(sink->topics, attempt->event, &rejected);

        if (topic != NULL)
                kafka_queue_add(sink, attempt, topic); /* flush() sends it */
        else
                attempt_finish_later(attempt, &rejected);
}

static void kafka_describe_target(
    const struct sink *base, const struct event *event, const void *target, char *text, size_t size)
{
        (void)target;
        kafka_topics_describe(((const struct kafka_sink *)base)->topics, event, text, size);
}

static void kafka_flush(struct sink *base)
{
        kafka_queue_send(kafka_sink_from(base));
}

static void kafka_cancel(struct sink *base)
{
        kafka_queue_cancel(kafka_sink_from(base));
}

static void kafka_probe(struct sink *base, sink_probed_fn *on_probed, void *owner)
{
        struct kafka_sink *sink = kafka_sink_from(base);
        struct outcome failure =
            outcome_down(OUTCOME_FAULT_OTHER, false, "the client is being made anew");
        bool is_ready = !sink->is_retiring && kafka_queue_has_producer(sink, &failure);

        kafka_workers_probe(sink, is_ready ? NULL : &failure, on_probed, owner);
}

static void kafka_close(struct sink *base, sink_closed_fn *on_closed, void *owner)
{
        struct kafka_sink *sink = kafka_sink_from(base);

        sink->on_closed = on_closed;
        sink->closed_owner = owner;
        kafka_queue_close(sink);
}

const struct sink_ops kafka_sink_ops = {
    .kind = "kafka",
    .keeps_order = false,
    .open = kafka_open,
    .deliver = kafka_deliver,
    .describe_target = kafka_describe_target,
    .flush = kafka_flush,
    .cancel = kafka_cancel,
    .close = kafka_close,
    .probe = kafka_probe,
};

/* The probe's question and a token's file; a producer that retires waits for both. */
PGCOURIER_MODULE(.version = PGCOURIER_VERSION, .threads = 2, .ops = &kafka_sink_ops);
