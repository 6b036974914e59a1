/*
 * A failure of the world around us, as a value: filled by the callee in storage
 * the caller owns, returned upwards, logged or printed once at the top.
 */
#pragma once

#include <stdbool.h>

enum error_kind {
        ERROR_NONE,
        ERROR_USAGE,      /* the command line */
        ERROR_CONFIG,     /* the config file, or a file it names */
        ERROR_DATABASE,   /* PostgreSQL cannot be reached or refused a statement */
        ERROR_LOGIN,      /* PostgreSQL can be reached, but does not let us in */
        ERROR_SINK,       /* a destination cannot be reached or refuses us */
        ERROR_SCHEMA,     /* the schema is missing, too old or too new; or it is another cluster */
        ERROR_PERMISSION, /* PostgreSQL or the file system says we may not */
        ERROR_EMPTY,      /* nothing is what was asked for */
        ERROR_TEMPORARY, /* the same again later may succeed: a deadlock, a server short of memory */
        ERROR_SYSTEM,    /* everything else */
};

struct error {
        enum error_kind kind;
        char text[1024]; /* what, where, why and what to do; no trailing newline, no secrets */
};

/* Always returns false, so that a failing path reads `return error_set(...)`. */
bool error_set(struct error *error, enum error_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The process's exit code for a failure of this kind (listed in `pgcourier help`). */
int error_exit_code(enum error_kind kind);
