#include "telemetry/sink_telemetry.h"

#include "base/utf8.h"
#include "telemetry/telemetry.h"

#include <string.h>

/* A module may say anything. */
static enum outcome_fault known_fault(enum outcome_fault fault)
{
        return (unsigned)fault < OUTCOME_FAULTS ? fault : OUTCOME_FAULT_OTHER;
}

/* The minutes have moved on to now. */
static inline void add_stage(
    struct sink_telemetry *sink, enum telemetry_stage stage, int64_t took_us)
{
        histogram_add_both(&sink->stages[stage], minutes_times(&sink->minutes, stage), took_us);
}

static void note_recent(struct sink_telemetry *sink, const struct attempt_seen *seen)
{
        struct recent *recent = &sink->telemetry->recent;
        const struct event *event = seen->event;
        struct recent_delivery *entry;

        if (!recent_admits(recent, seen->outcome == TELEMETRY_DELIVERED, seen->now_us))
                return;
        entry = recent_next(recent);
        entry->at_us = telemetry_wall_us(sink->telemetry, seen->now_us);
        utf8_show(entry->sink, sizeof entry->sink, sink->name);
        utf8_show(entry->receiver, sizeof entry->receiver, seen->receiver);
        entry->id = event->id;
        memcpy(entry->event_id, event->event_id, sizeof entry->event_id);
        entry->source = event->source;
        utf8_show(entry->topic, sizeof entry->topic, event->topic);
        entry->has_key = event->key != NULL;
        utf8_show(entry->key, sizeof entry->key, event->key);
        entry->attempt = seen->attempt;
        entry->outcome = seen->outcome;
        utf8_show(entry->words, sizeof entry->words, seen->words);
        entry->latency_us = entry->at_us - event->created_us;
        recent_noted(recent);
}

static void note_error(struct sink_telemetry *sink, const struct attempt_seen *seen)
{
        enum outcome_fault fault = known_fault(seen->fault);

        if (seen->words == NULL)
                return;
        sink->faults[fault]++;
        sink->last_error.at_us = telemetry_wall_us(sink->telemetry, seen->now_us);
        sink->last_error.outcome = seen->outcome;
        sink->last_error.fault = fault;
        utf8_show(sink->last_error.words, sizeof sink->last_error.words, seen->words);
}

static void note_delivered(struct sink_telemetry *sink, const struct attempt_seen *seen)
{
        int64_t wall_us = telemetry_wall_us(sink->telemetry, seen->now_us);

        if (!seen->is_scheduled && !seen->event->is_redriven)
                histogram_add_both(&sink->latency, minutes_times(&sink->minutes, MINUTES_LATENCY),
                    wall_us - seen->event->created_us);
        minutes_count_delivered(&sink->minutes);
        sink->payload_bytes += seen->event->payload_bytes;
        sink->last_delivery_us = wall_us;
        if (seen->event->is_redriven)
                sink->redeliveries[REDELIVERY_REPLAY]++;
}

void telemetry_see_attempt(struct sink_telemetry *sink, const struct attempt_seen *seen)
{
        sink->outcomes[seen->outcome]++;
        minutes_move_on(&sink->minutes, seen->now_us);
        if (seen->arrived_us > 0 && seen->outcome != TELEMETRY_DROPPED) {
                add_stage(sink, STAGE_QUEUE, seen->started_us - seen->arrived_us);
                add_stage(sink, STAGE_SEND, seen->now_us - seen->started_us);
        }
        if (seen->outcome == TELEMETRY_DELIVERED)
                note_delivered(sink, seen);
        else if (seen->outcome != TELEMETRY_DROPPED)
                note_error(sink, seen);
        note_recent(sink, seen);
}

void telemetry_see_page(struct sink_telemetry *sink, const struct event *events, size_t n_events,
    const bool *are_to_wait, int64_t now_us)
{
        int64_t wall_us = telemetry_wall_us(sink->telemetry, now_us);

        if (n_events == 0)
                return;
        histogram_add(&sink->batch, (int64_t)n_events);
        minutes_move_on(&sink->minutes, now_us);
        for (size_t i = 0; i < n_events; i++)
                if (are_to_wait == NULL || !are_to_wait[i])
                        add_stage(sink, STAGE_PICKUP, wall_us - events[i].created_us);
}

void telemetry_see_settled(struct sink_telemetry *sink, int64_t finished_us, int64_t now_us)
{
        minutes_move_on(&sink->minutes, now_us);
        add_stage(sink, STAGE_SETTLE, now_us - finished_us);
}

void telemetry_see_redelivery(
    struct sink_telemetry *sink, enum redelivery_cause cause, uint64_t n_events)
{
        sink->redeliveries[cause] += n_events;
}

void telemetry_set_state(
    struct sink_telemetry *sink, enum sink_state state, const char *reason, int64_t now_us)
{
        if (sink->state != state)
                sink->state_since_us = telemetry_wall_us(sink->telemetry, now_us);
        sink->state = state;
        utf8_show(sink->state_reason, sizeof sink->state_reason, reason);
}

void telemetry_set_backlog(struct sink_telemetry *sink, int64_t n_events, double oldest_age_s,
    double overdue_s, int64_t now_us)
{
        minutes_set_backlog(&sink->minutes, n_events, now_us);
        sink->oldest_age_s = oldest_age_s;
        sink->overdue_s = overdue_s;
}
