/*
 * How things fail here. There are three mechanisms, and each failure belongs to exactly one:
 *
 *   A bug of ours       assert(), which stays on in release builds. Never about input, the network
 *                       or the database.
 *   A delivery's end    struct outcome (pgcourier/outcome.h), a closed set: delivered, retry,
 *                       rejected, sink down, cancelled. In doubt retry: delivery is at least once.
 *   The world failing   bool (or NULL) and the struct error below.
 *
 * A function that can fail takes `struct error *error` last and returns false, or NULL, after it
 * filled the error; on success it leaves the error alone. The caller owns the storage, usually on
 * its stack. It passes the error on as it is, or replaces the text by one that says more:
 *
 *         if (!file_read(path, &text, error))
 *                 return false;
 *         if (*text == '\0')
 *                 return error_set(error, ERROR_CONFIG,
 *                     "%s is empty; write the password to it", path);
 *
 * Nothing is logged on the way: an error is logged or printed once, at the top, and its kind
 * becomes the exit code. The text says what failed, where, why, and what to do about it. Secrets,
 * payloads and foreign bytes that were not checked never get into it.
 *
 * Memory that runs out is none of the three: base/alloc.h ends the process.
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
        ERROR_TEMPORARY,  /* the same may succeed later: a deadlock, a server short of memory */
        ERROR_SYSTEM,     /* everything else */
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
