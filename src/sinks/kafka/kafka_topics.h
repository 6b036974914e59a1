/*
 * The topics that this sink has written to: which an event goes to, whether that is a name of a
 * topic, and the client's handle. A message to a topic that the client does not know yet waits up
 * to a second for its turn to ask for it (librdkafka before 2.10.1); opening the handle first makes
 * it ask at once.
 */
#pragma once

#include "pgcourier/outcome.h"

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>

struct error;
struct event;
struct kafka_config;
struct kafka_topics;

enum kafka_topic_state {
        KAFKA_TOPIC_NEW,      /* create_topics: not asked for yet */
        KAFKA_TOPIC_CREATING, /* asked for */
        KAFKA_TOPIC_READY
};

struct kafka_topic {
        char *name;
        rd_kafka_topic_t *handle; /* NULL until kafka_topic_open() */
        enum kafka_topic_state state;
};

/* `config` is borrowed. On failure returns NULL and sets *error. */
struct kafka_topics *kafka_topics_create(const struct kafka_config *config, struct error *error);
void kafka_topics_destroy(struct kafka_topics *topics); /* NULL is allowed */

/* All events go to the same topic. */
bool kafka_topics_are_fixed(const struct kafka_topics *topics);

/* Its name where it is fixed. */
const char *kafka_topics_fixed_name(const struct kafka_topics *topics);

/* Where the event goes; lives as long as `topics`. NULL, with *out_rejected set, if that is no
 * name for a topic, or one topic too many. */
struct kafka_topic *kafka_topics_find(
    struct kafka_topics *topics, const struct event *event, struct outcome *out_rejected);

/* For people: appended to `text`, cut to `size`. */
void kafka_topics_describe(
    const struct kafka_topics *topics, const struct event *event, char *text, size_t size);

/* Opens its handle with this client, unless that was done. False if the client refuses. */
bool kafka_topic_open(struct kafka_topic *topic, rd_kafka_t *client);

/* Closes all handles: their client is going. What was to be created is asked for anew. */
void kafka_topics_close(struct kafka_topics *topics);

/* The answer to the request to create it. */
void kafka_topics_made(struct kafka_topics *topics, const char *name, bool is_there);

/* The brokers do not know it: with create_topics the next event asks for it anew. */
void kafka_topics_forget(const struct kafka_topics *topics, struct kafka_topic *topic);
