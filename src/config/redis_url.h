/* redis[s]://[user[:password]@]host[:port][/db] and unix:///path/to.sock[?db=N], taken apart. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct redis_url {
        char *host; /* NULL for a unix socket */
        uint16_t port;
        char *socket_path; /* NULL for TCP */
        char *user;        /* NULL: none */
        char *password;    /* NULL: none */
        uint32_t db;
        bool is_tls;
};

/* NULL if `text` is such a URL, with *out_url filled; else a reason that quotes nothing of it. */
const char *redis_url_split(const char *text, struct redis_url *out_url);
void redis_url_deinit(struct redis_url *url);

/* The same for a host alone: a name, an IPv4 address or an [IPv6 address], and perhaps a :port, else
 * *out_port is 0. *out_host is to be freed by the caller. */
const char *redis_host_split(const char *text, char **out_host, uint16_t *out_port);
