#include "admin/status_document.h"

#include "admin/admin_internal.h"
#include "admin/findings/findings.h"
#include "admin/http/answer.h"
#include "admin/readiness.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/instance.h"
#include "pgcourier/version.h"
#include "telemetry/telemetry.h"

#include <stdlib.h>

static json_t *instance(void)
{
        char name[300];

        instance_name(name, sizeof name, "");
        return json_string(name);
}

static json_t *config_part(const struct admin *admin)
{
        const struct telemetry *telemetry = admin->options.telemetry;

        return json_pack("{s:o s:o s:b s:o}", "file", json_words(admin->options.config_file),
            "loaded_at", json_time(telemetry->config.loaded_us), "last_reload_ok",
            telemetry->config.is_last_reload_ok, "last_reload_error",
            json_words(telemetry->config.error));
}

static json_t *filters_part(const struct telemetry *telemetry)
{
        if (telemetry->source.filters_error[0] == '\0')
                return json_null();
        return json_pack("{s:o s:o}", "error", json_words(telemetry->source.filters_error), "since",
            json_time(telemetry->source.filters_since_us));
}

static json_t *source_part(const struct telemetry *telemetry, const json_t *look)
{
        static const char *const known[] = {"database", "server", "address", "port",
            "server_version", "schema", "notify_queue_usage", "sequence", "oldest_xmin",
            "outbox_bytes", "outbox_dead_tuples", "outbox_partitions", "retention",
            "foreign_locks"};
        const json_t *found = json_object_get(look, "source");
        json_t *source = json_pack("{s:b s:o s:o s:I}", "up", telemetry->source.is_up, "error",
            json_words(telemetry->source.error), "login_refused_since",
            json_time(telemetry->source.login_refused_us), "reconnects",
            (json_int_t)telemetry->source.reconnects);

        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
                json_object_set_new(source, known[i], json_member(found, known[i]));
        json_object_set_new(source, "filters", filters_part(telemetry));
        return source;
}

static json_t *sinks_part(struct telemetry *telemetry, const json_t *look, int64_t now_us)
{
        const json_t *found = json_object_get(look, "sinks");
        json_t *sinks = json_array();

        list_for_each (link, &telemetry->sinks) {
                struct sink_telemetry *sink = list_owner(link, struct sink_telemetry, link);

                json_array_append_new(
                    sinks, status_sink(sink, json_object_get(found, sink->name), now_us));
        }
        return sinks;
}

json_t *status_delivery(const struct recent_delivery *delivery)
{
        return json_pack("{s:o s:s s:o s:I s:s s:s s:o s:i s:s s:o s:o}", "at",
            json_time(delivery->at_us), "sink", delivery->sink, "endpoint",
            json_words(delivery->endpoint), "id", (json_int_t)delivery->id, "event_id",
            delivery->event_id, "topic", delivery->topic, "key",
            delivery->has_key ? json_string(delivery->key) : json_null(), "attempt",
            (int)delivery->attempt, "outcome", telemetry_outcome_name(delivery->outcome), "words",
            json_words(delivery->words), "latency",
            json_seconds((double)delivery->latency_us / 1e6));
}

static json_t *recent_part(const struct recent *recent)
{
        json_t *deliveries = json_array();

        for (unsigned i = 0; i < recent_count(recent); i++)
                json_array_append_new(deliveries, status_delivery(recent_get(recent, i)));
        return deliveries;
}

json_t *status_document(struct admin *admin)
{
        const struct admin_options *options = &admin->options;
        struct telemetry *telemetry = options->telemetry;
        const json_t *look = options->operations->look(options->owner);
        int64_t now_us = clock_monotonic_us();
        json_t *conditions;
        json_t *document;
        bool is_ready;

        telemetry_refresh(telemetry, now_us);
        conditions = readiness_conditions(telemetry, &is_ready);
        document = json_pack(
            "{s:s s:o s:b s:o s:o s:o s:o s:b s:b s:o s:o s:o s:o s:o s:o s:o s:o}", "version",
            PGCOURIER_VERSION, "instance", instance(), "can_change", admin->token.is_set,
            "started_at", json_time(telemetry->started_us), "now",
            json_time(telemetry_wall_us(telemetry, now_us)), "looked_at", json_member(look, "now"),
            "look_error", json_words(options->operations->look_failure(options->owner)), "is_live",
            1, "ready", is_ready, "not_ready", readiness_failures(conditions), "config",
            config_part(admin), "source", source_part(telemetry, look), "sinks",
            sinks_part(telemetry, look, now_us), "blocked_keys", json_member(look, "blocked_keys"),
            "recent", recent_part(&telemetry->recent), "orphans", json_member(look, "orphans"),
            "unserved", json_member(look, "unserved"));
        json_decref(conditions);
        json_object_set_new(document, "attention", findings_find(document));
        return document;
}
