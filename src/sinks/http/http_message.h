/*
 * One POST as it will be sent: the body in the form that the config wants, then the headers that
 * describe and sign exactly that body. Pure, without I/O.
 */
#pragma once

#include "base/bytes.h"
#include "config/config.h"
#include "pgcourier/event.h"
#include "pgcourier/outcome.h"
#include "pgcourier/sink.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_target;

/* False, with *out_rejected set, if the form has no way to carry the event. */
bool http_body_can_carry(
    const struct http_config *config, const struct event *event, struct outcome *out_rejected);

/* The body for a single event, or the array for a batch. */
void http_body_append(
    const struct http_config *config, const struct event *event, struct bytes *out);
void http_body_append_batch(const struct http_config *config, const struct event *const *events,
    size_t n_events, struct bytes *out);

/* Appends `data`, compressed as one gzip member. */
void http_gzip_append(struct bytes *out, const void *data, size_t length);

struct http_message {
        const void *body; /* the event's payload, or built */
        size_t body_bytes;
        struct bytes built;
        struct bytes lines; /* of its head; the target's own come with them */
};

/*
 * `now_s` is the time of sending. False, with *out_rejected set, if an event
 * cannot be sent. The message borrows from the events. It may be made again and
 * again; http_message_clear() in between frees the body.
 */
bool http_message_make(struct http_message *message, const struct http_config *config,
    const struct http_target *target, struct attempt *const *attempts, size_t n_attempts,
    int64_t now_s, struct outcome *out_rejected);

void http_message_clear(struct http_message *message);
void http_message_deinit(struct http_message *message);
