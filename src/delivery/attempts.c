#include "delivery/attempts.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/crash_point.h"
#include "delivery/attempt_report.h"
#include "delivery/runner.h"
#include "delivery/starts.h"
#include "sinks/sink_contract.h"

#include <stdlib.h>

/* What attempts in flight may still use after the receiver has changed. */
struct attempt_target {
        struct list link; /* runner::targets */
        void *handle;     /* the sink's */
        unsigned n_in_flight;
};

static void close_target(struct runner *runner, struct attempt_target *target)
{
        struct sink *sink = runner->dispatcher->sink;

        list_remove(&target->link);
        sink->ops->close_target(sink, target->handle);
        free(target);
}

static struct attempt_target *newest(const struct runner *runner)
{
        return list_owner(runner->targets.next, struct attempt_target, link);
}

static void close_if_outdated(struct runner *runner, struct attempt_target *target)
{
        if (target->n_in_flight == 0 && target != newest(runner))
                close_target(runner, target);
}

bool attempts_open_target(struct runner *runner, struct error *error)
{
        const struct receiver *receiver = runner->receiver;
        struct sink *sink = runner->dispatcher->sink;
        const struct target_settings settings = {.name = receiver->name,
            .url = receiver->url,
            .secrets = receiver->secrets,
            .n_secrets = receiver->n_secrets,
            .headers = receiver->headers,
            .n_headers = receiver->n_headers};
        void *handle = sink->ops->open_target(sink, &settings, error);
        struct attempt_target *target;

        if (handle == NULL)
                return false;
        target = xcalloc(1, sizeof *target);
        target->handle = handle;
        list_push_front(&runner->targets, &target->link);
        if (target->link.next != &runner->targets)
                close_if_outdated(
                    runner, list_owner(target->link.next, struct attempt_target, link));
        return true;
}

void attempts_close_targets(struct runner *runner)
{
        list_for_each (link, &runner->targets)
                close_target(runner, list_owner(link, struct attempt_target, link));
}

static void *borrow_target(struct runner *runner)
{
        if (list_is_empty(&runner->targets))
                return NULL;
        newest(runner)->n_in_flight++;
        return newest(runner)->handle;
}

static void return_target(struct runner *runner, const void *handle)
{
        list_for_each (link, &runner->targets) {
                struct attempt_target *target = list_owner(link, struct attempt_target, link);
                if (target->handle != handle)
                        continue;
                target->n_in_flight--;
                close_if_outdated(runner, target);
                return;
        }
}

/* At most once a second, because it reads files: a sink of many receivers may be refused all the
 * time. */
static void retry_login(struct dispatcher *dispatcher)
{
        const struct sink_set *set = dispatcher->set;
        struct login *login = &dispatcher->login;
        int64_t now_ms = dispatcher_now_ms();

        if (login->is_retried || dispatcher_is_draining(dispatcher) ||
            (login->retried_ms != 0 && now_ms < login->retried_ms + 1000))
                return;
        login->retried_ms = now_ms;
        login->is_retried = set->events.on_login_refused(set->owner, dispatcher->config->name);
}

/* True: nothing is to be reported now. One receiver of many is reported by its health, in any
 * case. */
static bool withhold(struct dispatcher *dispatcher, const struct outcome *outcome)
{
        struct login *login = &dispatcher->login;

        retry_login(dispatcher);
        if (dispatcher_is_draining(dispatcher))
                return true;
        if (!login->is_retried || dispatcher->fanout != NULL)
                return false;
        login->withheld = *outcome;
        return true;
}

void attempts_retry_login(struct dispatcher *dispatcher)
{
        if (dispatcher->is_paused_by_relay)
                retry_login(dispatcher);
}

static void report(
    struct runner *runner, const struct attempt_kept *kept, const struct outcome *outcome)
{
        attempt_report_breaker(runner, kept, outcome);
        runner->ops->on_outcome(runner, outcome);
}

void attempts_tell_refused(struct dispatcher *dispatcher)
{
        struct runner *runner = list_owner(dispatcher->runners.next, struct runner, link);
        struct login *login = &dispatcher->login;
        const struct outcome outcome = login->withheld;

        login->is_retried = false;
        login->withheld = outcome_delivered;
        if (outcome.kind == OUTCOME_SINK_DOWN && runner->lane.state == LANE_OWNED &&
            runner->lane.breaker.state != BREAKER_CLOSED)
                report(runner, NULL, &outcome);
}

/* Not inlined: what attempt_keep() copies would cost each delivery that works. */
static __attribute__((noinline)) void finish_undelivered(
    struct runner *runner, struct delivery *delivery, const struct outcome *outcome, int64_t now_us)
{
        bool is_owned = runner->lane.state == LANE_OWNED;
        const struct attempt finished = delivery->attempt; /* its batch may go now */
        struct attempt_kept kept;
        struct lane_result result;

        attempt_keep(&kept, runner, delivery, now_us);
        result = lane_finish(&runner->lane, delivery, outcome, now_us / 1000, random_u32());
        attempt_report_failed(runner, &kept, outcome, &result);
        if (!is_owned)
                return;
        if (result.decision == LANE_PARKED && !outcome->is_postponed)
                attempt_report_parked(runner, &finished, outcome, result.retry_ms);
        if (!outcome->needs_operator || !lane_is_down(&runner->lane) ||
            !withhold(runner->dispatcher, outcome))
                report(runner, &kept, outcome);
}

static void on_attempt_finished(struct attempt *attempt, const struct outcome *outcome)
{
        struct delivery *delivery = list_owner(attempt, struct delivery, attempt);
        struct runner *runner = attempt->owner;
        int64_t now_us = clock_monotonic_us();

        return_target(runner, attempt->target);
        if (outcome->kind != OUTCOME_DELIVERED || runner->lane.state != LANE_OWNED) {
                finish_undelivered(runner, delivery, outcome, now_us);
        } else {
                attempt_report_delivered(runner, delivery, outcome, now_us);
                (void)lane_finish(&runner->lane, delivery, outcome, now_us / 1000, random_u32());
                report(runner, NULL, outcome);
        }
        runner_wake(runner);
}

void attempts_complete_verdicts(struct runner *runner, const struct list *verdicts)
{
        const struct sink *sink = runner->dispatcher->sink;
        const void *target = list_is_empty(&runner->targets) ? NULL : newest(runner)->handle;
        /* A receiver whose url is refused has no target; its skipped events are dead letters. */
        bool can_describe = sink->ops->describe_target != NULL &&
                            (target != NULL || runner->dispatcher->fanout == NULL);

        list_for_each (link, verdicts) {
                struct verdict *verdict = list_owner(link, struct verdict, link);
                if (verdict->kind != VERDICT_DEAD)
                        continue;
                if (can_describe)
                        sink->ops->describe_target(
                            sink, verdict->event, target, verdict->target, sizeof verdict->target);
                attempt_report_dead(runner, verdict, clock_monotonic_us());
        }
}

void attempts_start(struct runner *runner, int64_t now_ms)
{
        struct sink *sink = runner->dispatcher->sink;
        bool is_called = starts_answer_call(runner);
        struct delivery *delivery;
        bool any = false;

        while (starts_may(runner, is_called) &&
               (delivery = lane_start_next(&runner->lane, now_ms)) != NULL) {
                int64_t started_us = clock_monotonic_us();

                delivery->started_us = started_us;
                delivery->attempt.owner = runner;
                delivery->attempt.on_finished = on_attempt_finished;
                delivery->attempt.target = borrow_target(runner);
                crash_point("before_send");
                sink_deliver(sink, &delivery->attempt);
                starts_spend(runner->dispatcher, started_us);
                is_called = false;
                any = true;
        }
        starts_end(runner, now_ms);
        if (any) {
                sink_flush(sink);
                crash_point("after_send");
        }
}
