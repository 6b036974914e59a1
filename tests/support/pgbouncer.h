/* A private PgBouncer for a test, between its clients and a cluster; everyone is trusted. */
#pragma once

#include "support/postgres.h"

struct pgbouncer {
        struct process process;
        uint16_t port;
};

/* `addresses` to listen on, 127.0.0.1 among them; `settings`: more lines of its file. Returns when
 * it listens. */
void pgbouncer_start(struct pgbouncer *pgbouncer, const struct postgres *postgres,
    const char *addresses, const char *settings);
