/*
 * Whether libpq is to be asked to connect at all. libpq quotes what it does not understand; and of a
 * password that is not percent-encoded a piece ends up where the host, the port or the database is
 * looked for. So what cannot be right is refused before, in words that quote nothing of the dsn. Nor is
 * libpq to open a pipe or a device as a certificate, and to wait for it: those files are looked at, and of
 * a dsn that is right otherwise the name of such a file is quoted.
 */
#pragma once

#include "base/error.h"

/* ERROR_CONFIG, with what is probably wrong. */
bool dsn_check(const char *dsn, struct error *error) __attribute__((warn_unused_result));
