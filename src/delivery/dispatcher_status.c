/* The gauges and the state of a sink, for people: computed when somebody looks, so that nothing has to
 * be kept up to date while nobody does. With an admin endpoint the relay looks by itself as well, or a
 * state would begin when the first one comes to see it. */
#include "delivery/dispatcher_internal.h"
#include "delivery/runner.h"
#include "sinks/sink_contract.h"
#include "telemetry/telemetry.h"

#include <stdio.h>

/* Undelivered events older than this, and nothing delivered for as long: something is stuck. */
#define STALLED_AFTER_S 60

static unsigned breaker_gauge(const struct lane *lane)
{
        switch (lane->breaker.state) {
        case BREAKER_CLOSED:
                return 0;
        case BREAKER_HALF_OPEN:
                return 1;
        case BREAKER_OPEN:
                return 2;
        }
        return 2;
}

static void add_lane(struct sink_telemetry *seen, const struct lane *lane)
{
        const struct window *window = &lane->window;

        seen->in_flight += window->n_taken - lane->n_settled + lane->n_claimed;
        seen->window += lane->policy.max_in_flight;
        if (breaker_gauge(lane) < seen->breaker)
                seen->breaker = breaker_gauge(lane);
}

static void add_filter(
    struct sink_telemetry *seen, const struct sieve_filter *filter, const char *endpoint)
{
        if (filter == NULL || !sieve_filter_is_slow(filter))
                return;
        if (seen->n_slow_filters++ == 0)
                snprintf(seen->slow_filter, sizeof seen->slow_filter, "%s", endpoint);
}

/* What waits for a receiver that has just begun to fail, or for a slow filter, is known to us and not yet
 * to the database. */
static bool is_any_ailing(const struct carrier *carrier)
{
        if (carrier->seen->n_slow_filters > 0)
                return true;
        list_for_each (link, &carrier->routes)
                if (list_owner(link, struct route, link)->health.state == HEALTH_AILING)
                        return true;
        return false;
}

static bool is_stalled(const struct carrier *carrier, int64_t now_us)
{
        const struct sink_telemetry *seen = carrier->seen;
        int64_t since_us = seen->last_delivery_us > seen->state_since_us ? seen->last_delivery_us
                                                                         : seen->state_since_us;

        if (is_any_ailing(carrier))
                return false;
        if (seen->state == SINK_STALLED)
                return seen->last_delivery_us <= seen->state_since_us &&
                       seen->overdue_s != 0; /* not known is no good news */
        return seen->overdue_s > STALLED_AFTER_S &&
               telemetry_wall_us(seen->telemetry, now_us) - since_us >
                   STALLED_AFTER_S * INT64_C(1000000);
}

static enum sink_state find_state(
    const struct carrier *carrier, const char **out_reason, int64_t now_us)
{
        const struct sink_telemetry *seen = carrier->seen;

        *out_reason = "";
        if (carrier->is_draining)
                return SINK_DRAINING;
        if (!carrier->is_session_up) {
                *out_reason = "not connected to PostgreSQL";
                return SINK_DISCONNECTED;
        }
        if (carrier->is_standby) {
                *out_reason = carrier->differences == NULL
                                  ? "another relay owns it"
                                  : "another relay owns it, and has other settings for it";
                return SINK_STANDBY;
        }
        if (carrier->is_paused_by_operator) {
                *out_reason = carrier->pause_reason;
                return SINK_PAUSED;
        }
        if (!carrier->is_owned)
                return SINK_STARTING;
        if (carrier->is_paused_by_relay) {
                *out_reason = carrier_is_filter_given_up(carrier) ? carrier->filter_reason
                                                                  : seen->last_error.words;
                return SINK_REFUSED;
        }
        if (seen->breaker > 0) {
                *out_reason = seen->last_error.words;
                return SINK_DOWN;
        }
        if (is_stalled(carrier, now_us)) {
                *out_reason = "events wait, and none has been delivered for a minute";
                return SINK_STALLED;
        }
        return SINK_RUNNING;
}

void carrier_show(const struct carrier *carrier, int64_t now_us)
{
        struct sink_telemetry *seen = carrier->seen;
        enum sink_state state;
        const char *reason;

        seen->in_flight = 0;
        seen->window = 0;
        seen->sending = carrier->sink->n_in_flight;
        seen->breaker = list_is_empty(&carrier->routes) ? 0 : 2;
        seen->n_slow_filters = 0;
        seen->slow_filter[0] = '\0';
        add_filter(seen, carrier->filter, "");
        list_for_each (link, &carrier->routes) {
                const struct route *route = list_owner(link, struct route, link);
                add_lane(seen, &route->lane);
                add_filter(
                    seen, route->filter, route->endpoint != NULL ? route->endpoint->name : "");
        }
        seen->is_paused = carrier->is_paused_by_operator || carrier->is_paused_by_relay;
        seen->is_owned = carrier->is_owned;
        seen->is_up = carrier->is_owned && seen->breaker == 0;
        state = find_state(carrier, &reason, now_us);
        telemetry_set_state(seen, state, reason, now_us);
}
