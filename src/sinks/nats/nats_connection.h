/*
 * The connection to one server of a NATS cluster at a time: it goes through the list until one lets
 * us in, logs in, subscribes to our answers, and keeps watch on the server.
 *
 *   CLOSED -open-> CONNECTING -INFO-> (SECURING) -CONNECT, SUB, PING-> GREETING -PONG-> READY
 *   READY -the server is about to stop-> LEAVING -close-> CLOSED
 *   any of them -failure-> the next server, or once none is left CLOSED
 */
#pragma once

#include "pgcourier/outcome.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct error;
struct nats_config;
struct nats_connection;
struct nats_error;
struct nats_frame;
struct nats_publication;

enum nats_connection_state {
        NATS_CLOSED,
        NATS_CONNECTING,
        NATS_SECURING,
        NATS_GREETING,
        NATS_READY,
        NATS_LEAVING /* what was sent is still answered, but nothing more may be sent */
};

/* In each of them the connection may be closed and opened, but not destroyed. */
struct nats_connection_events {
        void (*on_ready)(void *owner);

        /* One that came to our inbox; `token` is what its subject ends in. */
        void (*on_message)(
            void *owner, const struct nats_frame *message, const char *token, size_t token_bytes);

        /* We may not publish to error->subject. */
        void (*on_forbidden)(void *owner, const struct nats_error *error);
        void (*on_leaving)(void *owner);

        /* It is CLOSED: no server lets us in, or the one that did is lost. A SINK_DOWN. */
        void (*on_lost)(void *owner, const struct outcome *why);
};

/* All of it is borrowed. NULL and *error if the list of servers or a file for TLS is wrong. */
struct nats_connection *nats_connection_create(uv_loop_t *loop, const struct nats_config *config,
    const struct nats_connection_events *events, void *owner, struct error *error);
void nats_connection_destroy(struct nats_connection *connection); /* NULL is allowed */

enum nats_connection_state nats_connection_state(const struct nats_connection *connection);

/* CLOSED: tries each server of the list once, each for config->connect_timeout_ms. */
void nats_connection_open(struct nats_connection *connection);

/* Any state. No event comes until it is opened again. */
void nats_connection_close(struct nats_connection *connection);

/* READY or LEAVING: closes it as lost, with the reason behind the server's name, from a callback of
 * a timer. */
void nats_connection_fail(
    struct nats_connection *connection, enum outcome_fault fault, const char *reason);

/* READY: */

/* Appends a message whose answers come to our inbox, with this token; to be followed by the call
 * below. */
void nats_connection_publish(struct nats_connection *connection,
    const struct nats_publication *publication, const char *token, size_t token_bytes);

/* A PING follows, at once or when the one before is answered: when its PONG has come, the server
 * has worked off what was sent. */
void nats_connection_note_published(struct nats_connection *connection);
void nats_connection_flush(struct nats_connection *connection);

size_t nats_connection_max_payload(const struct nats_connection *connection); /* 0: not said */

/* The number of the first PING behind what is published now, and of the last that was answered. */
uint64_t nats_connection_next_ping(const struct nats_connection *connection);
uint64_t nats_connection_last_pong(const struct nats_connection *connection);

/* The server has said nothing for so long. */
uint64_t nats_connection_silent_ms(const struct nats_connection *connection);
