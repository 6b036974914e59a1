/* The part of a status document that the database knows. What a relay has in its memory (rates,
 * latencies, the last errors, what is under way) is null. */
#include "cli/status/status_source.h"
#include "config/config.h"
#include "pgcourier/version.h"

#include <stdlib.h>
#include <string.h>

/* For so long something waits without a known reason, and nothing was settled meanwhile. */
#define STALLED_S 60

static json_t *get(const json_t *object, const char *name)
{
        return json_object_get(object, name);
}

static double number_of(const json_t *object, const char *name)
{
        return json_number_value(get(object, name));
}

static const json_t *find_pause(const json_t *look, const char *by)
{
        const json_t *pause;
        size_t i;

        json_array_foreach(get(look, "pauses"), i, pause)
        {
                if (strcmp(json_string_value(get(pause, "by")), by) == 0)
                        return pause;
        }
        return NULL;
}

/* Of an object that need not be there. A new reference. */
static json_t *copy(const json_t *object, const char *name)
{
        json_t *member = get(object, name);

        return member != NULL ? json_incref(member) : json_null();
}

static bool is_stalled(const json_t *look)
{
        const json_t *backlog = get(look, "backlog");

        return number_of(backlog, "overdue_age") >= STALLED_S &&
               number_of(look, "settled_age") >= STALLED_S;
}

static void set_state(json_t *sink, const json_t *look)
{
        const json_t *pause = find_pause(look, "operator");
        const char *state = "running";

        if (!json_is_object(get(look, "owner"))) {
                state = "unowned";
                pause = NULL;
        } else if (pause != NULL) {
                state = "paused";
        } else if ((pause = find_pause(look, "relay")) != NULL) {
                state = "refused";
        } else if (is_stalled(look)) {
                state = "stalled";
        }
        json_object_set_new(sink, "state", json_string(state));
        json_object_set_new(sink, "state_reason", copy(pause, "reason"));
        json_object_set_new(sink, "state_since", copy(pause, "since"));
}

/* config NULL: what it takes is not known. */
static json_t *make_sink(const char *name, const json_t *look, const struct sink_config *config)
{
        static const char *const known[] = {"topics", "owner", "backlog", "retrying", "unfinished",
            "blocked", "delayed", "dead", "counts_are_exact", "next_retry_at", "pauses",
            "settings_differ", "endpoints", "settled_at"};
        static const char *const unknown[] = {"in_flight", "window", "counters", "rate", "latency",
            "stages", "series", "last_error", "last_delivery_at"};
        char *target = config != NULL ? sink_config_target(config) : NULL;
        json_t *sink = json_pack("{s:s s:s? s:s?}", "name", name, "kind",
            config != NULL ? sink_config_kind(config) : NULL, "target", target);

        free(target);
        set_state(sink, look);
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
                json_object_set_new(sink, known[i], copy(look, known[i]));
        for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
                json_object_set_new(sink, unknown[i], json_null());
        return sink;
}

static json_t *make_sinks(const json_t *found, const struct config *config)
{
        json_t *sinks = json_array();
        const char *name;
        json_t *look;

        for (unsigned i = 0; config != NULL && i < config->n_sinks; i++)
                json_array_append_new(
                    sinks, make_sink(config->sinks[i].name, get(found, config->sinks[i].name),
                               &config->sinks[i]));
        if (config == NULL)
                json_object_foreach((json_t *)(uintptr_t)found, name, look)
                    json_array_append_new(sinks, make_sink(name, look, NULL));
        return sinks;
}

static json_t *make_source(const json_t *found)
{
        json_t *source = json_pack("{s:b s:n s:n s:n s:n}", "up", 1, "error", "login_refused_since",
            "reconnects", "filters");

        json_object_update(source, (json_t *)(uintptr_t)found);
        return source;
}

static json_t *make_config(const char *config_path)
{
        if (config_path == NULL)
                return json_null();
        return json_pack("{s:s s:n s:n s:n}", "file", config_path, "loaded_at", "last_reload_ok",
            "last_reload_error");
}

json_t *status_from_look(const json_t *look, const struct config *config, const char *config_path)
{
        return json_pack("{s:s s:n s:b s:n s:o s:b s:n s:n s:o s:o s:o s:o s:n s:o s:o}", "version",
            PGCOURIER_VERSION, "instance", "can_change", 0, "started_at", "now", copy(look, "now"),
            "is_live", 0, "ready", "not_ready", "config", make_config(config_path), "source",
            make_source(get(look, "source")), "sinks", make_sinks(get(look, "sinks"), config),
            "blocked_keys", copy(look, "blocked_keys"), "recent", "orphans", copy(look, "orphans"),
            "unserved", copy(look, "unserved"));
}
