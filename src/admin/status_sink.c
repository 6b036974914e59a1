#include "admin/http/answer.h"
#include "admin/status_document.h"
#include "telemetry/telemetry.h"

static json_t *quantiles(const struct quantiles *quantiles)
{
        return json_pack(
            "{s:o s:o}", "p50", json_seconds(quantiles->p50), "p99", json_seconds(quantiles->p99));
}

static json_t *counters(const struct sink_telemetry *sink)
{
        json_int_t redelivered = 0;

        for (int cause = 0; cause < REDELIVERY_CAUSES; cause++)
                redelivered += (json_int_t)sink->redeliveries[cause];
        return json_pack("{s:I s:I s:I s:I s:I s:I}", "delivered",
            (json_int_t)sink->outcomes[TELEMETRY_DELIVERED], "retried",
            (json_int_t)sink->outcomes[TELEMETRY_RETRY], "dead",
            (json_int_t)sink->outcomes[TELEMETRY_DEAD], "dropped",
            (json_int_t)sink->outcomes[TELEMETRY_DROPPED], "redelivered", redelivered, "bytes",
            (json_int_t)sink->payload_bytes);
}

static json_t *series(struct sink_telemetry *sink, int64_t now_us)
{
        struct minutes_step steps[MINUTES_STEPS];
        json_t *rate = json_array();
        json_t *p50 = json_array();
        json_t *p99 = json_array();
        json_t *backlog = json_array();

        minutes_series(&sink->minutes, now_us, steps);
        for (int i = 0; i < MINUTES_STEPS; i++) {
                json_array_append_new(rate, json_real(steps[i].rate));
                json_array_append_new(p50, json_seconds(steps[i].latency.p50));
                json_array_append_new(p99, json_seconds(steps[i].latency.p99));
                json_array_append_new(
                    backlog, steps[i].backlog < 0 ? json_null() : json_integer(steps[i].backlog));
        }
        return json_pack("{s:i s:o s:o s:o s:o}", "step", (int)(MINUTES_STEP_US / 1000000), "rate",
            rate, "p50", p50, "p99", p99, "backlog", backlog);
}

static void add_last_minute(json_t *document, struct sink_telemetry *sink, int64_t now_us)
{
        struct last_minute minute;
        json_t *stages = json_object();

        minutes_last_minute(&sink->minutes, now_us, &minute);
        for (unsigned stage = 0; stage < STAGES; stage++)
                json_object_set_new(stages, telemetry_stage_name((enum telemetry_stage)stage),
                    quantiles(&minute.stages[stage]));
        json_object_set_new(document, "rate", json_real(minute.rate));
        json_object_set_new(document, "latency", quantiles(&minute.latency));
        json_object_set_new(document, "stages", stages);
}

static json_t *last_error(const struct sink_telemetry *sink)
{
        if (sink->last_error.at_us == 0)
                return json_null();
        return json_pack("{s:o s:s s:s s:o}", "at", json_time(sink->last_error.at_us), "outcome",
            telemetry_outcome_name(sink->last_error.outcome), "fault",
            telemetry_fault_name(sink->last_error.fault), "words",
            json_words(sink->last_error.words));
}

static json_t *slow_filters(const struct sink_telemetry *sink)
{
        if (sink->n_slow_filters == 0)
                return json_null();
        return json_pack("{s:I s:o}", "count", (json_int_t)sink->n_slow_filters, "endpoint",
            json_words(sink->slow_filter));
}

json_t *status_sink(struct sink_telemetry *sink, const json_t *look, int64_t now_us)
{
        static const char *const known[] = {"topics", "owner", "backlog", "retrying", "unfinished",
            "blocked", "delayed", "dead", "counts_are_exact", "next_retry_at", "settings_differ",
            "endpoints", "pauses"};
        json_t *document = json_pack("{s:s s:s s:o s:s s:o s:o s:I s:I s:o s:o s:o s:o}", "name",
            sink->name, "kind", sink->kind, "target", json_words(sink->target), "state",
            sink_state_name(sink->state), "state_reason", json_words(sink->state_reason),
            "state_since", json_time(sink->state_since_us), "in_flight",
            (json_int_t)sink->in_flight, "window", (json_int_t)sink->window, "counters",
            counters(sink), "series", series(sink, now_us), "last_error", last_error(sink),
            "last_delivery_at", json_time(sink->last_delivery_us));

        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
                json_object_set_new(document, known[i], json_member(look, known[i]));
        json_object_set_new(document, "slow_filters", slow_filters(sink));
        add_last_minute(document, sink, now_us);
        return document;
}
