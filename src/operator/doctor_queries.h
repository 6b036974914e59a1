/*
 * What `pgcourier doctor` asks a database beyond the status document (status_query.h), which says
 * what is wrong with sinks. One statement for each concern, which judges by itself. Each row it
 * returns is one finding: how bad, in words, and what to do about it (an exact command or SQL).
 */
#pragma once

#include "base/error.h"
#include "pg/blocking_conn.h"

enum health_column {
        HEALTH_LEVEL, /* "ok", "warn" or "fail" */
        HEALTH_TEXT,
        HEALTH_REMEDY, /* NULL with ok */
};

struct health_check {
        const char *name; /* short and stable: "sessions"; NULL ends a table */
        const char *sql;
        bool needs_sinks; /* $1: the sinks of a configuration; else there is no parameter */
};

extern const struct health_check health_server_checks[]; /* any database */
extern const struct health_check health_schema_checks[]; /* a database with our schema */

/* What relays noted of the sinks that they deliver: name, settings (sink_settings.h), a row
 * each. */
struct rows *health_ask_settings(struct blocking_conn *conn, struct error *error)
    __attribute__((warn_unused_result));

/* `sinks` is an array literal of names; NULL: what is configured is not known. */
struct rows *health_ask(struct blocking_conn *conn, const struct health_check *check,
    const char *sinks, struct error *error) __attribute__((warn_unused_result));
