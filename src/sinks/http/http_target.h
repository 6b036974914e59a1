/*
 * Everything that belongs to one receiver: the sink's url, or one row of
 * courier.receiver.
 */
#pragma once

#include "base/list.h"
#include "pgcourier/event.h"
#include "pgcourier/sink.h"
#include "pgcourier/version.h"
#include "sinks/http/http_host.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct address_guard;
struct error;
struct http_batcher;
struct http_config;
struct http_signing;

struct http_target {
        struct sink *sink; /* borrowed */
        uint64_t number;   /* from 1; never given to another receiver of this process */
        char *url;
        CURLU *parsed;     /* the same */
        char *origin;      /* "https://host:port", with the port in any case */
        char *line;        /* the request's first, and that of Host, each with its CR and LF */
        char *description; /* the URL without what may be secret in it */
        struct http_host *host;
        struct http_signing *signing; /* NULL: unsigned */
        char *fixed;                  /* header lines, each with its CR and LF */
        struct list waiting;          /* requests, for the host's addresses */
        struct http_batcher *batcher; /* NULL: a request for each event */
        struct list among;            /* link: the sink's open ones */
        struct list due;              /* link: it has a batch to send */
        unsigned n_blaming;           /* answers to single events in a row that blame it */
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

/*
 * Header lines that are the same with every request to one receiver: User-Agent, set_headers,
 * credentials, a receiver's own. They may hold secrets: free them with secret_free().
 */
#define HTTP_USER_AGENT "pgcourier/" PGCOURIER_VERSION

/* False, with *error set (ERROR_CONFIG), if the config wants an event header passed on, or one
 * set, whose name is not one of HTTP, or that would replace one of ours. */
bool http_headers_check_names(const struct http_config *config, struct error *error);

/* Our own lines, those of the config and those of `own`, which replace the config's of the same
 * name. NULL, with *error set, if one of `own` cannot be sent. */
char *http_fixed_headers_make(const struct http_config *config, const struct event_header *own,
    size_t n_own, struct error *error);

/* Whether one of the lines is of that header, in any case of letters. `lines` may be NULL. */
bool http_header_is_among(const char *lines, const char *name);
