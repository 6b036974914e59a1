/*
 * An event as the frames of one message: properties, headers and body, with every limit of AMQP
 * checked before anything is sent. Nothing that an event says chooses the exchange.
 */
#pragma once

#include "pgcourier/outcome.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes;
struct error;
struct event;
struct rabbitmq_config;
struct rabbitmq_encoder;

/* `config` is borrowed while it lives. On failure returns NULL and sets *error. */
struct rabbitmq_encoder *rabbitmq_encoder_create(
    const struct rabbitmq_config *config, struct error *error);
void rabbitmq_encoder_destroy(struct rabbitmq_encoder *encoder); /* NULL is allowed */

/* The routing key is the same for all events. */
bool rabbitmq_encoder_is_key_fixed(const struct rabbitmq_encoder *encoder);

/* Appends the frames of one message; no frame has more than `frame_max` bytes. False, with nothing
 * appended and *out_refusal set, if AMQP cannot carry the event. */
bool rabbitmq_encode(struct rabbitmq_encoder *encoder, const struct event *event,
    uint32_t frame_max, struct bytes *out, struct outcome *out_refusal);

/* "exchange/routing key", for people. */
void rabbitmq_describe(
    struct rabbitmq_encoder *encoder, const struct event *event, char *text, size_t size);
