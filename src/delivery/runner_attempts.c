/* Attempts: handed to the sink when the lane and the sink's other lanes leave room for one, and what
 * their outcomes mean to those who watch. */
#include "base/clock.h"
#include "base/crash_point.h"
#include "base/random.h"
#include "delivery/delivery_log.h"
#include "delivery/fanout.h"
#include "delivery/runner_internal.h"
#include "log/log.h"
#include "sinks/sink_contract.h"

/*
 * A sink's attempts are shared by its receivers: each may have as many in flight
 * as half of those that are free, and always one while any is. So however many
 * receivers hang, some attempts stay free for those who answer, and a single
 * busy one still gets a third of all. (Dynamic thresholds, as switches
 * share their buffers: Choudhury and Hahne, 1998.)
 */
static bool has_share(const struct route *route)
{
        const struct sink *sink = route->carrier->sink;
        unsigned n_free;

        if (route->endpoint == NULL || sink->max_concurrent == 0)
                return true;
        if (sink->n_in_flight >= sink->max_concurrent)
                return false;
        n_free = sink->max_concurrent - sink->n_in_flight;
        return route->lane.n_in_flight == 0 || route->lane.n_in_flight < n_free / 2;
}

/* One attempt is free: those go on who waited for it, as long as there is room. */
static void wake_starved(struct carrier *carrier)
{
        list_for_each (link, &carrier->starved) {
                struct route *route = list_owner(link, struct route, starved_link);
                if (!has_share(route))
                        continue;
                list_remove(link);
                route_mark_dirty(route);
        }
}

static void watch_health(struct route *route, const struct outcome *outcome)
{
        const struct carrier *carrier = route->carrier;
        enum health_news news = health_note(
            &route->health, outcome, carrier_now_ms(), fanout_disable_after_ms(carrier->fanout));

        if (news != HEALTH_NO_NEWS)
                fanout_note_health(carrier->fanout, route, news, outcome->reason);
}

/* What is delivered is told at once. Of all else the lane decides first, and what is kept of it until then
 * would cost a delivery dearly. */
static __attribute__((noinline)) struct lane_result finish_undelivered(
    struct route *route, struct delivery *delivery, const struct outcome *outcome, int64_t now_us)
{
        struct attempt_kept kept;
        struct lane_result result;

        route_keep_attempt(&kept, delivery, now_us);
        result = lane_finish(&route->lane, delivery, outcome, now_us / 1000, random_u32());
        route_see_failed(route, &kept, outcome, &result);
        return result;
}

static struct lane_result finish(
    struct route *route, struct delivery *delivery, const struct outcome *outcome, int64_t now_us)
{
        if (outcome->kind != OUTCOME_DELIVERED || route->lane.state != LANE_OWNED)
                return finish_undelivered(route, delivery, outcome, now_us);
        report_delivered(route->label, &delivery->attempt);
        route_note_delivered(route, delivery, now_us);
        route_see_delivered(route, delivery, now_us);
        return lane_finish(&route->lane, delivery, outcome, now_us / 1000, random_u32());
}

static void tell(struct route *route, const struct outcome *outcome, bool was_closed)
{
        const struct lane *lane = &route->lane;

        report_breaker(route->label, was_closed, lane->breaker.state == BREAKER_CLOSED, outcome);
        if (route->endpoint == NULL)
                carrier_show_pause(route->carrier, lane, outcome->reason);
        else
                watch_health(route, outcome);
}

void route_tell_refused(struct route *route, const struct outcome *outcome, bool was_closed)
{
        if (route->lane.state == LANE_OWNED && route->lane.breaker.state != BREAKER_CLOSED)
                tell(route, outcome, was_closed);
}

static void on_attempt_finished(struct attempt *attempt, const struct outcome *outcome)
{
        struct delivery *delivery = list_owner(attempt, struct delivery, attempt);
        struct route *route = attempt->owner;
        struct lane *lane = &route->lane;
        bool was_closed = lane->breaker.state == BREAKER_CLOSED;
        bool is_owned = lane->state == LANE_OWNED;
        const struct attempt finished = *attempt; /* its batch may go with the lane's answer */
        struct lane_result result = finish(route, delivery, outcome, clock_monotonic_us());

        route_return_target(route, finished.target);
        if (is_owned) {
                if (result.decision == LANE_PARKED && !outcome->is_postponed)
                        report_parked(route->label, &finished, outcome, result.retry_ms);
                if (!outcome->needs_operator ||
                    !carrier_withhold(route->carrier, outcome, was_closed))
                        tell(route, outcome, was_closed);
        }
        wake_starved(route->carrier);
        route_mark_dirty(route);
}

/* A receiver whose url is none has no target, but may have dead letters: skipped ones. */
static bool has_target(const struct route *route)
{
        return route->endpoint == NULL || route_target(route) != NULL;
}

void route_complete_verdicts(struct route *route, const struct list *verdicts)
{
        const struct sink *sink = route->carrier->sink;

        list_for_each (link, verdicts) {
                struct verdict *verdict = list_owner(link, struct verdict, link);
                if (verdict->kind != VERDICT_DEAD)
                        continue;
                if (sink->ops->describe_target != NULL && has_target(route))
                        sink->ops->describe_target(sink, verdict->event, route_target(route),
                            verdict->target, sizeof verdict->target);
                report_dead_letter(route->label, verdict);
                route_see_dead(route, verdict, clock_monotonic_us());
        }
}

void route_start_deliveries(struct route *route, int64_t now_ms)
{
        struct carrier *carrier = route->carrier;
        struct delivery *delivery;
        bool any = false;

        list_remove(&route->starved_link);
        while (has_share(route) && (delivery = lane_start_next(&route->lane, now_ms)) != NULL) {
                delivery->started_us = clock_monotonic_us();
                delivery->attempt.owner = route;
                delivery->attempt.on_finished = on_attempt_finished;
                delivery->attempt.target = route_borrow_target(route);
                crash_point("before_send");
                sink_deliver(carrier->sink, &delivery->attempt);
                any = true;
        }
        if (!has_share(route) && lane_may_start(&route->lane))
                list_push_back(&carrier->starved, &route->starved_link);
        if (any) {
                sink_flush(carrier->sink);
                crash_point("after_send");
        }
}
