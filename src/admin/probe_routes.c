#include "admin/admin_internal.h"
#include "admin/http/answer.h"
#include "admin/readiness.h"
#include "base/clock.h"
#include "telemetry/telemetry.h"

/* That this answers says everything: the loop turns. It never depends on PostgreSQL or a sink, else
 * an outage would have every relay restarted. */
void answer_livez(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        (void)admin;
        (void)name;
        (void)body;
        answer_json(request, 200, json_pack("{s:b}", "live", 1));
}

void answer_readyz(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        struct telemetry *telemetry = admin->options.telemetry;
        json_t *conditions;
        bool is_ready;

        (void)name;
        (void)body;
        telemetry_refresh(telemetry, clock_monotonic_us());
        conditions = readiness_conditions(telemetry, &is_ready);
        answer_json(request, is_ready ? 200 : 503,
            json_pack("{s:b s:o}", "ready", is_ready, "conditions", conditions));
}
