/*
 * One HTTP request and its response, on one of libcurl's handles. An exchange
 * is made once and used again and again.
 */
#pragma once

#include "sinks/http/http_status.h"

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct address_guard;
struct curl_driver;
struct error;
struct http_config;
struct http_exchange;

/* The exchange is free for its next use. `result` is borrowed for the call. */
typedef void http_exchange_done_fn(void *owner, const struct http_result *result);

/* `driver`, `config`, `guard` and `owner` are borrowed for the exchange's life. */
struct http_exchange *http_exchange_create(uv_loop_t *loop, struct curl_driver *driver,
    const struct http_config *config, const struct address_guard *guard,
    http_exchange_done_fn *on_done, void *owner);

/* NULL is allowed; it may not be running. */
void http_exchange_destroy(struct http_exchange *exchange);

struct http_post {
        uint64_t receiver;          /* a number that no other receiver ever has; not 0 */
        CURLU *url;                 /* the receiver's; borrowed as long as it is posted to */
        struct curl_slist *headers; /* borrowed until the exchange is over, like the body */
        struct curl_slist *pin;     /* for CURLOPT_RESOLVE; may be NULL; consumed */
        const void *body;
        size_t body_bytes;
};

/* on_done comes once, never inside the call, unless http_exchange_stop() comes first. False, with
 * *error set, if libcurl refuses. */
bool http_exchange_post(
    struct http_exchange *exchange, const struct http_post *post, struct error *error);

/* The same, but only connects: TCP and TLS, no request. */
bool http_exchange_connect(
    struct http_exchange *exchange, const char *url, struct curl_slist *pin, struct error *error);

/* Breaks it off. True, with *out_outcome, if the answer is already known. */
bool http_exchange_stop(struct http_exchange *exchange, struct outcome *out_outcome);
