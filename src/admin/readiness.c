#include "admin/readiness.h"

#include "telemetry/telemetry.h"

static bool add(json_t *conditions, const char *name, bool holds, const char *words)
{
        json_array_append_new(
            conditions, json_pack("{s:s s:b s:s}", "name", name, "ok", holds, "words", words));
        return holds;
}

static bool add_sink(json_t *conditions, const struct sink_telemetry *sink)
{
        char name[80];
        char words[320];

        snprintf(name, sizeof name, "sink %.64s", sink->name);
        snprintf(words, sizeof words, "%s%s%s", sink_state_name(sink->state),
            sink->state_reason[0] != '\0' ? ": " : "", sink->state_reason);
        return add(conditions, name, sink->state != SINK_STALLED, words);
}

json_t *readiness_conditions(const struct telemetry *telemetry, bool *out_is_ready)
{
        json_t *conditions = json_array();
        bool is_up = telemetry->source.is_up;
        bool is_ready = true;

        is_ready &= add(conditions, "relay", telemetry->is_ready,
            telemetry->is_ready ? "ready" : telemetry->not_ready);
        is_ready &=
            add(conditions, "postgres", is_up, is_up ? "connected" : telemetry->source.error);
        list_for_each (link, (struct list *)(uintptr_t)&telemetry->sinks)
                is_ready &= add_sink(conditions, list_owner(link, struct sink_telemetry, link));
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
