/* redis://[user[:password]@]host[:port][/db] and unix:///path/to.sock[?db=N], taken apart. */
#pragma once

#include <stdint.h>

struct redis_url {
        char *host; /* NULL for a unix socket */
        uint16_t port;
        char *socket_path; /* NULL for TCP */
        char *user;        /* NULL: none */
        char *password;    /* NULL: none */
        uint32_t db;
};

/* NULL if `text` is such a URL, with *out_url filled; else a reason that quotes nothing of it. */
const char *redis_url_split(const char *text, struct redis_url *out_url);
void redis_url_deinit(struct redis_url *url);
