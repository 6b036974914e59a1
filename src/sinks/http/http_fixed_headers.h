/*
 * Header lines for libcurl that are the same with every request to one
 * receiver: who we are, set_headers, credentials, an endpoint's own. They may
 * hold secrets, so lines are cleared before they are freed.
 */
#pragma once

#include "pgcourier/event.h"
#include "pgcourier/version.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>

#define HTTP_USER_AGENT "pgcourier/" PGCOURIER_VERSION

struct error;
struct http_config;

/* False, with *error set (ERROR_CONFIG), if the config wants an event header passed on, or one
 * set, whose name is not one of HTTP, or that would replace one of ours. */
bool http_headers_check_names(const struct http_config *config, struct error *error);

/* Our own lines, those of the config and those of `own`, which replace the config's of the same name.
 * False, with *error set, if one of `own` cannot be sent. */
bool http_fixed_headers_make(const struct http_config *config, const struct event_header *own,
    size_t n_own, struct curl_slist **out_lines, struct error *error);

struct curl_slist *http_header_line_append(
    struct curl_slist *lines, const char *name, const char *value);
struct curl_slist *http_header_line_copy(struct curl_slist *lines, const char *line);
bool http_header_is_among(const struct curl_slist *lines, const char *name);
bool http_header_has_control(const char *text);

/* NULL is allowed. */
void http_header_lines_free(struct curl_slist *lines);
