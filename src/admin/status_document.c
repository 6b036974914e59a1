#include "admin/status_document.h"

#include "admin/findings/findings.h"
#include "admin/http/answer.h"
#include "base/clock.h"
#include "base/instance.h"
#include "config/config.h"
#include "pgcourier/version.h"
#include "telemetry/telemetry.h"

#include <stdlib.h>
#include <string.h>

static json_t *instance(void)
{
        char name[300];

        instance_name(name, sizeof name, "");
        return json_string(name);
}

static json_t *config_part(const struct status_basis *basis)
{
        const struct telemetry *telemetry = basis->telemetry;

        if (telemetry != NULL)
                return json_pack("{s:o s:o s:b s:o}", "file", json_words(basis->config_file),
                    "loaded_at", json_time(telemetry->config.loaded_us), "last_reload_ok",
                    telemetry->config.is_last_reload_ok, "last_reload_error",
                    json_words(telemetry->config.error));
        if (basis->config_file != NULL)
                return json_pack("{s:s s:n s:n s:n}", "file", basis->config_file, "loaded_at",
                    "last_reload_ok", "last_reload_error");
        return json_null();
}

static json_t *filters_part(const struct telemetry *telemetry)
{
        if (telemetry == NULL || telemetry->source.filters_error[0] == '\0')
                return json_null();
        return json_pack("{s:o s:o}", "error", json_words(telemetry->source.filters_error), "since",
            json_time(telemetry->source.filters_since_us));
}

static json_t *source_part(const struct status_basis *basis)
{
        static const char *const members[] = {"database", "server", "address", "port",
            "server_version", "schema", "notify_queue_usage", "sequence", "oldest_xmin",
            "outbox_bytes", "outbox_dead_tuples", "outbox_partitions", "retention", "owner_pid",
            "foreign_locks"};
        const struct telemetry *telemetry = basis->telemetry;
        const json_t *found = json_object_get(basis->found, "source");
        json_t *source;

        if (telemetry != NULL)
                source = json_pack("{s:b s:o s:o s:I}", "up", telemetry->source.is_up, "error",
                    json_words(telemetry->source.error), "login_refused_since",
                    json_time(telemetry->source.login_refused_us), "reconnects",
                    (json_int_t)telemetry->source.reconnects);
        else
                source = json_pack(
                    "{s:b s:n s:n s:n}", "up", 1, "error", "login_refused_since", "reconnects");
        for (size_t i = 0; i < sizeof members / sizeof *members; i++)
                json_object_set_new(source, members[i], json_member(found, members[i]));
        json_object_set_new(source, "filters", filters_part(telemetry));
        return source;
}

/* What the database says of the marks, and what this relay has to say of its own. */
static json_t *marks_part(const struct status_basis *basis)
{
        const json_t *found = json_object_get(basis->found, "marks");
        const struct telemetry *telemetry = basis->telemetry;
        json_t *marks;

        if (!json_is_object(found))
                return json_null();
        marks = json_copy((json_t *)(uintptr_t)found);
        json_object_set_new(
            marks, "error", telemetry != NULL ? json_words(telemetry->marks.error) : json_null());
        json_object_set_new(marks, "failing_since",
            telemetry != NULL && telemetry->marks.error[0] != '\0'
                ? json_time(telemetry->marks.failing_since_us)
                : json_null());
        json_object_set_new(marks, "marked",
            telemetry != NULL ? json_integer((json_int_t)telemetry->marks.marked) : json_null());
        return marks;
}

/* A sink is stalled if events wait for so long without a known reason, and nothing was settled. */
#define STALLED_S 60

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
        return json_pack("{s:I s:o}", "count", (json_int_t)sink->n_slow_filters, "receiver",
            json_words(sink->slow_filter));
}

/* What only the database knows. */
static void add_found(json_t *document, const json_t *found)
{
        static const char *const members[] = {"topics", "owner", "shards", "backlog", "retrying",
            "unfinished", "blocked", "delayed", "dead", "counts_are_exact", "next_retry_at",
            "next_retry_id", "next_retry_error", "settings_differ", "receivers", "pauses",
            "settled_at"};

        for (size_t i = 0; i < sizeof members / sizeof *members; i++)
                json_object_set_new(document, members[i], json_member(found, members[i]));
}

/* One as a relay sees it. `found` is what the database says of it, or NULL. */
static json_t *sink_of_relay(struct sink_telemetry *sink, const json_t *found, int64_t now_us)
{
        json_t *document = json_pack("{s:s s:s s:o s:s s:o s:o s:I s:I s:o s:o s:o s:o}", "name",
            sink->name, "kind", sink->kind, "target", json_words(sink->target), "state",
            sink_state_name(sink->state), "state_reason", json_words(sink->state_reason),
            "state_since", json_time(sink->state_since_us), "in_flight",
            (json_int_t)sink->in_flight, "window", (json_int_t)sink->window, "counters",
            counters(sink), "series", series(sink, now_us), "last_error", last_error(sink),
            "last_delivery_at", json_time(sink->last_delivery_us));

        add_found(document, found);
        json_object_set_new(document, "slow_filters", slow_filters(sink));
        add_last_minute(document, sink, now_us);
        return document;
}

static double number_of(const json_t *object, const char *name)
{
        return json_number_value(json_object_get(object, name));
}

static const json_t *find_pause(const json_t *found, const char *by)
{
        const json_t *pause;
        size_t i;

        json_array_foreach(json_object_get(found, "pauses"), i, pause)
        {
                if (strcmp(json_string_value(json_object_get(pause, "by")), by) == 0)
                        return pause;
        }
        return NULL;
}

static bool is_stalled(const json_t *found)
{
        return number_of(json_object_get(found, "backlog"), "overdue_age") >= STALLED_S &&
               number_of(found, "settled_age") >= STALLED_S;
}

/* As far as the database knows it: it cannot tell that a destination is down. */
static void add_state(json_t *document, const json_t *found)
{
        const json_t *pause = NULL;
        const char *state = "running";

        if (!json_is_object(json_object_get(found, "owner")))
                state = "unowned";
        else if ((pause = find_pause(found, "operator")) != NULL)
                state = "paused";
        else if ((pause = find_pause(found, "relay")) != NULL)
                state = "refused";
        else if (is_stalled(found))
                state = "stalled";
        json_object_set_new(document, "state", json_string(state));
        json_object_set_new(document, "state_reason", json_member(pause, "reason"));
        json_object_set_new(document, "state_since", json_member(pause, "since"));
}

/* One as the database alone does; `config` may be NULL. */
static json_t *sink_of_database(
    const char *name, const struct sink_config *config, const json_t *found)
{
        static const char *const unknown[] = {"in_flight", "window", "counters", "rate", "latency",
            "stages", "series", "last_error", "last_delivery_at", "slow_filters"};
        char *target = config != NULL ? sink_config_target(config) : NULL;
        json_t *document = json_pack("{s:s s:s? s:s?}", "name", name, "kind",
            config != NULL ? sink_config_kind(config) : NULL, "target", target);

        free(target);
        add_state(document, found);
        add_found(document, found);
        for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
                json_object_set_new(document, unknown[i], json_null());
        return document;
}

static json_t *sinks_of_relay(struct telemetry *telemetry, const json_t *found, int64_t now_us)
{
        json_t *sinks = json_array();

        list_for_each (link, &telemetry->sinks) {
                struct sink_telemetry *sink = list_owner(link, struct sink_telemetry, link);

                json_array_append_new(
                    sinks, sink_of_relay(sink, json_object_get(found, sink->name), now_us));
        }
        return sinks;
}

static json_t *sinks_of_database(const struct config *config, const json_t *found)
{
        json_t *sinks = json_array();
        const char *name;
        json_t *sink;

        for (unsigned i = 0; config != NULL && i < config->n_sinks; i++)
                json_array_append_new(
                    sinks, sink_of_database(config->sinks[i].name, &config->sinks[i],
                               json_object_get(found, config->sinks[i].name)));
        if (config == NULL)
                json_object_foreach((json_t *)(uintptr_t)found, name, sink)
                    json_array_append_new(sinks, sink_of_database(name, NULL, sink));
        return sinks;
}

const char *status_table(const json_t *found, int32_t source)
{
        const json_t *taps = json_object_get(json_object_get(found, "taps"), "first"), *tap;
        size_t i;

        json_array_foreach(taps, i, tap)
        {
                if (json_integer_value(json_object_get(tap, "id")) == source)
                        return json_string_value(json_object_get(tap, "table"));
        }
        return NULL;
}

/* A tap that is gone has a number only. */
static json_t *source_of(const struct recent_delivery *delivery, const json_t *found)
{
        const char *table = status_table(found, delivery->source);

        if (delivery->source == 0)
                return json_null();
        return table != NULL ? json_string(table) : json_sprintf("tap %d", (int)delivery->source);
}

json_t *status_delivery(const struct recent_delivery *delivery, const json_t *found)
{
        return json_pack("{s:o s:s s:o s:I s:s s:o s:s s:o s:i s:s s:o s:o}", "at",
            json_time(delivery->at_us), "sink", delivery->sink, "receiver",
            json_words(delivery->receiver), "id", (json_int_t)delivery->id, "event_id",
            delivery->event_id, "source", source_of(delivery, found), "topic", delivery->topic,
            "key", delivery->has_key ? json_string(delivery->key) : json_null(), "attempt",
            (int)delivery->attempt, "outcome", telemetry_outcome_name(delivery->outcome), "words",
            json_words(delivery->words), "latency",
            json_seconds((double)delivery->latency_us / 1e6));
}

static json_t *recent_part(const struct recent *recent, const json_t *found)
{
        json_t *deliveries = json_array();

        for (unsigned i = 0; i < recent_count(recent); i++)
                json_array_append_new(deliveries, status_delivery(recent_get(recent, i), found));
        return deliveries;
}

static bool add_condition(json_t *conditions, const char *name, bool holds, const char *words)
{
        json_array_append_new(
            conditions, json_pack("{s:s s:b s:s}", "name", name, "ok", holds, "words", words));
        return holds;
}

static bool add_sink_condition(json_t *conditions, const struct sink_telemetry *sink)
{
        char name[80];
        char words[320];

        snprintf(name, sizeof name, "sink %.64s", sink->name);
        snprintf(words, sizeof words, "%s%s%s", sink_state_name(sink->state),
            sink->state_reason[0] != '\0' ? ": " : "", sink->state_reason);
        return add_condition(conditions, name, sink->state != SINK_STALLED, words);
}

json_t *readiness_conditions(const struct telemetry *telemetry, bool *out_is_ready)
{
        json_t *conditions = json_array();
        bool is_up = telemetry->source.is_up;
        bool is_ready = true;

        is_ready &= add_condition(conditions, "relay", telemetry->is_ready,
            telemetry->is_ready ? "ready" : telemetry->not_ready);
        is_ready &= add_condition(
            conditions, "postgres", is_up, is_up ? "connected" : telemetry->source.error);
        list_for_each (link, (struct list *)(uintptr_t)&telemetry->sinks)
                is_ready &=
                    add_sink_condition(conditions, list_owner(link, struct sink_telemetry, link));
        *out_is_ready = is_ready;
        return conditions;
}

json_t *readiness_failures(const json_t *conditions)
{
        json_t *failures = json_array();
        const json_t *condition;
        size_t i;

        json_array_foreach(conditions, i, condition)
        {
                if (json_is_false(json_object_get(condition, "ok")))
                        json_array_append_new(
                            failures, json_sprintf("%s: %s",
                                          json_string_value(json_object_get(condition, "name")),
                                          json_string_value(json_object_get(condition, "words"))));
        }
        return failures;
}

static void add_relay(json_t *document, const struct status_basis *basis)
{
        struct telemetry *telemetry = basis->telemetry;
        const json_t *found = json_object_get(basis->found, "sinks");
        int64_t now_us = clock_monotonic_us();
        json_t *conditions;
        bool is_ready;

        telemetry_refresh(telemetry, now_us);
        conditions = readiness_conditions(telemetry, &is_ready);
        json_object_set_new(document, "instance", instance());
        json_object_set_new(document, "started_at", json_time(telemetry->started_us));
        json_object_set_new(document, "now", json_time(telemetry_wall_us(telemetry, now_us)));
        json_object_set_new(document, "is_live", json_true());
        json_object_set_new(document, "ready", json_boolean(is_ready));
        json_object_set_new(document, "not_ready", readiness_failures(conditions));
        json_object_set_new(document, "sinks", sinks_of_relay(telemetry, found, now_us));
        json_object_set_new(document, "recent", recent_part(&telemetry->recent, basis->found));
        json_decref(conditions);
}

static void add_no_relay(json_t *document, const struct status_basis *basis)
{
        static const char *const unknown[] = {
            "instance", "started_at", "ready", "not_ready", "recent"};
        const json_t *found = json_object_get(basis->found, "sinks");

        for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
                json_object_set_new(document, unknown[i], json_null());
        json_object_set_new(document, "now", json_member(basis->found, "now"));
        json_object_set_new(document, "is_live", json_false());
        json_object_set_new(document, "sinks", sinks_of_database(basis->config, found));
}

json_t *status_document(const struct status_basis *basis)
{
        static const char *const members[] = {
            "blocked_keys", "orphans", "unserved", "relays", "schedules", "taps"};
        json_t *document = json_pack("{s:s s:b s:o s:o}", "version", PGCOURIER_VERSION,
            "can_change", basis->can_change, "looked_at", json_member(basis->found, "now"),
            "look_error", json_words(basis->query_error));

        if (basis->telemetry != NULL)
                add_relay(document, basis);
        else
                add_no_relay(document, basis);
        json_object_set_new(document, "config", config_part(basis));
        json_object_set_new(document, "source", source_part(basis));
        for (size_t i = 0; i < sizeof members / sizeof *members; i++)
                json_object_set_new(document, members[i], json_member(basis->found, members[i]));
        json_object_set_new(document, "marks", marks_part(basis));
        json_object_set_new(document, "attention", findings_find(document));
        return document;
}
