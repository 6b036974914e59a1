/* What `pgcourier check` and `doctor` report, line by line, and the checks that both make. */
#pragma once

#include "base/error.h"

#include <stdbool.h>

struct blocking_conn;
struct config;
struct postgres_config;
struct report;
struct rows;

struct report *report_create(bool as_json);

/* Prints what is left to print and frees it. False if a check failed. */
bool report_finish(struct report *report, struct error *error);

/* `what` is a short, stable name ("schema", "sink billing"); a remedy says what to do about it. */
void report_ok(struct report *report, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void report_warn(struct report *report, const char *what, const char *remedy, const char *format,
    ...) __attribute__((format(printf, 4, 5)));
/* The kind of the first failure decides on the exit code. */
void report_fail(struct report *report, enum error_kind kind, const char *what, const char *remedy,
    const char *format, ...) __attribute__((format(printf, 5, 6)));

/* No connection came about: with what to do. */
void report_unreachable(struct report *report, const struct error *error);

/* NULL, which is reported then. */
struct blocking_conn *check_connection(const struct config *config, struct report *report);

/* `postgres`: how it was connected. Without a configuration what depends on one is left out.
 * False if there is no schema that this program knows. */
bool check_database(struct blocking_conn *conn, const struct postgres_config *postgres,
    const struct config *config, struct report *report);

/* Opens each sink, and with `connects` probes it. False if a sink did not end in time: then the
 * config must not be freed any more. */
bool check_sinks(const struct config *config, bool connects, struct report *report);
