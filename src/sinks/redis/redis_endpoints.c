#include "sinks/redis/redis_endpoints.h"

#include "base/alloc.h"
#include "base/error.h"
#include "config/url.h"

#include <stdlib.h>

bool redis_port_parse(const char *text, uint16_t *out_port)
{
        char *end;
        unsigned long port = strtoul(text, &end, 10);

        if (end == text || *end != '\0' || port == 0 || port > UINT16_MAX)
                return false;
        *out_port = (uint16_t)port;
        return true;
}

void redis_endpoints_add(struct redis_endpoints *endpoints, const char *host, uint16_t port)
{
        endpoints->items =
            xrealloc(endpoints->items, (endpoints->n + 1) * sizeof *endpoints->items);
        endpoints->items[endpoints->n++] =
            (struct redis_endpoint){.host = xstrdup(host), .port = port};
}

bool redis_endpoints_read(struct redis_endpoints *endpoints, char *const *texts, size_t n_texts,
    uint16_t fallback, struct error *error)
{
        for (size_t i = 0; i < n_texts; i++) {
                char *host;
                uint16_t port;
                const char *wrong = redis_host_split(texts[i], &host, &port);

                if (wrong != NULL)
                        return error_set(error, ERROR_CONFIG, "'%s' %s", texts[i], wrong);
                redis_endpoints_add(endpoints, host, port != 0 ? port : fallback);
                free(host);
        }
        return true;
}

void redis_endpoints_deinit(struct redis_endpoints *endpoints)
{
        for (size_t i = 0; i < endpoints->n; i++)
                free(endpoints->items[i].host);
        free(endpoints->items);
        *endpoints = (struct redis_endpoints){0};
}
