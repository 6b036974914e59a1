#include "operator/status_query.h"

#include "base/alloc.h"
#include "config/config.h"
#include "outbox/sink_settings.h"
#include "pg/blocking_conn.h"

#include <stdlib.h>
#include <string.h>

/* Nothing is scanned that an index leads through, whatever the planner thinks of a table that grows
 * at one end; and no plan depends on the sinks, so one is enough: making it takes longer than most
 * looks, the more so the more partitions there are. The bound in time is for a server that has
 * other worries. */
const char look_session_sql[] =
    "SELECT set_config('search_path', 'pg_catalog', false), set_config('TimeZone', 'UTC', false),"
    " set_config('default_transaction_isolation', 'read committed', false),"
    " set_config('plan_cache_mode', 'force_generic_plan', false),"
    " set_config('enable_seqscan', 'off', false),"
    " set_config('enable_bitmapscan', 'off', false),"
    " set_config('jit', 'off', false),"
    " set_config('max_parallel_workers_per_gather', '0', false),"
    " set_config('statement_timeout', '10s', false),"
    " set_config('lock_timeout', '2s', false),"
    " set_config('idle_session_timeout', '0', false)";

static json_t *text_array(char *const *texts, unsigned n_texts)
{
        json_t *array = json_array();

        for (unsigned i = 0; i < n_texts; i++)
                json_array_append_new(array, json_string(texts[i]));
        return array;
}

/* Conditions: "name=value", or "name" for any value. */
static void add_headers(json_t *sink, const struct sink_config *config)
{
        json_t *names = json_array(), *values = json_array();

        for (unsigned i = 0; i < config->n_match_headers; i++) {
                const char *condition = config->match_headers[i];
                size_t length = strcspn(condition, "=");

                json_array_append_new(names, json_stringn(condition, length));
                json_array_append_new(values,
                    condition[length] == '=' ? json_string(condition + length + 1) : json_null());
        }
        json_object_set_new(sink, "header_names", names);
        json_object_set_new(sink, "header_values", values);
}

static json_t *describe(const struct sink_config *config, bool is_served)
{
        json_t *sink = json_object();
        char *settings = sink_settings(config);

        json_object_set_new(sink, "settings", json_loads(settings, 0, NULL));
        free(settings);
        json_object_set_new(sink, "sink", json_string(config->name));
        json_object_set_new(sink, "is_served", json_boolean(is_served));
        json_object_set_new(sink, "fans_out", json_boolean(sink_config_fans_out(config)));
        json_object_set_new(sink, "topics", text_array(config->topics, config->n_topics));
        if (config->n_types > 0)
                json_object_set_new(sink, "types", text_array(config->types, config->n_types));
        if (config->n_match_headers > 0)
                add_headers(sink, config);
        json_object_set_new(sink, "has_filter", json_boolean(config->filter != NULL));
        return sink;
}

char *look_sinks(const struct config *config)
{
        json_t *sinks = json_array();
        char *text;

        for (unsigned i = 0; i < config->n_sinks + config->n_unserved; i++)
                json_array_append_new(sinks, describe(&config->sinks[i], i < config->n_sinks));
        text = json_dumps(sinks, JSON_COMPACT);
        if (text == NULL)
                out_of_memory();
        json_decref(sinks);
        return text;
}

json_t *status_query_ask(
    struct blocking_conn *conn, const struct config *config, struct error *error)
{
        char *sinks = config != NULL ? look_sinks(config) : NULL;
        const struct parameter parameter = {.value = sinks};
        struct rows *rows = blocking_conn_query(conn, status_query_sql, &parameter, 1, error);
        json_t *answer = NULL;

        free(sinks);
        if (rows == NULL)
                return NULL;
        answer = json_loads(rows_text(rows, 0, 0), JSON_ALLOW_NUL, NULL);
        if (answer == NULL)
                error_set(error, ERROR_SYSTEM, "the database's answer is no JSON");
        rows_free(rows);
        return answer;
}
