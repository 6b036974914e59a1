/* Kafka: librdkafka, idempotent, to the topics of the events; each delivery report is looked at. */
#include "bare.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const settings[][2] = {
    {"acks", "all"}, {"enable.idempotence", "true"}, {"linger.ms", "0"}, {"batch.size", "131072"},
    {"partitioner", "murmur2_random"}, {"socket.nagle.disable", "true"},
    {"log_level", "3"}, /* that it asks again for what is not there yet, is no news */
};

static rd_kafka_t *new_producer(const struct bare *bare)
{
        rd_kafka_conf_t *conf = rd_kafka_conf_new();
        char servers[32], why[512];
        rd_kafka_t *producer;

        snprintf(servers, sizeof servers, "127.0.0.1:%d", bare->port);
        for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
                if (rd_kafka_conf_set(conf, settings[i][0], settings[i][1], why, sizeof why) != 0)
                        bare_die(settings[i][0], why);
        if (rd_kafka_conf_set(conf, "bootstrap.servers", servers, why, sizeof why) != 0)
                bare_die("bootstrap.servers", why);
        rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
        producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
        if (producer == NULL)
                bare_die("rd_kafka_new", why);
        return producer;
}

static void add(rd_kafka_headers_t *headers, const char *name, const char *value)
{
        rd_kafka_header_add(headers, name, -1, value, -1);
}

static void publish(rd_kafka_t *producer, rd_kafka_topic_t *topic, const struct bare_event *event)
{
        rd_kafka_headers_t *headers = rd_kafka_headers_new(5);
        rd_kafka_resp_err_t error;

        add(headers, "id", event->id);
        add(headers, "topic", event->topic);
        add(headers, "type", BARE_TYPE);
        add(headers, "time", event->time);
        add(headers, "content-type", BARE_CONTENT_TYPE);
        error = rd_kafka_producev(producer, RD_KAFKA_V_RKT(topic),
            RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_KEY(event->key, event->key_bytes),
            RD_KAFKA_V_VALUE((void *)event->payload, BARE_PAYLOAD_BYTES),
            RD_KAFKA_V_TIMESTAMP(event->created_us / 1000), RD_KAFKA_V_HEADERS(headers),
            RD_KAFKA_V_END);
        if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
                bare_die("rd_kafka_producev", rd_kafka_err2str(error));
}

static void await_reports(struct bare *bare, rd_kafka_queue_t *queue)
{
        rd_kafka_event_t *said = rd_kafka_queue_poll(queue, 60000);
        const rd_kafka_message_t *message;

        if (said == NULL)
                bare_die("rd_kafka_queue_poll", "no answer in 60 seconds");
        if (rd_kafka_event_type(said) == RD_KAFKA_EVENT_ERROR)
                bare_die("Kafka says", rd_kafka_event_error_string(said));
        while ((message = rd_kafka_event_message_next(said)) != NULL) {
                if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR)
                        bare_die("Kafka says", rd_kafka_err2str(message->err));
                bare->n_acked++;
        }
        rd_kafka_event_destroy(said);
}

int main(int n_args, char **args)
{
        struct bare bare;
        struct bare_event event = {0};
        rd_kafka_topic_t *topics[2];
        const struct rd_kafka_metadata *metadata;
        rd_kafka_queue_t *queue;
        rd_kafka_t *producer;

        bare_init(&bare, n_args, args);
        producer = new_producer(&bare);
        queue = rd_kafka_queue_get_main(producer);
        for (int i = 0; i < 2; i++)
                topics[i] = rd_kafka_topic_new(producer, bare_topics[i], NULL);
        /* It is connected when the time begins, as the others are. */
        if (rd_kafka_metadata(producer, 0, NULL, &metadata, 10000) != 0)
                bare_die("rd_kafka_metadata", "no answer");
        rd_kafka_metadata_destroy(metadata);
        bare_begin(&bare);
        while (bare.n_acked < bare.n_events) {
                while (bare.n_sent < bare.n_events && bare.n_sent - bare.n_acked < bare.in_flight) {
                        bare_event(&bare, &event);
                        publish(producer, topics[event.topic_index], &event);
                        bare.n_sent++;
                }
                await_reports(&bare, queue);
        }
        bare_end(&bare);
        return 0;
}
