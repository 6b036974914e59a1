/*
 * What carries requests to receivers and brings their answers. There are two: http1_client.h, which
 * speaks HTTP/1.1 on connections of ours, and curl_client.h for what libcurl knows besides: HTTP/2
 * and proxies. A sink has one of them.
 */
#pragma once

#include "sinks/http/http_status.h"

#include <stdbool.h>
#include <stddef.h>

struct bytes;
struct error;
struct http_client;
struct http_exchange;
struct http_target;

/* One request and its response, from http_client_post() or http_client_connect() until on_done
 * returns or http_exchange_stop() is called. */
struct http_exchange {
        struct http_client *client;
};

/* `result` is borrowed for the call. Others may be started and stopped inside it. */
typedef void http_exchange_done_fn(void *owner, const struct http_result *result);

struct http_post {
        struct http_target *target; /* its addresses are known; borrowed, like all that follows,
                                     * until the exchange is over */
        const struct bytes *lines;  /* of the head, each with its CR and LF; the target has more */
        const void *body;
        size_t body_bytes;
};

struct http_client_ops {
        struct http_exchange *(*post)(struct http_client *client, const struct http_post *post,
            http_exchange_done_fn *on_done, void *owner, struct error *error);
        struct http_exchange *(*connect)(struct http_client *client, struct http_target *target,
            http_exchange_done_fn *on_done, void *owner, struct error *error);
        bool (*stop)(struct http_exchange *exchange, struct outcome *out_outcome);
        void (*destroy)(struct http_client *client);
};

/* The beginning of each. */
struct http_client {
        const struct http_client_ops *ops;
};

/* Sends a request. on_done comes once, never inside the call, unless http_exchange_stop() comes
 * first. NULL, with *error set, if it cannot be begun. */
static inline struct http_exchange *http_client_post(struct http_client *client,
    const struct http_post *post, http_exchange_done_fn *on_done, void *owner, struct error *error)
{
        return client->ops->post(client, post, on_done, owner, error);
}

/* The same, but only connects: TCP and TLS, no request. result->code says whether it did. */
static inline struct http_exchange *http_client_connect(struct http_client *client,
    struct http_target *target, http_exchange_done_fn *on_done, void *owner, struct error *error)
{
        return client->ops->connect(client, target, on_done, owner, error);
}

/* Breaks it off. True, with *out_outcome, if the answer is already known. */
static inline bool http_exchange_stop(struct http_exchange *exchange, struct outcome *out_outcome)
{
        return exchange->client->ops->stop(exchange, out_outcome);
}

/* NULL is allowed. No exchange may be under way. */
static inline void http_client_destroy(struct http_client *client)
{
        if (client != NULL)
                client->ops->destroy(client);
}
