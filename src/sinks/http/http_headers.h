/* The header lines of one webhook request: pure, without I/O. */
#pragma once

#include "base/bytes.h"
#include "pgcourier/event.h"
#include "pgcourier/outcome.h"

#include <curl/curl.h>
#include <stddef.h>
#include <stdint.h>

struct http_config;
struct http_signing;

/*
 * The lines as libcurl takes them, built again and again in the same memory: a list of libcurl's
 * own would cost three allocations a line.
 */
struct http_line {
        size_t at;              /* in `text`, which may still move */
        struct curl_slist node; /* made by list_of() */
};

/* All zero: empty. */
struct http_lines {
        struct bytes text;       /* the lines, each with its NUL */
        struct http_line *lines; /* owned */
        size_t n_lines;
        size_t n_allocated;
        size_t value_at; /* of the line that was begun last */
};

void http_lines_deinit(struct http_lines *lines);

/* What the headers are made from; all of it is borrowed for the call. */
struct http_request_head {
        const struct http_config *config;
        const struct event *event;          /* NULL: several, in one body */
        const char *id;                     /* for webhook-id */
        struct curl_slist *fixed;           /* the same with every request to this receiver */
        const struct http_signing *signing; /* NULL: unsigned */
        int64_t now_s;                      /* the time of this attempt, in unix seconds */
        const void *body;                   /* as it is sent */
        size_t body_bytes;
};

/* All headers, for CURLOPT_HTTPHEADER: made in `lines`, which is cleared first, with head->fixed at
 * the end. NULL, with *out_rejected set, if HTTP cannot carry one of the event's values. */
struct curl_slist *http_headers_make(
    const struct http_request_head *head, struct http_lines *lines, struct outcome *out_rejected);

/* Of an event's headers those that may leave us: the ones that the config lists, and a valid trace.
 * An array to be freed, of copies that borrow the event's texts. */
struct event_header *http_headers_shown(
    const struct http_config *config, const struct event *event, size_t *out_n_headers);

/* `event` is NULL for a batch. */
const char *http_content_type(const struct http_config *config, const struct event *event);
