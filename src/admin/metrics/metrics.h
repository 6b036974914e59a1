/*
 * The metrics: all that is in docs/metrics.md, from what the telemetry has seen
 * and what the database said when it was last looked at. What is not known has no
 * sample: a zero would be a claim.
 */
#pragma once

#include "base/bytes.h"

#include <jansson.h>
#include <stddef.h>

struct telemetry;

enum metrics_format { METRICS_PROMETHEUS, METRICS_OPENMETRICS };

/* By a request's Accept header, or NULL. */
enum metrics_format metrics_format_for(const char *accept);
const char *metrics_content_type(enum metrics_format format);

/* Of a telemetry that has just been refreshed. `look` is the answer of the outbox's look at
 * itself, or NULL. Appends. */
void metrics_write(struct bytes *out, enum metrics_format format, const struct telemetry *telemetry,
    const json_t *look);

/* To compare them with the documentation; NULL behind the last. */
const char *metrics_name(size_t i);
