/* Attempts: handed to the sink when the lane and the sink's other lanes leave room for one, and what
 * their outcomes mean to those who watch. */
#include "base/backoff.h"
#include "base/clock.h"
#include "base/crash_point.h"
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
static bool has_share(const struct runner *runner)
{
        const struct sink *sink = runner->dispatcher->sink;
        unsigned n_free;

        if (runner->endpoint == NULL || sink->max_concurrent == 0)
                return true;
        if (sink->n_in_flight >= sink->max_concurrent)
                return false;
        n_free = sink->max_concurrent - sink->n_in_flight;
        return runner->lane.n_in_flight == 0 || runner->lane.n_in_flight < n_free / 2;
}

/* One attempt is free: those go on who waited for it, as long as there is room. */
static void wake_starved(struct dispatcher *dispatcher)
{
        list_for_each (link, &dispatcher->starved) {
                struct runner *runner = list_owner(link, struct runner, starved_link);
                if (!has_share(runner))
                        continue;
                list_remove(link);
                runner_mark_dirty(runner);
        }
}

static void watch_health(struct runner *runner, const struct outcome *outcome)
{
        const struct dispatcher *dispatcher = runner->dispatcher;
        enum health_news news = health_note(&runner->health, outcome, dispatcher_now_ms(),
            fanout_disable_after_ms(dispatcher->fanout));

        if (news != HEALTH_NO_NEWS)
                fanout_note_health(dispatcher->fanout, runner, news, outcome->reason);
}

/* What is delivered is told at once. Of all else the lane decides first, and what is kept of it until then
 * would cost a delivery dearly. */
static __attribute__((noinline)) struct lane_result finish_undelivered(
    struct runner *runner, struct delivery *delivery, const struct outcome *outcome, int64_t now_us)
{
        struct attempt_kept kept;
        struct lane_result result;

        runner_keep_attempt(&kept, delivery, now_us);
        result = lane_finish(&runner->lane, delivery, outcome, now_us / 1000, random_u32());
        runner_see_failed(runner, &kept, outcome, &result);
        return result;
}

static struct lane_result finish(
    struct runner *runner, struct delivery *delivery, const struct outcome *outcome, int64_t now_us)
{
        if (outcome->kind != OUTCOME_DELIVERED || runner->lane.state != LANE_OWNED)
                return finish_undelivered(runner, delivery, outcome, now_us);
        report_delivered(runner->label, &delivery->attempt);
        runner_note_delivered(runner, delivery, now_us);
        runner_see_delivered(runner, delivery, now_us);
        return lane_finish(&runner->lane, delivery, outcome, now_us / 1000, random_u32());
}

static void tell(struct runner *runner, const struct outcome *outcome, bool was_closed)
{
        const struct lane *lane = &runner->lane;

        report_breaker(runner->label, was_closed, lane->breaker.state == BREAKER_CLOSED, outcome);
        if (runner->endpoint == NULL)
                dispatcher_show_pause(runner->dispatcher, lane, outcome->reason);
        else
                watch_health(runner, outcome);
}

void runner_tell_refused(struct runner *runner, const struct outcome *outcome, bool was_closed)
{
        if (runner->lane.state == LANE_OWNED && runner->lane.breaker.state != BREAKER_CLOSED)
                tell(runner, outcome, was_closed);
}

static void on_attempt_finished(struct attempt *attempt, const struct outcome *outcome)
{
        struct delivery *delivery = list_owner(attempt, struct delivery, attempt);
        struct runner *runner = attempt->owner;
        struct lane *lane = &runner->lane;
        bool was_closed = lane->breaker.state == BREAKER_CLOSED;
        bool is_owned = lane->state == LANE_OWNED;
        const struct attempt finished = *attempt; /* its batch may go with the lane's answer */
        struct lane_result result = finish(runner, delivery, outcome, clock_monotonic_us());

        runner_return_target(runner, finished.target);
        if (is_owned) {
                if (result.decision == LANE_PARKED && !outcome->is_postponed)
                        report_parked(runner->label, &finished, outcome, result.retry_ms);
                if (!outcome->needs_operator ||
                    !dispatcher_withhold(runner->dispatcher, outcome, was_closed))
                        tell(runner, outcome, was_closed);
        }
        wake_starved(runner->dispatcher);
        runner_mark_dirty(runner);
}

/* A receiver whose url is none has no target, but may have dead letters: skipped ones. */
static bool has_target(const struct runner *runner)
{
        return runner->endpoint == NULL || runner_target(runner) != NULL;
}

void runner_complete_verdicts(struct runner *runner, const struct list *verdicts)
{
        const struct sink *sink = runner->dispatcher->sink;

        list_for_each (link, verdicts) {
                struct verdict *verdict = list_owner(link, struct verdict, link);
                if (verdict->kind != VERDICT_DEAD)
                        continue;
                if (sink->ops->describe_target != NULL && has_target(runner))
                        sink->ops->describe_target(sink, verdict->event, runner_target(runner),
                            verdict->target, sizeof verdict->target);
                report_dead_letter(runner->label, verdict);
                runner_see_dead(runner, verdict, clock_monotonic_us());
        }
}

void runner_start_deliveries(struct runner *runner, int64_t now_ms)
{
        struct dispatcher *dispatcher = runner->dispatcher;
        struct delivery *delivery;
        bool any = false;

        list_remove(&runner->starved_link);
        while (has_share(runner) && (delivery = lane_start_next(&runner->lane, now_ms)) != NULL) {
                delivery->started_us = clock_monotonic_us();
                delivery->attempt.owner = runner;
                delivery->attempt.on_finished = on_attempt_finished;
                delivery->attempt.target = runner_borrow_target(runner);
                crash_point("before_send");
                sink_deliver(dispatcher->sink, &delivery->attempt);
                any = true;
        }
        if (!has_share(runner) && lane_may_start(&runner->lane))
                list_push_back(&dispatcher->starved, &runner->starved_link);
        if (any) {
                sink_flush(dispatcher->sink);
                crash_point("after_send");
        }
}
