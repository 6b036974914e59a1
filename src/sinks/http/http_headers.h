/* The header lines of one webhook request: pure, without I/O. */
#pragma once

#include "base/bytes.h"
#include "pgcourier/event.h"
#include "pgcourier/outcome.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_config;
struct http_signing;

/* What the headers are made from; all of it is borrowed for the call. */
struct http_request_head {
        const struct http_config *config;
        const struct event *event; /* NULL: several, in one body */
        const char *id;            /* for webhook-id */
        const char *fixed;         /* lines: the same with every request to this receiver */
        const struct http_signing *signing; /* NULL: unsigned */
        int64_t now_s;                      /* the time of this attempt, in unix seconds */
        const void *body;                   /* as it is sent */
        size_t body_bytes;
};

/* Appends the lines of this request, each with its CR and LF. head->fixed is not among them; what
 * it holds, no line repeats. False, with *out_rejected set, if HTTP cannot carry one of the event's
 * values; `lines` then holds some of them. */
bool http_headers_append(
    const struct http_request_head *head, struct bytes *lines, struct outcome *out_rejected);

/* Of an event's headers those that may leave us: the ones that the config lists, and a valid trace.
 * An array to be freed, of copies that borrow the event's texts. */
struct event_header *http_headers_shown(
    const struct http_config *config, const struct event *event, size_t *out_n_headers);

/* `event` is NULL for a batch. */
const char *http_content_type(const struct http_config *config, const struct event *event);
