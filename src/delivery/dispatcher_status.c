/*
 * Whether a sink runs: what pauses it (an operator, its destination that refuses us, its filter
 * that is too slow), and the state and the gauges that it shows.
 */
#include "delivery/dispatcher_internal.h"
#include "delivery/runner.h"
#include "delivery/shard.h"
#include "log/log.h"
#include "sinks/sink_contract.h"
#include "telemetry/telemetry.h"

#include <stdio.h>
#include <string.h>

/* `by`: whose pause it was. */
static void log_resumed(const struct dispatcher *dispatcher, const char *by)
{
        log_info("sink_resumed", kv_text("sink", dispatcher->name), kv_text("by", by));
}

static void pause_by_relay(struct dispatcher *dispatcher, const char *reason, const char *hint)
{
        const struct sink_set *set = dispatcher->set;

        dispatcher->is_paused_by_relay = true;
        log_error("sink_paused", kv_text("sink", dispatcher->name), kv_text("by", "relay"),
            kv_text("reason", reason), kv_text("hint", hint));
        set->events.on_refused(set->owner, dispatcher->name, reason);
}

void dispatcher_note_outcome(struct runner *runner, const struct outcome *outcome)
{
        struct dispatcher *dispatcher = runner->dispatcher;
        const struct sink_set *set = dispatcher->set;
        const struct breaker *breaker = &runner->lane.breaker;

        if (breaker->state == BREAKER_CLOSED && dispatcher->is_paused_by_relay &&
            dispatcher->filter_reason[0] == '\0') {
                dispatcher->is_paused_by_relay = false;
                log_resumed(dispatcher, "relay");
                set->events.on_recovered(set->owner, dispatcher->name);
        } else if (outcome->needs_operator && lane_is_down(&runner->lane) &&
                   !dispatcher->is_paused_by_relay) {
                pause_by_relay(dispatcher, outcome->reason,
                    "correct the cause; the relay tries again now and then, and at once after "
                    "`pgcourier resume`");
        }
}

static void update_pauses(struct dispatcher *dispatcher)
{
        list_for_each (link, &dispatcher->runners)
                runner_update_pause(list_owner(link, struct runner, link));
}

static void on_filter_given_up(void *owner, const char *words)
{
        struct dispatcher *dispatcher = owner;

        snprintf(dispatcher->filter_reason, sizeof dispatcher->filter_reason, "%s", words);
        pause_by_relay(dispatcher, words,
            "nothing is read for it; change its filter and reload, or `pgcourier resume` tries "
            "again");
        update_pauses(dispatcher);
}

void dispatcher_open_filter(struct dispatcher *dispatcher)
{
        dispatcher->filter_reason[0] = '\0';
        if (dispatcher->config->filter != NULL)
                dispatcher->filter = filter_open(outbox_filter_queue(dispatcher->set->outbox),
                    dispatcher->config->filter, on_filter_given_up, dispatcher);
}

static void pause_by_operator(struct dispatcher *dispatcher, const struct pause *pause)
{
        if (dispatcher->is_paused_by_operator == (pause != NULL))
                return;
        dispatcher->is_paused_by_operator = pause != NULL;
        snprintf(dispatcher->pause_reason, sizeof dispatcher->pause_reason, "%s",
            pause != NULL && pause->reason != NULL ? pause->reason : "");
        if (pause != NULL)
                log_warn("sink_paused", kv_text("sink", dispatcher->name),
                    kv_text("by", "operator"), kv_text("reason", pause->reason));
        else
                log_resumed(dispatcher, "operator");
        update_pauses(dispatcher);
}

/* An operator has resumed what the relay had paused: it is tried again at once. */
static void resume_by_operator(struct dispatcher *dispatcher)
{
        log_resumed(dispatcher, "relay");
        if (dispatcher->filter_reason[0] != '\0') {
                filter_close(dispatcher->filter);
                dispatcher_open_filter(dispatcher);
                update_pauses(dispatcher);
        }
        list_for_each (link, &dispatcher->runners)
                lane_probe_now(&list_owner(link, struct runner, link)->lane, dispatcher_now_ms());
}

void dispatcher_take_pauses(struct dispatcher *dispatcher, const struct pause_list *pauses)
{
        const struct pause *by_operator = NULL;
        bool by_relay = false;

        if (dispatcher->state == DISPATCHER_CLOSING)
                return;
        for (size_t i = 0; i < pauses->n_pauses; i++) {
                const struct pause *pause = &pauses->pauses[i];
                if (strcmp(pause->sink, dispatcher->name) != 0)
                        continue;
                if (pause->by == PAUSED_BY_OPERATOR)
                        by_operator = pause;
                else
                        by_relay = true;
        }
        dispatcher->knows_pauses = true;
        pause_by_operator(dispatcher, by_operator);
        if (dispatcher->is_paused_by_relay && !by_relay)
                resume_by_operator(dispatcher);
        dispatcher->is_paused_by_relay = by_relay;
        list_for_each (link, &dispatcher->runners)
                runner_wake(list_owner(link, struct runner, link));
        dispatcher_wake(dispatcher);
}

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
    struct sink_telemetry *seen, const struct filter *filter, const char *receiver)
{
        if (filter == NULL || !filter_is_slow(filter))
                return;
        if (seen->n_slow_filters++ == 0)
                snprintf(seen->slow_filter, sizeof seen->slow_filter, "%s", receiver);
}

/* The events may wait for a receiver that has just begun to fail, or for a slow filter. The relay
 * knows that before the database does. */
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

static bool has_lock(const struct dispatcher *dispatcher)
{
        for (unsigned i = 0; i < dispatcher->n_shards; i++)
                if (dispatcher->shards[i].state >= SHARD_OWNED)
                        return true;
        return false;
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
        if (dispatcher->is_older) {
                *out_reason =
                    "another relay has a newer configuration, with another number of shards";
                return SINK_STANDBY;
        }
        if (shards_are_elsewhere(dispatcher)) {
                *out_reason = dispatcher->differences == NULL
                                  ? "another relay owns it"
                                  : "another relay owns it, and has other settings for it";
                return SINK_STANDBY;
        }
        if (dispatcher->is_paused_by_operator) {
                *out_reason = dispatcher->pause_reason;
                return SINK_PAUSED;
        }
        if (shards_count_owned(dispatcher) == 0)
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

/* Computed when asked for, so that nothing has to be kept up to date meanwhile. With an admin
 * receiver the relay asks regularly, too, so that a state begins when it does, and not when it is
 * read first. */
void dispatcher_show(const struct dispatcher *dispatcher, int64_t now_us)
{
        struct sink_telemetry *seen = dispatcher->seen;
        enum sink_state state;
        const char *reason;

        /* Another dispatcher shows the sink, or none. */
        if (!dispatcher_is_at_work(dispatcher) || dispatcher->newer != NULL)
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
                if (shard_is_read(runner->shard) || dispatcher->n_shards == 1)
                        add_lane(seen, &runner->lane);
                add_filter(
                    seen, runner->filter, runner->receiver != NULL ? runner->receiver->name : "");
        }
        seen->is_paused = dispatcher->is_paused_by_operator || dispatcher->is_paused_by_relay;
        seen->n_shards = dispatcher->agreement.n_in_force;
        seen->n_shards_owned = shards_count_owned(dispatcher);
        seen->is_owned = has_lock(dispatcher);
        seen->is_up = seen->is_owned && seen->breaker == 0;
        state = find_state(dispatcher, &reason, now_us);
        telemetry_set_state(seen, state, reason, now_us);
}
