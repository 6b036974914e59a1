/* Requests by HTTP/1.1 (RFC 9112), on connections of our own. */
#pragma once

#include <uv.h>

struct address_guard;
struct http_client;
struct http_config;

/* `max_connections`: as http1_pool_create() has it. `config` and `guard` are borrowed for the
 * client's life. */
struct http_client *http1_client_create(uv_loop_t *loop, const struct http_config *config,
    const struct address_guard *guard, unsigned max_connections);
