/* The database of a command: which one, and its refusals in the words of the command line. */
#pragma once

#include "base/error.h"
#include "pg/blocking_conn.h"

#include <stdint.h>

struct arguments;
struct rows;

/* As --dsn or -c of the command line says, or libpq's environment. The connection is the
 * frame's: it closes it when the command has returned, and puts what the server refused last
 * into words. Once in a command. NULL and *error. */
struct blocking_conn *command_connect(const struct arguments *arguments, struct error *error)
    __attribute__((warn_unused_result));

/* The same for a connection of the caller's own: by dsn, by the file, or (both NULL) as libpq's
 * environment says. answer_timeout_ms 0: statements may take as long as they like. */
struct blocking_conn *connect_for_command(
    const char *dsn, const char *config_path, int64_t answer_timeout_ms, struct error *error);

/* And checks that the schema is the one that this program knows. */
struct blocking_conn *connect_to_schema(
    const char *dsn, const char *config_path, int64_t answer_timeout_ms, struct error *error);

/* Puts what the server refused into words: which role is missing, which value is not valid. Other
 * errors stay as they are. */
void command_refused(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error);

/* ERROR_EMPTY: there is no `kind` of that name; perhaps a near one of `names` was meant, which are
 * freed, else `list` tells them. Returns false; with names NULL, too, and *error as it was. */
bool name_missing(
    struct rows *names, const char *kind, const char *list, const char *name, struct error *error);
