/*
 * One connection to one Redis: looks the name up, connects, shakes hands,
 * carries commands and their answers in order, and says when it is lost. It never
 * reconnects by itself: its owner opens it again when there is a reason to.
 */
#pragma once

#include "pgcourier/outcome.h"
#include "sinks/redis/redis_handshake.h"

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct bytes;
struct redis_config;
struct redis_connection;
struct tls_context;

/* Where one Redis listens. */
struct redis_endpoint {
        char *host; /* NULL: socket_path */
        uint16_t port;
        char *socket_path;
};

struct redis_session {
        const struct redis_config *config; /* credentials and timeouts */
        struct tls_context *tls;           /* NULL: plain */
        enum redis_peer peer;
};

enum redis_connection_state {
        REDIS_CLOSED,
        REDIS_CONNECTING,
        REDIS_HANDSHAKING, /* see redis_handshake.h */
        REDIS_READY,
        REDIS_RETIRING, /* takes no more commands; closes after the last answer */
};

struct redis_connection_events {
        /* READY: commands may be sent. */
        void (*on_ready)(void *owner);

        /* The answer to the oldest command without one; borrowed for the call. If the connection
         * was retiring and this was the last, it is CLOSED already. */
        void (*on_reply)(void *owner, const redisReply *reply);

        /* The connection could not be made or broke, and is CLOSED; commands without an answer get
         * none. May come inside any verb of this file. `needs_operator`: it was refused, and will
         * be until a setting is changed. `reason` holds no secret. */
        void (*on_lost)(void *owner, bool needs_operator, const char *reason);
};

/* Everything but the loop is borrowed until redis_connection_destroy(); of the session, what it
 * points at. */
struct redis_connection *redis_connection_create(uv_loop_t *loop,
    const struct redis_session *session, const struct redis_connection_events *events, void *owner);

/* Closes first. NULL is allowed. No callback comes after this line. */
void redis_connection_destroy(struct redis_connection *connection);

enum redis_connection_state redis_connection_state(const struct redis_connection *connection);

/* What was at fault when it was lost last; for on_lost. */
enum outcome_fault redis_connection_fault(const struct redis_connection *connection);

/* CLOSED only. connect_timeout_ms covers all until READY. `endpoint` is copied. */
void redis_connection_open(
    struct redis_connection *connection, const struct redis_endpoint *endpoint);

/* At once and silently: no answer and no on_lost comes for what was sent. */
void redis_connection_close(struct redis_connection *connection);

/* READY only: closes once all commands are answered; that alone causes no on_lost. */
void redis_connection_retire(struct redis_connection *connection);

/* READY only. Encoded commands are appended to what redis_connection_out() returns; then say how
 * many those were. They are written in the next turn of the loop, or by
 * redis_connection_flush(). */
struct bytes *redis_connection_out(struct redis_connection *connection);
void redis_connection_note_sent(struct redis_connection *connection, unsigned n_commands);
void redis_connection_flush(struct redis_connection *connection); /* in any state */
