/* What the parts of `pgcourier check` share: a list of findings. Nothing else includes this. */
#pragma once

#include "base/error.h"

struct config;
struct report;

/* `what` is a short, stable name ("schema", "sink billing"); a remedy says what to do about it. */
void report_ok(struct report *report, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void report_warn(struct report *report, const char *what, const char *remedy, const char *format,
    ...) __attribute__((format(printf, 4, 5)));
/* The kind of the first failure decides on the exit code. */
void report_fail(struct report *report, enum error_kind kind, const char *what, const char *remedy,
    const char *format, ...) __attribute__((format(printf, 5, 6)));

void check_database(const struct config *config, struct report *report);

/* False if a sink did not end in time: then the config must not be freed any more. */
bool check_sinks(const struct config *config, struct report *report);
