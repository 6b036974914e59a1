/* The gauges and the state of a sink. They are computed when they are asked for, so that nothing has to
 * be kept up to date meanwhile. With an admin endpoint the relay asks regularly, too, so that a state
 * begins when it does and not when it is looked at first. */
#include "delivery/dispatcher_internal.h"
#include "delivery/runner.h"
#include "sinks/sink_contract.h"
#include "telemetry/telemetry.h"

#include <stdio.h>

/* A sink is stalled if events have waited for so long, and none was delivered meanwhile. */
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

        seen->in_flight += window->n_taken - lane->settler.n_settled + lane->parked.n_claimed;
        seen->window += lane->policy.max_in_flight;
        if (breaker_gauge(lane) < seen->breaker)
                seen->breaker = breaker_gauge(lane);
}

static void add_filter(
    struct sink_telemetry *seen, const struct filter *filter, const char *endpoint)
{
        if (filter == NULL || !filter_is_slow(filter))
                return;
        if (seen->n_slow_filters++ == 0)
                snprintf(seen->slow_filter, sizeof seen->slow_filter, "%s", endpoint);
}

/* The events may wait for a receiver that has just begun to fail, or for a slow filter. The relay knows that
 * before the database does. */
static bool is_any_ailing(const struct dispatcher *dispatcher)
{
        if (dispatcher->seen->n_slow_filters > 0)
                return true;
        list_for_each (link, &dispatcher->runners)
                if (list_owner(link, struct runner, link)->health.state == HEALTH_AILING)
                        return true;
        return false;
}

static bool is_stalled(const struct dispatcher *dispatcher, int64_t now_us)
{
        const struct sink_telemetry *seen = dispatcher->seen;
        int64_t since_us = seen->last_delivery_us > seen->state_since_us ? seen->last_delivery_us
                                                                         : seen->state_since_us;

        if (is_any_ailing(dispatcher))
                return false;
        if (seen->state == SINK_STALLED)
                return seen->last_delivery_us <= seen->state_since_us &&
                       seen->overdue_s != 0; /* negative: not known, which proves nothing */
        return seen->overdue_s > STALLED_AFTER_S &&
               telemetry_wall_us(seen->telemetry, now_us) - since_us >
                   STALLED_AFTER_S * INT64_C(1000000);
}

static enum sink_state find_state(
    const struct dispatcher *dispatcher, const char **out_reason, int64_t now_us)
{
        const struct sink_telemetry *seen = dispatcher->seen;

        *out_reason = "";
        if (dispatcher_is_draining(dispatcher))
                return SINK_DRAINING;
        if (!dispatcher->set->is_session_up) {
                *out_reason = "not connected to PostgreSQL";
                return SINK_DISCONNECTED;
        }
        if (dispatcher->is_owned_elsewhere) {
                *out_reason = dispatcher->differences == NULL
                                  ? "another relay owns it"
                                  : "another relay owns it, and has other settings for it";
                return SINK_STANDBY;
        }
        if (dispatcher->is_paused_by_operator) {
                *out_reason = dispatcher->pause_reason;
                return SINK_PAUSED;
        }
        if (dispatcher->state != DISPATCHER_OWNED)
                return SINK_STARTING;
        if (dispatcher->is_paused_by_relay) {
                *out_reason = dispatcher->filter_reason[0] != '\0' ? dispatcher->filter_reason
                                                                   : seen->last_error.words;
                return SINK_REFUSED;
        }
        if (seen->breaker > 0) {
                *out_reason = seen->last_error.words;
                return SINK_DOWN;
        }
        if (is_stalled(dispatcher, now_us)) {
                *out_reason = "events wait, and none has been delivered for a minute";
                return SINK_STALLED;
        }
        return SINK_RUNNING;
}

void dispatcher_show(const struct dispatcher *dispatcher, int64_t now_us)
{
        struct sink_telemetry *seen = dispatcher->seen;
        enum sink_state state;
        const char *reason;

        if (!dispatcher_is_at_work(dispatcher)) /* another dispatcher shows the sink, or none */
                return;
        seen->in_flight = 0;
        seen->window = 0;
        seen->sending = dispatcher->sink->n_in_flight;
        seen->breaker = list_is_empty(&dispatcher->runners) ? 0 : 2;
        seen->n_slow_filters = 0;
        seen->slow_filter[0] = '\0';
        add_filter(seen, dispatcher->filter, "");
        list_for_each (link, &dispatcher->runners) {
                const struct runner *runner = list_owner(link, struct runner, link);
                add_lane(seen, &runner->lane);
                add_filter(
                    seen, runner->filter, runner->endpoint != NULL ? runner->endpoint->name : "");
        }
        seen->is_paused = dispatcher->is_paused_by_operator || dispatcher->is_paused_by_relay;
        seen->is_owned = dispatcher_has_lock(dispatcher);
        seen->is_up = seen->is_owned && seen->breaker == 0;
        state = find_state(dispatcher, &reason, now_us);
        telemetry_set_state(seen, state, reason, now_us);
}
