/* The client's configuration: what the sink needs, what the file says, and last the file's own
 * `properties`, which are librdkafka's. */
#pragma once

#include <librdkafka/rdkafka.h>

struct error;
struct kafka_config;

/* On failure returns NULL and sets *error. Reads no file. Release it with rd_kafka_conf_destroy().
 */
rd_kafka_conf_t *kafka_properties_make(
    const struct kafka_config *config, const char *sink, struct error *error);
