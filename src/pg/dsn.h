/*
 * Connection strings (DSNs): what is refused before libpq sees it, copies without their secrets,
 * and the TLS that a dsn leaves open.
 *
 * libpq quotes what it does not understand; and of a password that is not percent-encoded a piece
 * ends up where the host, the port or the database is looked for. So what cannot be right is
 * refused first, in words that quote nothing of the dsn. Nor may libpq open a pipe or a device as a
 * certificate, and wait for it: dsn_check() checks those files, and quotes the name of such a file
 * if all else in the dsn is right.
 */
#pragma once

#include "base/error.h"

/* ERROR_CONFIG, with what is probably wrong. */
bool dsn_check(const char *dsn, struct error *error) __attribute__((warn_unused_result));

/*
 * *out_rest is the same as a connection string of keywords, *out_password what
 * it had as a password, or NULL; free both. ERROR_CONFIG as dsn_check().
 */
bool dsn_split(const char *dsn, char **out_rest, char **out_password, struct error *error)
    __attribute__((warn_unused_result));

/* Without any secret, for people. NULL (what the environment says) and what libpq does not
 * understand are "". */
char *dsn_without_secrets(const char *dsn);

/* The same for that role; the database is named as `database` if it was not. */
char *dsn_of_role(const char *dsn, const char *role, const char *database);

/* Or the environment does: libpq takes the first that is as target_session_attrs says. */
bool dsn_names_several_hosts(const char *dsn);

/*
 * TLS where the dsn leaves it open. With libpq's own default, sslmode=prefer, an attacker on the
 * network can suppress TLS, and any certificate is trusted. So for a remote server the default here
 * is verify-full; sslmode in the dsn, PGSSLMODE or a service file asks for less.
 */
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
