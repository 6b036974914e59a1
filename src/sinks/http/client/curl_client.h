/* Requests by libcurl: HTTP/2 where a receiver offers it, HTTP/1.1 elsewhere, and proxies. */
#pragma once

#include <uv.h>

struct address_guard;
struct http_client;
struct http_config;

/* `max_connections`: how many connections, busy or idle, are kept open for reuse. `config` and
 * `guard` are borrowed for the client's life. */
struct http_client *curl_client_create(uv_loop_t *loop, const struct http_config *config,
    const struct address_guard *guard, unsigned max_connections);
