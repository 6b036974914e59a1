#include "delivery/attempt_report.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "delivery/runner.h"
#include "log/log.h"
#include "telemetry/pace.h"

#include <stdlib.h>
#include <string.h>

struct delivered {
        uint64_t sequence; /* its place in the lane's stream */
        int64_t event_id;
        int64_t finished_us;
};

/* NULL for the only lane of a sink. */
static const char *receiver_of(const struct runner *runner)
{
        return runner->receiver != NULL ? runner->receiver->name : NULL;
}

static struct attempt_seen seen_of(const struct delivery *delivery, int64_t now_us)
{
        return (struct attempt_seen){.event = delivery->event,
            .attempt = delivery->attempt.number,
            .arrived_us = delivery->batch->arrived_us,
            .started_us = delivery->started_us,
            .is_scheduled = delivery->row == ROW_DELAYED,
            .now_us = now_us};
}

/* What has a row in courier.parked, or a verdict that would make one, is settled by its verdict. */
static void note_delivered(struct runner *runner, const struct delivery *delivery, int64_t now_us)
{
        if (delivery_has_row(delivery))
                return; /* it gets a verdict */
        if (runner->n_delivered == runner->n_delivered_max) {
                runner->n_delivered_max = runner->n_delivered_max * 2 + 4;
                runner->delivered = xrealloc(
                    runner->delivered, runner->n_delivered_max * sizeof *runner->delivered);
        }
        runner->delivered[runner->n_delivered++] = (struct delivered){
            .sequence = delivery->sequence, .event_id = delivery->event->id, .finished_us = now_us};
}

/* For courier.attempt. With `failures` the success that ends them belongs to their story. */
static void keep_record(
    struct runner *runner, const struct attempt_seen *seen, const struct outcome *outcome)
{
        const struct dispatcher *dispatcher = runner->dispatcher;
        const struct sink_config *config = dispatcher->config;
        struct attempt_record record;

        if (config->attempts == ATTEMPTS_NONE ||
            (config->attempts == ATTEMPTS_FAILURES && seen->outcome == TELEMETRY_DELIVERED &&
                seen->attempt < 2))
                return;
        record = (struct attempt_record){.sink = dispatcher->name,
            .lane = runner->lane_number,
            .outbox_id = seen->event->id,
            .number = seen->attempt,
            .began_us = telemetry_wall_us(dispatcher->seen->telemetry, seen->started_us),
            .took_us = seen->now_us - seen->started_us,
            .keep_ms = config->attempts_retention_ms,
            .outcome = telemetry_outcome_name(seen->outcome),
            .status = outcome->status,
            .answer = outcome->reason};
        lane_store_note_attempt(runner->store, &record);
}

void attempt_report_delivered(struct runner *runner, const struct delivery *delivery,
    const struct outcome *outcome, int64_t now_us)
{
        const struct attempt *attempt = &delivery->attempt;
        const struct event *event = delivery->event;
        struct attempt_seen seen = seen_of(delivery, now_us);

        log_debug("delivered", kv_text("sink", runner->label), kv_int("id", event->id),
            kv_text("event_id", event->event_id), kv_text("topic", event->topic),
            kv_int("attempt", attempt->number),
            kv_ms("age_ms", (double)(clock_wall_us() - event->created_us) / 1000));
        note_delivered(runner, delivery, now_us);
        seen.outcome = TELEMETRY_DELIVERED;
        seen.receiver = receiver_of(runner);
        telemetry_see_attempt(runner->dispatcher->seen, &seen);
        if (runner->pace == NULL)
                runner->pace = pace_create();
        pace_see(runner->pace, now_us, now_us - delivery->started_us);
        runner->delivered_us = telemetry_wall_us(runner->dispatcher->seen->telemetry, now_us);
        keep_record(runner, &seen, outcome);
}

void attempt_keep(struct attempt_kept *kept, const struct runner *runner,
    const struct delivery *delivery, int64_t now_us)
{
        const struct sink *sink = runner->dispatcher->sink;
        const struct event *event = delivery->event;

        kept->seen = seen_of(delivery, now_us);
        kept->event = *event;
        strncpy(kept->topic, event->topic, sizeof kept->topic - 1);
        kept->topic[sizeof kept->topic - 1] = '\0';
        kept->event.topic = kept->topic;
        if (event->key != NULL) {
                strncpy(kept->key, event->key, sizeof kept->key - 1);
                kept->key[sizeof kept->key - 1] = '\0';
                kept->event.key = kept->key;
        }
        kept->seen.event = &kept->event;
        kept->target[0] = '\0';
        if (sink->has_targets)
                sink->ops->describe_target(sink, event, NULL, kept->target, sizeof kept->target);
}

static enum telemetry_outcome outcome_seen(
    const struct outcome *outcome, const struct lane_result *result)
{
        switch (result->decision) {
        case LANE_DELIVERED:
                return TELEMETRY_DELIVERED;
        case LANE_PARKED:
                return TELEMETRY_RETRY;
        case LANE_DEAD:
                return TELEMETRY_DEAD;
        case LANE_AGAIN:
                return outcome->kind == OUTCOME_CANCELLED ? TELEMETRY_DROPPED : TELEMETRY_SINK_DOWN;
        case LANE_FORGOTTEN:
                return TELEMETRY_DROPPED;
        }
        abort();
}

/* It may have arrived: then the next attempt delivers it twice. */
static bool may_have_arrived(const struct outcome *outcome, const struct lane_result *result)
{
        bool is_silent =
            outcome->fault == OUTCOME_FAULT_TIMEOUT || outcome->fault == OUTCOME_FAULT_LOST;

        return is_silent && outcome->kind != OUTCOME_CANCELLED &&
               (result->decision == LANE_PARKED || result->decision == LANE_AGAIN);
}

void attempt_report_failed(struct runner *runner, struct attempt_kept *kept,
    const struct outcome *outcome, const struct lane_result *result)
{
        struct sink_telemetry *sink = runner->dispatcher->seen;

        /* It was not its turn, and nothing was tried. */
        if (outcome->kind == OUTCOME_RETRY && outcome->is_postponed)
                return;
        kept->seen.outcome = outcome_seen(outcome, result);
        kept->seen.fault = outcome->fault;
        kept->seen.words = outcome->reason;
        kept->seen.receiver = receiver_of(runner);
        telemetry_see_attempt(sink, &kept->seen);
        keep_record(runner, &kept->seen, outcome);
        if (may_have_arrived(outcome, result))
                telemetry_see_redelivery(sink, REDELIVERY_TIMEOUT, 1);
        /* It arrived, but its lane is lost, so that cannot be settled any more. */
        if (result->decision == LANE_FORGOTTEN && outcome->kind == OUTCOME_DELIVERED)
                telemetry_see_redelivery(sink, REDELIVERY_CRASH, 1);
}

void attempt_report_parked(const struct runner *runner, const struct attempt *attempt,
    const struct outcome *outcome, int64_t retry_ms)
{
        const struct event *event = attempt->event;

        log_warn("delivery_failed", kv_text("sink", runner->label), kv_int("id", event->id),
            kv_text("event_id", event->event_id), kv_text("topic", event->topic),
            kv_int("attempt", attempt->number), kv_text("outcome", outcome_name(outcome->kind)),
            kv_text("reason", outcome->reason), kv_int("retry_ms", retry_ms));
}

void attempt_report_dead(struct runner *runner, const struct verdict *verdict, int64_t now_us)
{
        const struct event *event = verdict->event;
        struct attempt_seen seen = {.outcome = TELEMETRY_DEAD,
            .event = event,
            .receiver = receiver_of(runner),
            .attempt = verdict->n_attempts,
            .now_us = now_us};

        log_warn("dead_letter", kv_text("sink", runner->label), kv_int("id", event->id),
            kv_text("event_id", event->event_id), kv_text("topic", event->topic),
            kv_int("attempts", verdict->n_attempts),
            kv_text("why", dead_reason_name(verdict->reason)), kv_text("reason", verdict->words));
        switch (verdict->reason) {
        case DEAD_REJECTED:
        case DEAD_ATTEMPTS:
        case DEAD_AGE:
                return; /* the telemetry saw the attempt end */
        case DEAD_TOO_LARGE:
                seen.fault = OUTCOME_FAULT_TOO_LARGE;
                seen.words = verdict->words;
                break;
        case DEAD_UNJUDGED:
                seen.fault = OUTCOME_FAULT_EVENT;
                seen.words = verdict->words;
                break;
        case DEAD_SKIPPED:
                break;
        }
        telemetry_see_attempt(runner->dispatcher->seen, &seen);
}

static void warn_of_destination(const char *name, const struct runner *runner,
    const struct attempt_kept *kept, const struct outcome *outcome)
{
        if (kept == NULL || outcome->concerns_all)
                log_warn(name, kv_text("sink", runner->label), kv_text("reason", outcome->reason));
        else
                log_warn(name, kv_text("sink", runner->label), kv_int("id", kept->event.id),
                    kv_text("event_id", kept->event.event_id), kv_text("topic", kept->topic),
                    kv_text("key", kept->event.key),
                    kv_text("target", kept->target[0] != '\0' ? kept->target : NULL),
                    kv_text("reason", outcome->reason));
}

void attempt_report_breaker(
    struct runner *runner, const struct attempt_kept *kept, const struct outcome *outcome)
{
        const struct lane *lane = &runner->lane;
        enum lane_word before = runner->told;

        if (lane->breaker.state == BREAKER_CLOSED)
                runner->told = LANE_IS_UP;
        else if (outcome->kind != OUTCOME_SINK_DOWN && outcome->kind != OUTCOME_RETRY)
                return; /* no news of the destination */
        else if (lane_is_down(lane))
                runner->told = LANE_IS_DOWN;
        else if (before == LANE_IS_UP)
                runner->told = LANE_ASKS_ANOTHER;

        if (runner->told == before && before == LANE_IS_DOWN)
                log_debug("sink_still_down", kv_text("sink", runner->label),
                    kv_text("reason", outcome->reason));
        else if (runner->told == LANE_IS_DOWN)
                warn_of_destination("sink_down", runner, kept, outcome);
        else if (runner->told == LANE_ASKS_ANOTHER && before == LANE_IS_UP)
                warn_of_destination("event_suspected", runner, kept, outcome);
        else if (before == LANE_IS_DOWN && runner->told == LANE_IS_UP)
                log_info("sink_up", kv_text("sink", runner->label));
}

/* A settle under way may have been done all the same, so this many at most are delivered twice. */
void attempt_forget_delivered(struct runner *runner)
{
        telemetry_see_redelivery(runner->dispatcher->seen, REDELIVERY_CRASH, runner->n_delivered);
        runner->n_delivered = 0;
}

void attempt_note_settling(struct runner *runner, const struct list *verdicts)
{
        size_t n = 0;

        if (!runner->dispatcher->sink->remembers)
                return;
        list_for_each (link, verdicts)
                n++;
        free(runner->settling);
        runner->settling = xcalloc(n + 1, sizeof *runner->settling);
        runner->n_settling = 0;
        list_for_each (verdict_link, verdicts) {
                const struct verdict *verdict = list_owner(verdict_link, struct verdict, link);
                if (verdict->kind != VERDICT_PARK)
                        runner->settling[runner->n_settling++] = verdict->event->id;
        }
}

/* Takes out those that the cursor has passed, and returns how many. `out_ids` may be NULL. */
static size_t take_settled(struct runner *runner, int64_t *out_ids, int64_t now_us)
{
        size_t n_kept = 0, n_settled = 0;

        for (size_t i = 0; i < runner->n_delivered; i++) {
                const struct delivered *delivered = &runner->delivered[i];
                if (delivered->sequence >= runner->lane.settler.n_settled) {
                        runner->delivered[n_kept++] = *delivered;
                        continue;
                }
                telemetry_see_settled(runner->dispatcher->seen, delivered->finished_us, now_us);
                if (out_ids != NULL)
                        out_ids[n_settled] = delivered->event_id;
                n_settled++;
        }
        runner->n_delivered = n_kept;
        return n_settled;
}

void attempt_report_settled(struct runner *runner, int64_t now_us)
{
        struct sink *sink = runner->dispatcher->sink;
        size_t n_settled = runner->n_settling;
        int64_t *settled;

        if (!runner->dispatcher->sink->remembers) {
                take_settled(runner, NULL, now_us);
                return;
        }
        settled = xcalloc(n_settled + runner->n_delivered + 1, sizeof *settled);
        for (size_t i = 0; i < n_settled; i++)
                settled[i] = runner->settling[i];
        n_settled += take_settled(runner, settled + n_settled, now_us);
        runner->n_settling = 0;
        if (n_settled > 0)
                sink->ops->settled(sink, settled, n_settled);
        free(settled);
}
