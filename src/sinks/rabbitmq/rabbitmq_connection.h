/*
 * One connection to RabbitMQ with one channel that confirms: greets, logs in, opens the virtual
 * host, declares what there is to declare, and says what comes. It never reconnects by itself.
 */
#pragma once

#include "pgcourier/outcome.h"
#include "sinks/rabbitmq/rabbitmq_frames.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct bytes;
struct rabbitmq_config;
struct rabbitmq_connection;
struct tls_context;

enum rabbitmq_state {
        RABBITMQ_CLOSED,
        RABBITMQ_CONNECTING, /* until byte_stream says so */
        RABBITMQ_STARTING,   /* until connection.start */
        RABBITMQ_TUNING,     /* until connection.tune: logging in */
        RABBITMQ_OPENING,    /* until connection.open-ok: the virtual host */
        RABBITMQ_CHANNEL,    /* until channel.open-ok */
        RABBITMQ_DECLARING,  /* until each step is answered */
        RABBITMQ_CONFIRMING, /* until confirm.select-ok */
        RABBITMQ_READY,
        RABBITMQ_RENEWING, /* until channel.close-ok; then CHANNEL */
};

/* None of them comes inside a verb of this file. Only on_end() may call out: in the others the
 * owner notes what has come. */
struct rabbitmq_connection_events {
        /* READY, on a new channel: tags count from 1. */
        void (*on_ready)(void *owner);

        /* False: no such message waits for one. */
        bool (*on_confirm)(void *owner, uint64_t tag, bool is_multiple, bool is_ack);
        void (*on_return)(void *owner, struct amqp_span message_id);

        /* After READY. True: what is unconfirmed gets no answer any more, and on_ready() comes with
         * a new channel. False: the connection is to be lost by it. */
        bool (*on_channel_closed)(void *owner, const struct amqp_news *close);

        void (*on_blocked)(void *owner, struct amqp_span why);
        void (*on_unblocked)(void *owner);

        /* It is CLOSED; what is unconfirmed gets no answer. `outcome` is SINK_DOWN. `was_greeted`:
         * it had been READY before. */
        void (*on_lost)(void *owner, const struct outcome *outcome, bool was_greeted);

        /* The last after one or more of the others. */
        void (*on_end)(void *owner);
};

/* All but the loop is borrowed until rabbitmq_connection_destroy(). `name` is the sink's: RabbitMQ
 * lists the connection by it. */
struct rabbitmq_connection *rabbitmq_connection_create(uv_loop_t *loop, const char *name,
    const struct rabbitmq_config *config, const struct rabbitmq_connection_events *events,
    void *owner);

/* Closes first. NULL is allowed. No callback comes after this line. */
void rabbitmq_connection_destroy(struct rabbitmq_connection *connection);

enum rabbitmq_state rabbitmq_connection_state(const struct rabbitmq_connection *connection);

/* CLOSED only. connect_timeout_ms covers all until READY. `host` is borrowed until it is closed;
 * `tls` NULL: plain. */
void rabbitmq_connection_open(struct rabbitmq_connection *connection, const char *host,
    uint16_t port, struct tls_context *tls);

/* At once and silently: no callback comes for what was sent. */
void rabbitmq_connection_close(struct rabbitmq_connection *connection);

/* In any state but CLOSED: closes, and tells on_lost() and on_end() in this call. */
void rabbitmq_connection_lose(struct rabbitmq_connection *connection, struct outcome outcome);

/* READY, and no confirm is awaited: on_ready() comes with a new channel. */
void rabbitmq_connection_renew_channel(struct rabbitmq_connection *connection);

/* READY only: append publishes to what it returns, then note that. */
struct bytes *rabbitmq_connection_out(struct rabbitmq_connection *connection);
void rabbitmq_connection_note_sent(struct rabbitmq_connection *connection);
void rabbitmq_connection_flush(struct rabbitmq_connection *connection); /* in any state */

uint32_t rabbitmq_connection_frame_max(const struct rabbitmq_connection *connection);
const char *rabbitmq_connection_peer(const struct rabbitmq_connection *connection); /* not CLOSED */

/* uv_now() when something came last. */
uint64_t rabbitmq_connection_heard_ms(const struct rabbitmq_connection *connection);
