/* The body of one request, in the form that the config wants: pure, without I/O. */
#pragma once

#include "config/config.h"
#include "pgcourier/event.h"
#include "pgcourier/outcome.h"

#include <stdbool.h>
#include <stddef.h>

struct bytes;

/* False, with *out_rejected set, if the form has no way to carry the event. */
bool http_body_can_carry(
    const struct http_config *config, const struct event *event, struct outcome *out_rejected);

/* Whether the body is the payload as it is: then nothing has to be built. */
bool http_body_is_payload(const struct http_config *config);

/* The body for a single event, or the array for a batch. */
void http_body_append(
    const struct http_config *config, const struct event *event, struct bytes *out);
void http_body_append_batch(const struct http_config *config, const struct event *const *events,
    size_t n_events, struct bytes *out);

/* `event` is NULL for a batch. */
const char *http_body_content_type(const struct http_config *config, const struct event *event);
