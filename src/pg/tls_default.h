/*
 * TLS where the dsn leaves it open. With libpq's own default, sslmode=prefer, an attacker on the network
 * can suppress TLS, and any certificate is trusted. So for a remote server the default here is
 * verify-full; sslmode in the dsn, PGSSLMODE or a service file asks for less.
 */
#pragma once

#include "base/error.h"

struct tls_default {
        const char *sslmode;     /* NULL: libpq's, because the dsn says or the server is local */
        const char *sslrootcert; /* NULL: libpq's; static */
};

/* `dsn` may be NULL: what the environment says. One that libpq cannot read chooses nothing. */
struct tls_default tls_default_choose(const char *dsn);

/* A unix socket, or a loopback address. */
bool tls_host_is_local(const char *host);

/* After libpq's words about a failed connection, where they may be about our choice. */
void tls_default_explain(const struct tls_default *chosen, struct error *error);
