#include "telemetry/sink_telemetry.h"

#include "telemetry/shown_text.h"
#include "telemetry/telemetry.h"

#include <string.h>

/* A module may say anything. */
static enum outcome_fault known_fault(enum outcome_fault fault)
{
        return (unsigned)fault < OUTCOME_FAULTS ? fault : OUTCOME_FAULT_OTHER;
}

static void add_time(struct sink_telemetry *sink, unsigned what, int64_t took_us, int64_t now_us)
{
        struct histogram *of_all = what == MINUTES_LATENCY ? &sink->latency : &sink->stages[what];

        histogram_add_both(of_all, minutes_times(&sink->minutes, what, now_us), took_us);
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
        shown_text(entry->sink, sizeof entry->sink, sink->name);
        entry->id = event->id;
        memcpy(entry->event_id, event->event_id, sizeof entry->event_id);
        shown_text(entry->topic, sizeof entry->topic, event->topic);
        entry->has_key = event->key != NULL;
        shown_text(entry->key, sizeof entry->key, event->key);
        entry->attempt = seen->attempt;
        entry->outcome = seen->outcome;
        shown_text(entry->words, sizeof entry->words, seen->words);
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
        shown_text(sink->last_error.words, sizeof sink->last_error.words, seen->words);
}

static void note_delivered(struct sink_telemetry *sink, const struct attempt_seen *seen)
{
        int64_t wall_us = telemetry_wall_us(sink->telemetry, seen->now_us);

        if (!seen->is_scheduled && !seen->event->is_redriven)
                add_time(sink, MINUTES_LATENCY, wall_us - seen->event->created_us, seen->now_us);
        minutes_count_delivered(&sink->minutes, seen->now_us);
        sink->payload_bytes += seen->event->payload_bytes;
        sink->last_delivery_us = wall_us;
        if (seen->event->is_redriven)
                sink->redeliveries[REDELIVERY_REPLAY]++;
}

void telemetry_see_attempt(struct sink_telemetry *sink, const struct attempt_seen *seen)
{
        sink->outcomes[seen->outcome]++;
        if (seen->arrived_us > 0 && seen->outcome != TELEMETRY_DROPPED) {
                add_time(sink, STAGE_QUEUE, seen->started_us - seen->arrived_us, seen->now_us);
                add_time(sink, STAGE_SEND, seen->now_us - seen->started_us, seen->now_us);
        }
        if (seen->outcome == TELEMETRY_DELIVERED)
                note_delivered(sink, seen);
        else if (seen->outcome != TELEMETRY_DROPPED)
                note_error(sink, seen);
        note_recent(sink, seen);
}

void telemetry_see_page(struct sink_telemetry *sink, uint64_t n_events)
{
        histogram_add(&sink->batch, (int64_t)n_events);
}

void telemetry_see_pickup(struct sink_telemetry *sink, int64_t created_us, int64_t now_us)
{
        int64_t wall_us = telemetry_wall_us(sink->telemetry, now_us);

        add_time(sink, STAGE_PICKUP, wall_us - created_us, now_us);
}

void telemetry_see_settled(struct sink_telemetry *sink, int64_t finished_us, int64_t now_us)
{
        add_time(sink, STAGE_SETTLE, now_us - finished_us, now_us);
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
        shown_text(sink->state_reason, sizeof sink->state_reason, reason);
}

void telemetry_set_backlog(
    struct sink_telemetry *sink, int64_t n_events, double oldest_age_s, int64_t now_us)
{
        minutes_set_backlog(&sink->minutes, n_events, now_us);
        sink->oldest_age_s = oldest_age_s;
}
