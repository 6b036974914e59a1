/*
 * The status document: what telemetry has seen, laid over what the database said
 * when it was last asked. docs/admin.md describes its shape.
 */
#pragma once

#include <jansson.h>

struct admin;
struct recent_delivery;
struct sink_telemetry;

json_t *status_document(struct admin *admin); /* a new reference */

/* One of its sinks; `look` is what the database says of it, or NULL. */
json_t *status_sink(struct sink_telemetry *sink, const json_t *look, int64_t now_us);

/* One entry of its "recent". */
json_t *status_delivery(const struct recent_delivery *delivery);
