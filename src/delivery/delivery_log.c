#include "delivery/delivery_log.h"

#include "base/clock.h"
#include "log/log.h"
#include "pgcourier/event.h"

void report_delivered(const char *sink, const struct attempt *attempt)
{
        const struct event *event = attempt->event;

        log_debug("delivered", kv_text("sink", sink), kv_int("id", event->id),
            kv_text("event_id", event->event_id), kv_text("topic", event->topic),
            kv_int("attempt", attempt->number),
            kv_ms("age_ms", (double)(clock_wall_us() - event->created_us) / 1000));
}

void report_parked(const char *sink, const struct attempt *attempt, const struct outcome *outcome,
    int64_t retry_ms)
{
        const struct event *event = attempt->event;

        log_warn("delivery_failed", kv_text("sink", sink), kv_int("id", event->id),
            kv_text("event_id", event->event_id), kv_text("topic", event->topic),
            kv_int("attempt", attempt->number), kv_text("outcome", outcome_name(outcome->kind)),
            kv_text("reason", outcome->reason), kv_int("retry_ms", retry_ms));
}

void report_dead_letter(const char *sink, const struct verdict *verdict)
{
        const struct event *event = verdict->event;

        log_warn("dead_letter", kv_text("sink", sink), kv_int("id", event->id),
            kv_text("event_id", event->event_id), kv_text("topic", event->topic),
            kv_int("attempts", verdict->n_attempts),
            kv_text("why", dead_reason_name(verdict->reason)), kv_text("reason", verdict->words));
}

void report_breaker(
    const char *sink, bool was_closed, bool is_closed, const struct outcome *outcome)
{
        if (was_closed && !is_closed)
                log_warn("sink_down", kv_text("sink", sink), kv_text("reason", outcome->reason));
        else if (!was_closed && is_closed)
                log_info("sink_up", kv_text("sink", sink));
        else if (outcome->kind == OUTCOME_SINK_DOWN)
                log_debug(
                    "sink_still_down", kv_text("sink", sink), kv_text("reason", outcome->reason));
}
