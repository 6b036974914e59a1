/*
 * Reads a topic of a Kafka, or of librdkafka's mock of one, from its beginning: what is stored
 * there by now, with one of a partition in the order of its offsets.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kafka_record {
        int32_t partition;
        int64_t offset;
        int64_t timestamp_ms;
        char *key; /* NULL: none; with a NUL behind its end, as is the value */
        size_t key_bytes;
        char *value; /* NULL: a tombstone */
        size_t value_bytes;
        char *headers; /* "name=value" of each, in order, each with a line feed behind it */
};

struct kafka_records {
        struct kafka_record *items;
        size_t n;
};

/* All that is stored when it is called. Aborts the test if that does not end. */
struct kafka_records kafka_read(const char *brokers, const char *topic);
void kafka_records_deinit(struct kafka_records *records);
