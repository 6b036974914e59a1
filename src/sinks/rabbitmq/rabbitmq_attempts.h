/*
 * The attempts that a sink holds, by what is known of their messages, and how each one ends.
 *
 *   waiting -sent-> unconfirmed -ack-> delivered
 *                   unconfirmed -nack, return, too late-> as rabbitmq_answers.h says
 *                   unconfirmed -channel closed-> suspects
 *                   suspects -sent, one by one-> unconfirmed
 *
 * RabbitMQ closes the whole channel over one message that it cannot take, and does not say which.
 * What was unconfirmed then goes again, each alone: so the cause is found, and no other event pays
 * for it. One of those may arrive twice.
 */
#pragma once

#include "sinks/attempt_queue.h"
#include "sinks/rabbitmq/rabbitmq_answers.h"
#include "sinks/rabbitmq/rabbitmq_unconfirmed.h"

#include <stdbool.h>
#include <stdint.h>

struct rabbitmq_connection;
struct rabbitmq_encoder;

struct rabbitmq_attempts {
        const struct rabbitmq_config *config; /* borrowed */
        struct attempt_queue waiting;         /* filled by the owner */
        struct attempt_queue suspects;
        bool is_alone; /* what is unconfirmed is one of the suspects */
        struct rabbitmq_unconfirmed unconfirmed;
        struct attempt_queue delivered; /* emptied by the owner */
        bool is_ack;                    /* of the confirm that is being taken */
};

/* Some are to be sent. */
bool rabbitmq_attempts_has_unsent(const struct rabbitmq_attempts *attempts);

/* Sends those whose turn it is. The connection is READY. */
void rabbitmq_attempts_send(struct rabbitmq_attempts *attempts, struct rabbitmq_encoder *encoder,
    struct rabbitmq_connection *connection, uint64_t now_ms);

/* As rabbitmq_connection_events says. */
bool rabbitmq_attempts_confirm(
    struct rabbitmq_attempts *attempts, uint64_t tag, bool is_multiple, bool is_ack);
bool rabbitmq_attempts_channel_closed(
    struct rabbitmq_attempts *attempts, const struct amqp_news *close);

/* Those that were sent at sent_before_ms or before have waited too long, though RabbitMQ talks. */
void rabbitmq_attempts_expire(struct rabbitmq_attempts *attempts, uint64_t sent_before_ms);

/* Ends those that are to be sent; or all of them: an outage. */
void rabbitmq_attempts_give_back_unsent(
    struct rabbitmq_attempts *attempts, const struct outcome *outcome);
void rabbitmq_attempts_give_back(struct rabbitmq_attempts *attempts, const struct outcome *outcome);
