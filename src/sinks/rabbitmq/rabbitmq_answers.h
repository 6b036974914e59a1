/*
 * What RabbitMQ's words mean for an event, and for the sink. Pure.
 *
 *   ack, nack, return                      one message
 *   channel.close                          all messages that are unconfirmed, and nobody says which
 *   connection.close, blocked, no answer   the sink
 */
#pragma once

#include "config/config.h"
#include "pgcourier/outcome.h"

#include <stdint.h>

struct amqp_news;
struct amqp_span;

/* basic.return, behind which an ack came. */
struct outcome rabbitmq_judge_return(const struct rabbitmq_config *config);

struct outcome rabbitmq_judge_nack(void);

/* True: all events are refused alike, and rabbitmq_judge_close() says how. False: one of those that
 * are unconfirmed may be the cause; rabbitmq_judge_guilty() is for the one that was alone. */
bool rabbitmq_close_is_for_all(const struct amqp_news *channel_close);
struct outcome rabbitmq_judge_guilty(const struct amqp_news *channel_close);

/* A connection or a channel that `peer` closed: SINK_DOWN. */
struct outcome rabbitmq_judge_close(const struct amqp_news *close, const char *peer);
