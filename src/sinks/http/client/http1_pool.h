/*
 * The connections that an http sink speaks HTTP/1.1 on, by the origin (scheme, host and port) that
 * they lead to: receivers of one origin share them. A connection serves one user at a time, and
 * rests in between until it is used again, is closed by its peer, or has rested long enough.
 *
 * OPENING -connected-> SERVING <-given, taken-> RESTING         any of them -> gone
 */
#pragma once

#include "pgcourier/outcome.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct address_guard;
struct byte_stream;
struct http1_connection;
struct http1_pool;
struct http_config;
struct http_target;

/* `max_connections`: how many may be there, serving or resting, before resting ones are closed to
 * make room. `config` and `guard` are borrowed for the pool's life. */
struct http1_pool *http1_pool_create(uv_loop_t *loop, const struct http_config *config,
    const struct address_guard *guard, unsigned max_connections);

/* NULL is allowed. Only resting connections may be there. */
void http1_pool_destroy(struct http1_pool *pool);

/* Who has taken a connection hears of it; never inside a verb of this file. */
struct http1_user_events {
        void (*on_open)(void *user);
        /* As a byte_stream's. The connection may be given back or dropped inside it. */
        size_t (*on_data)(void *user, char *data, size_t size);
        /* The last event: it could not be made, or broke. It is to be dropped inside it. */
        void (*on_lost)(void *user, enum outcome_fault fault, const char *reason);
};

/* Why no connection can be made; or none was refused, while `code` is CURLE_OK. */
struct http1_refusal {
        CURLcode code;
        bool is_guard;   /* the address guard's */
        char words[400]; /* for people */
};

/* A resting connection to the target's origin, or a new one, whose on_open is still to come; with
 * `wants_new` always that. NULL, with *out_refusal set, if none can be made. */
struct http1_connection *http1_pool_take(struct http1_pool *pool, const struct http_target *target,
    bool wants_new, const struct http1_user_events *events, void *user,
    struct http1_refusal *out_refusal);

bool http1_connection_is_open(const struct http1_connection *connection);

/* It has carried a request before this one: it may be dead without our knowing. */
bool http1_connection_has_served(const struct http1_connection *connection);

struct byte_stream *http1_connection_stream(const struct http1_connection *connection);

/* The user is done: it rests, for keep_alive_ms at most (-1: the peer has not said how long), or is
 * closed if its time has come. */
void http1_pool_give(struct http1_connection *connection, int64_t keep_alive_ms);

/* Closes it. */
void http1_pool_drop(struct http1_connection *connection);
