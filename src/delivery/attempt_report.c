#include "base/clock.h"
#include "delivery/runner_internal.h"

#include <stdlib.h>
#include <string.h>

static const char *endpoint_of(const struct runner *runner)
{
        return runner->endpoint != NULL ? runner->endpoint->name : NULL;
}

static struct attempt_seen seen_of(const struct delivery *delivery, int64_t now_us)
{
        return (struct attempt_seen){.event = delivery->event,
            .attempt = delivery->attempt.number,
            .arrived_us = delivery->batch->arrived_us,
            .started_us = delivery->started_us,
            .is_scheduled = delivery->is_row_delayed,
            .now_us = now_us};
}

void runner_see_delivered(struct runner *runner, const struct delivery *delivery, int64_t now_us)
{
        struct attempt_seen seen = seen_of(delivery, now_us);

        seen.outcome = TELEMETRY_DELIVERED;
        seen.endpoint = endpoint_of(runner);
        telemetry_see_attempt(runner->dispatcher->seen, &seen);
}

void runner_keep_attempt(struct attempt_kept *kept, const struct delivery *delivery, int64_t now_us)
{
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

/* It may be there already when it is sent again. */
static bool may_have_arrived(const struct outcome *outcome, const struct lane_result *result)
{
        bool is_silent =
            outcome->fault == OUTCOME_FAULT_TIMEOUT || outcome->fault == OUTCOME_FAULT_LOST;

        return is_silent && outcome->kind != OUTCOME_CANCELLED &&
               (result->decision == LANE_PARKED || result->decision == LANE_AGAIN);
}

void runner_see_failed(struct runner *runner, struct attempt_kept *kept,
    const struct outcome *outcome, const struct lane_result *result)
{
        struct sink_telemetry *sink = runner->dispatcher->seen;

        /* Not its turn: nothing has been tried. */
        if (outcome->kind == OUTCOME_RETRY && outcome->is_postponed)
                return;
        kept->seen.outcome = outcome_seen(outcome, result);
        kept->seen.fault = outcome->fault;
        kept->seen.words = outcome->reason;
        kept->seen.endpoint = endpoint_of(runner);
        telemetry_see_attempt(sink, &kept->seen);
        if (may_have_arrived(outcome, result))
                telemetry_see_redelivery(sink, REDELIVERY_TIMEOUT, 1);
        /* It arrived, but nobody can write that down any more. */
        if (result->decision == LANE_FORGOTTEN && outcome->kind == OUTCOME_DELIVERED)
                telemetry_see_redelivery(sink, REDELIVERY_CRASH, 1);
}

void runner_see_dead(struct runner *runner, const struct verdict *verdict, int64_t now_us)
{
        struct attempt_seen seen = {.outcome = TELEMETRY_DEAD,
            .event = verdict->event,
            .endpoint = endpoint_of(runner),
            .attempt = verdict->n_attempts,
            .now_us = now_us};

        switch (verdict->reason) {
        case DEAD_REJECTED:
        case DEAD_ATTEMPTS:
        case DEAD_AGE:
                return; /* told when the attempt ended */
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
