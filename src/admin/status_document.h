/*
 * The status document: what the database said when it was last asked, and, of a relay, what its
 * telemetry has seen. Both have one shape (docs/admin.md); what is not known is null.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct config;
struct recent_delivery;
struct telemetry;

struct status_basis {
        const json_t *found; /* what the database said (operator/status_query.h); NULL: nothing */
        const char *query_error; /* why it did not answer since; NULL: it did */

        struct telemetry *telemetry; /* of a relay; NULL: only the database is asked */
        const struct config *config; /* without a relay: whose sinks; NULL: all in the database */
        const char *config_file;     /* NULL: there is none */
        bool can_change;             /* the endpoint has a token */
};

/* A new reference. Refreshes the telemetry. */
json_t *status_document(const struct status_basis *basis);

/* One entry of its "recent". `found` says of which table the event's tap is. */
json_t *status_delivery(const struct recent_delivery *delivery, const json_t *found);

/* The table of a tap, as "public.orders"; NULL: what was found does not say. */
const char *status_table(const json_t *found, int32_t source);

/*
 * Whether the relay is ready, and why not: [{"name", "ok", "words"}…], a new reference. The
 * telemetry has been refreshed.
 *
 * A destination that is down does not make the relay unready: its events wait, as they should, and
 * a relay that an orchestrator stopped for that would not deliver to the other destinations either.
 * A sink that makes no progress for no known reason does make it unready.
 */
json_t *readiness_conditions(const struct telemetry *telemetry, bool *out_is_ready);

/* ["postgres: …"…] of those that do not hold; a new reference. */
json_t *readiness_failures(const json_t *conditions);
