/*
 * Whether the relay is ready, and why not, condition by condition.
 *
 * A destination that is down does not make the relay unready: its events wait, as
 * they should, and a relay that an orchestrator stopped for that would not deliver
 * to the other destinations either. A sink that makes no progress for no known
 * reason does make it unready.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct telemetry;

/* [{"name", "ok", "words"}…]; a new reference. The telemetry has been refreshed. */
json_t *readiness_conditions(const struct telemetry *telemetry, bool *out_is_ready);

/* ["postgres: …"…] of those that do not hold; a new reference. */
json_t *readiness_failures(const json_t *conditions);
