/* What all commands share that look into a running relay's tables. */
#pragma once

#include "base/error.h"

#include <stdint.h>

struct blocking_conn;

/* Like connect_for_command(), and checks that the schema is the one that this program knows. */
struct blocking_conn *operate_connect(
    const char *dsn, const char *config_path, int64_t answer_timeout_ms, struct error *error);

/* Puts what the server refused into the words of the command line. Returns false. */
bool operate_refused(struct blocking_conn *conn, struct error *error);
