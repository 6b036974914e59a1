/*
 * Whether the relay is ready, and why not, condition by condition.
 *
 * A destination that is down does not make it unready: its events wait for it, as
 * they should, and a relay that an orchestrator takes away for that delivers to
 * nobody else either. What does is a sink that makes no progress for no reason
 * that we know of.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct telemetry;

/* [{"name", "ok", "words"}…]; a new reference. The telemetry has been refreshed. */
json_t *readiness_conditions(const struct telemetry *telemetry, bool *out_is_ready);

/* ["postgres: …"…] of those that do not hold; a new reference. */
json_t *readiness_failures(const json_t *conditions);
