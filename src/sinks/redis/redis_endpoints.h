/* Lists of "host:port". */
#pragma once

#include "sinks/redis/redis_connection.h"

#include <stddef.h>

struct error;

/* All zero is empty. */
struct redis_endpoints {
        struct redis_endpoint *items; /* owned, with their hosts */
        size_t n;
};

/* `fallback` stands for a port that is not given. False and *error if a text is not of that form. */
bool redis_endpoints_read(struct redis_endpoints *endpoints, char *const *texts, size_t n_texts,
    uint16_t fallback, struct error *error);
void redis_endpoints_add(struct redis_endpoints *endpoints, const char *host, uint16_t port);
void redis_endpoints_deinit(struct redis_endpoints *endpoints);

/* True and *out_port if `text` is a number from 1 to 65535. */
bool redis_port_parse(const char *text, uint16_t *out_port);
