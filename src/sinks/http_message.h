/* One POST as it will be sent: body, then the headers that describe and sign exactly that body. */
#pragma once

#include "base/bytes.h"
#include "pgcourier/outcome.h"
#include "pgcourier/sink.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct curl_slist;
struct http_config;
struct http_target;

struct http_message {
        const void *body; /* the event's payload, or built */
        size_t body_bytes;
        struct bytes built;
        struct curl_slist *headers;
};

/*
 * `now_s` is the time of sending. False, with *out_rejected set, if an event
 * cannot be sent. Release it with http_message_deinit() in either case; the
 * headers are not part of that once they were taken.
 */
bool http_message_make(struct http_message *message, const struct http_config *config,
    const struct http_target *target, struct attempt *const *attempts, size_t n_attempts,
    int64_t now_s, struct outcome *out_rejected);

void http_message_deinit(struct http_message *message);
