/*
 * What an error of Kafka, or of its client, means for the event it concerns: the table of
 * docs/sinks.md. Pure.
 */
#pragma once

#include "pgcourier/outcome.h"

#include <librdkafka/rdkafka.h>
#include <stdbool.h>

/* A message that was not stored. */
struct kafka_refusal {
        rd_kafka_resp_err_t code;
        bool may_be_stored; /* it was sent, and no answer came */
        const char *topic;  /* where it should have gone */
};

/* The broker refuses a whole batch for one of its messages, without a word on which. */
bool kafka_answer_blames_batch(rd_kafka_resp_err_t code);

/* The topic is not there, or not ours. */
bool kafka_answer_is_of_topic(rd_kafka_resp_err_t code);

/* The client gave the message back because it was told to: rd_kafka_purge(). */
bool kafka_answer_is_purge(rd_kafka_resp_err_t code);

/* Of a message that was alone in its batch, or whose error is its own. */
struct outcome kafka_answer_refusal(const struct kafka_refusal *refusal);

/* Of an event whose topic could not be created. `words` may be NULL. */
struct outcome kafka_answer_creation(
    rd_kafka_resp_err_t code, const char *words, const char *topic);

/* The client as a whole is in trouble: no broker, no login, no certificate. Always SINK_DOWN. */
struct outcome kafka_answer_trouble(rd_kafka_resp_err_t code, const char *words);
