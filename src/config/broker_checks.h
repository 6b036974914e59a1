/* The rules between several keys of the blocks nats, rabbitmq and kafka. */
#pragma once

#include "config/config.h"
#include "config/source.h"

#include <stdbool.h>

/* `path` is that of the block. On failure the source's error is set. */
bool check_nats(const struct source *source, struct nats_config *nats, const char *path);
bool check_rabbitmq(
    const struct source *source, const struct rabbitmq_config *rabbitmq, const char *path);
bool check_kafka(const struct source *source, const struct kafka_config *kafka, const char *path);
