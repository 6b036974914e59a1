/* A dsn without its password, for files that others may read. */
#pragma once

#include "base/error.h"

/*
 * *out_rest is the same as a connection string of keywords, *out_password what
 * it had as a password, or NULL; free both. ERROR_CONFIG as dsn_check().
 */
bool dsn_split(const char *dsn, char **out_rest, char **out_password, struct error *error)
    __attribute__((warn_unused_result));
