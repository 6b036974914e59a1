/* Begins to connect, with what each session of the loop asks of libpq. */
#pragma once

#include "config/config.h"
#include "pg/dsn.h"

#include <libpq-fe.h>

/* As PQconnectStartParams(): NULL if memory runs out, else to be polled and finished. Its errors
 * are verbose, its notices are dropped. `instance` is the name under which people find the session,
 * unless the dsn has one. */
PGconn *session_start(
    const struct postgres_config *config, const struct tls_default *tls, const char *instance);
