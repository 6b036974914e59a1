#include "support/kafka_reader.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "support/process.h"

#include <librdkafka/rdkafka.h>
#include <stdlib.h>
#include <string.h>

enum { ASK_MS = 10000, READ_MS = 60000 };

static rd_kafka_t *connect_to(const char *brokers)
{
        static const char *const settings[][2] = {{"group.id", "test"},
            {"enable.partition.eof", "true"}, {"auto.offset.reset", "earliest"},
            {"enable.auto.commit", "false"}, {"log_level", "0"}};
        rd_kafka_conf_t *conf = rd_kafka_conf_new();
        char reason[256];
        rd_kafka_t *client;

        rd_kafka_conf_set(conf, "bootstrap.servers", brokers, reason, sizeof reason);
        for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
                rd_kafka_conf_set(conf, settings[i][0], settings[i][1], reason, sizeof reason);
        client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, reason, sizeof reason);
        if (client == NULL)
                test_abort("librdkafka: %s", reason);
        rd_kafka_poll_set_consumer(client);
        return client;
}

static int count_partitions(rd_kafka_t *client, const char *name)
{
        rd_kafka_topic_t *topic = rd_kafka_topic_new(client, name, NULL);
        const struct rd_kafka_metadata *metadata;
        int n;

        if (rd_kafka_metadata(client, 0, topic, &metadata, ASK_MS) != 0 || metadata->topic_cnt != 1)
                test_abort("Kafka says nothing about topic %s", name);
        n = metadata->topics[0].partition_cnt;
        rd_kafka_metadata_destroy(metadata);
        rd_kafka_topic_destroy(topic);
        return n;
}

static char *copy(const void *data, size_t length)
{
        char *copied = xmalloc(length + 1);

        if (length > 0)
                memcpy(copied, data, length);
        copied[length] = '\0';
        return copied;
}

static char *copy_headers(const rd_kafka_message_t *message)
{
        rd_kafka_headers_t *headers;
        struct bytes text = {0};
        const char *name;
        const void *value;
        size_t size;

        bytes_append_text(&text, "");
        if (rd_kafka_message_headers(message, &headers) == 0)
                for (size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value, &size) == 0;
                     i++) {
                        bytes_printf(&text, "%s=", name);
                        bytes_append(&text, value, size);
                        bytes_append_text(&text, "\n");
                }
        return text.data;
}

static void add(struct kafka_records *records, const rd_kafka_message_t *message)
{
        struct kafka_record *record;

        if ((records->n & (records->n - 1)) == 0) /* as large as it is, at a power of two */
                records->items = xrealloc(
                    records->items, (records->n > 0 ? 2 * records->n : 1) * sizeof *records->items);
        record = &records->items[records->n++];
        *record = (struct kafka_record){.partition = message->partition,
            .offset = message->offset,
            .timestamp_ms = rd_kafka_message_timestamp(message, NULL),
            .key_bytes = message->key_len,
            .value_bytes = message->len,
            .headers = copy_headers(message)};
        if (message->key != NULL)
                record->key = copy(message->key, message->key_len);
        if (message->payload != NULL)
                record->value = copy(message->payload, message->len);
}

struct kafka_records kafka_read(const char *brokers, const char *topic)
{
        rd_kafka_t *client = connect_to(brokers);
        int n_partitions = count_partitions(client, topic);
        int n_ended = 0;
        rd_kafka_topic_partition_list_t *all = rd_kafka_topic_partition_list_new(n_partitions);
        struct kafka_records records = {0};

        for (int i = 0; i < n_partitions; i++)
                rd_kafka_topic_partition_list_add(all, topic, i)->offset =
                    RD_KAFKA_OFFSET_BEGINNING;
        rd_kafka_assign(client, all);
        rd_kafka_topic_partition_list_destroy(all);
        while (n_ended < n_partitions) {
                rd_kafka_message_t *message = rd_kafka_consumer_poll(client, READ_MS);
                if (message == NULL)
                        test_abort("topic %s has no end", topic);
                if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
                        n_ended++;
                else if (message->err == 0)
                        add(&records, message);
                rd_kafka_message_destroy(message);
        }
        rd_kafka_consumer_close(client);
        rd_kafka_destroy(client);
        return records;
}

void kafka_records_deinit(struct kafka_records *records)
{
        for (size_t i = 0; i < records->n; i++) {
                free(records->items[i].key);
                free(records->items[i].value);
                free(records->items[i].headers);
        }
        free(records->items);
        *records = (struct kafka_records){0};
}
