/* Connection strings without their password, for files that others may read. */
#pragma once

#include "base/error.h"

/*
 * *out_rest is the same as a connection string of keywords, *out_password what
 * it had as a password, or NULL; free both. ERROR_CONFIG as dsn_check().
 */
bool dsn_split(const char *dsn, char **out_rest, char **out_password, struct error *error)
    __attribute__((warn_unused_result));

/* Without any secret, for people. NULL (what the environment says) and what libpq does not understand are "". */
char *dsn_without_secrets(const char *dsn);

/* The same for that role; the database is named as `database` if it was not. */
char *dsn_of_role(const char *dsn, const char *role, const char *database);
