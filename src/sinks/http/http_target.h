/*
 * Everything that belongs to one receiver: the sink's url, or one row of
 * courier.endpoint.
 */
#pragma once

#include "base/list.h"
#include "pgcourier/sink.h"
#include "sinks/http/http_host.h"

#include <curl/curl.h>
#include <stdint.h>

struct address_guard;
struct http_batcher;
struct http_config;
struct http_signing;

struct http_target {
        struct sink *sink; /* borrowed */
        uint64_t number;   /* from 1; never given to another receiver of this process */
        char *url;
        CURLU *parsed;     /* the same */
        char *description; /* the URL without what may be secret in it */
        struct http_host *host;
        struct http_signing *signing; /* NULL: unsigned */
        struct curl_slist *fixed;     /* headers */
        struct list waiting;          /* requests, for the host's addresses */
        struct http_batcher *batcher; /* NULL: a request for each event */
        struct list among;            /* link: the sink's open ones */
        struct list due;              /* link: it has a batch to send */
};

/* The receiver of a sink with a fixed url. On failure sets *error and returns NULL. */
struct http_target *http_target_create_fixed(struct sink *sink, const struct http_config *config,
    const struct address_guard *guard, http_host_settled_fn *on_settled, struct error *error);

/* The receiver of a row. on_settled's owner is the target. */
struct http_target *http_target_create(struct sink *sink, const struct http_config *config,
    const struct target_settings *settings, const struct address_guard *guard,
    http_host_settled_fn *on_settled, struct error *error);

/* NULL is allowed; nothing may be waiting or gathered. */
void http_target_destroy(struct http_target *target);
