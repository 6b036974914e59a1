/* The URL of an http sink or endpoint, read by libcurl's own parser, so that both find the same host in it. */
#pragma once

#include <stdbool.h>

struct error;

/* False, with *error set (ERROR_CONFIG), for what is no http or https URL; `name` says which it is,
 * for people. The two strings are freed with curl_free(). */
bool http_url_parse(
    const char *name, const char *url, char **out_host, char **out_port, struct error *error);

/* Whether a name or a password stands before its host. */
bool http_url_has_userinfo(const char *url);

/* A URL that has been parsed, without what may be secret in it: user, password, query. Free it. */
char *http_url_describe(const char *url);
