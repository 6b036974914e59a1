#include "operator/schedule_rows.h"

#include "operator/selection.h"
#include "pg/blocking_conn.h"

#include <string.h>

/* The role's own settings would show in intervals. */
#define PEOPLE   "SET intervalstyle = 'postgres_verbose'"
#define PROGRAMS "SET intervalstyle = 'iso_8601'"

#define TIMING " courier.schedule_timing(every, at, days, cron, time_zone)"

#define STATE                                                                                      \
        " CASE WHEN next_at = 'infinity' THEN 'ended' WHEN paused_at IS NOT NULL THEN 'paused'"    \
        " ELSE 'active' END"

/* Paused and ended ones have no next tick. */
#define NEXT(digits)                                                                               \
        " courier.utc(CASE WHEN next_at < 'infinity' AND paused_at IS NULL THEN next_at END, "     \
        "" digits ")"

#define JSON_FIELDS                                                                                \
        " name, every, at, cron, days, time_zone, courier.utc(starting) AS starting,"              \
        " courier.utc(until) AS until, times, jitter, missed, overlap, topic," STATE               \
        " AS state," NEXT("6") " AS next_at, courier.utc(last_at) AS last_at,"                     \
                               " courier.utc(paused_at) AS paused_at, ticks, skipped,"             \
                               " last_event_id, last_error"

static const char list_sql[] =
    "SELECT name," TIMING "," STATE
    "," NEXT("0") ","
                  " courier.utc(last_at, 0), topic, missed, nullif(skipped, 0), last_error"
                  " FROM courier.schedule ORDER BY name";

static const char list_json_sql[] = "SELECT (SELECT row_to_json(line) FROM (SELECT" JSON_FIELDS
                                    ") AS line) FROM courier.schedule ORDER BY name";

#define OPEN_FIELDS                                                                                \
        "('name', name), ('state'," STATE "), ('ticks'," TIMING "),"                               \
        " ('starting', courier.utc(starting, 0)), ('until', courier.utc(until, 0)),"               \
        " ('times', times::text), ('jitter', ltrim(jitter::text, '@ ')), ('missed', missed),"      \
        " ('overlap', overlap), ('next'," NEXT(                                                    \
            "0") "), ('last', courier.utc(last_at, 0)),"                                           \
                 " ('paused', courier.utc(paused_at, 0)), ('published', ticks::text),"             \
                 " ('skipped', nullif(skipped, 0)::text), ('last event', last_event_id::text),"    \
                 " ('error', last_error), ('topic', topic)"

static const char show_open_sql[] =
    "SELECT field.* FROM courier.schedule CROSS JOIN LATERAL"
    " (VALUES " OPEN_FIELDS ") AS field WHERE name = $1::text AND $2::text IS NOT NULL";

static const char show_sql[] =
    "SELECT field.* FROM courier.schedule CROSS JOIN LATERAL"
    " (VALUES " OPEN_FIELDS ", ('key', key), ('type', type), ('headers', headers::text),"
    " ('payload', payload::text), ('data', left(encode(data, 'hex'), 1000))) AS field"
    " WHERE name = $1::text AND $2::text IS NOT NULL";

static const char show_open_json_sql[] =
    "SELECT (SELECT row_to_json(line) FROM (SELECT" JSON_FIELDS
    ") AS line) FROM courier.schedule WHERE name = $1::text AND $2::text IS NOT NULL";

/* A line break stands in no string of a JSON text, only between its parts. */
static const char show_json_sql[] =
    "SELECT (SELECT row_to_json(line) FROM (SELECT" JSON_FIELDS
    ", key, type, headers, translate(payload::text, E'\\n\\r', '  ')::json AS payload,"
    " encode(data, 'hex') AS data,"
    " (SELECT coalesce(json_agg(event ORDER BY outbox_id DESC), '[]') FROM"
    "  (SELECT courier.utc(min(h.scheduled_for)) AS scheduled_for,"
    "   courier.utc(min(h.created_at)) AS created_at, h.event_id, h.outbox_id,"
    "   bool_or(h.run_by_hand) AS run_by_hand,"
    "   coalesce(json_agg(json_build_object('sink', h.sink, 'receiver', h.receiver,"
    "    'state', h.state, 'reason', h.reason, 'at', courier.utc(h.at), 'attempts', h.attempts,"
    "    'next_at', courier.utc(h.next_at))) FILTER (WHERE h.sink IS NOT NULL), '[]')"
    "    AS deliveries"
    "   FROM courier.schedule_history(s.name, $2::integer) AS h"
    "   GROUP BY h.event_id, h.outbox_id) AS event) AS history"
    ") AS line) FROM courier.schedule AS s WHERE name = $1::text";

static const char history_sql[] =
    "SELECT courier.utc(scheduled_for, 0), outbox_id, CASE WHEN run_by_hand THEN 'by hand' END,"
    " sink || coalesce('/' || receiver, ''), state, courier.utc(at, 0), reason"
    " FROM courier.schedule_history($1::text, $2::integer)";

static const char next_sql[] =
    "SELECT courier.utc(tick, 0), courier.utc(due_at, CASE WHEN tick = due_at THEN 0 ELSE 3 END)"
    " FROM courier.next_ticks($1::text, $2::integer)";

static const char next_json_sql[] =
    "SELECT row_to_json(line) FROM (SELECT courier.utc(tick) AS tick, courier.utc(due_at) AS due_at"
    " FROM courier.next_ticks($1::text, $2::integer)) AS line";

static const char add_sql[] =
    "SELECT courier.utc(nullif(courier.schedule(name => $1::text, topic => $2::text,"
    " payload => $3::json, every => $4::interval, at => $5::time, cron => $6::text,"
    " time_zone => coalesce($7::text, 'UTC'), days => string_to_array(lower($8::text), ','),"
    " starting => $9::timestamptz, until => $10::timestamptz, times => $11::integer,"
    " jitter => $12::interval, missed => coalesce($13::text, 'one'),"
    " overlap => coalesce($14::text, 'allow'), key => $15::text, type => $16::text),"
    " 'infinity'), 0)";

static const char clash_sql[] =
    "SELECT topic FROM courier.schedule WHERE name = $1::text AND topic <> $2::text";

static const char import_sql[] =
    "SELECT 'SELECT courier.schedule(' || concat_ws(', ', quote_literal($1::text),"
    " quote_literal($2::text), quote_literal($3::text), 'every => ' || quote_literal($4::text),"
    " 'at => ' || quote_literal($5::text), 'cron => ' || quote_literal($6::text),"
    " 'time_zone => ' || quote_literal(nullif($7::text, 'UTC'))) || ');'";

static const char may_read_pg_cron_sql[] =
    "SELECT has_table_privilege(c.oid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE')"
    " FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace"
    " WHERE n.nspname = 'cron' AND c.relname = 'job'";

/* Its own word for the last day of a month is $. */
static const char pg_cron_sql[] =
    "SELECT jobid, to_jsonb(job) ->> 'jobname',"
    " regexp_replace(schedule, '^(\\S+\\s+\\S+\\s+)\\$', '\\1L'), command,"
    " coalesce(current_setting('cron.timezone', true), 'GMT'),"
    " CASE WHEN NOT active THEN 'it is not active'"
    "  WHEN lower(schedule) = '@reboot' THEN '@reboot is no time'"
    "  WHEN database <> current_database() THEN 'it runs in the database ' || database END"
    " FROM cron.job ORDER BY jobid";

/* Of the table: what a relay has, a publisher has not. */
static const char may_read_sql[] = "SELECT pg_catalog.has_table_privilege("
                                   "'courier.schedule'::pg_catalog.regclass, 'SELECT')";

static struct rows *ask(struct blocking_conn *conn, const char *sql, const char *name,
    const char *number, struct error *error)
{
        const struct parameter parameters[] = {{.value = name}, {.value = number}};

        return blocking_conn_query(conn, sql, parameters, number != NULL ? 2 : 1, error);
}

static bool may_read(struct blocking_conn *conn, bool *out_may, struct error *error)
{
        struct rows *rows = blocking_conn_query(conn, may_read_sql, NULL, 0, error);

        if (rows == NULL)
                return false;
        *out_may = rows_bool(rows, 0, 0);
        rows_free(rows);
        return true;
}

struct rows *schedule_list(struct blocking_conn *conn, bool as_json, struct error *error)
{
        if (!blocking_conn_run(conn, as_json ? PROGRAMS : PEOPLE, error))
                return NULL;
        return blocking_conn_query(conn, as_json ? list_json_sql : list_sql, NULL, 0, error);
}

struct rows *schedule_show(struct blocking_conn *conn, const char *name, const char *n_events,
    bool as_json, struct error *error)
{
        bool may;

        if (!blocking_conn_run(conn, as_json ? PROGRAMS : PEOPLE, error) ||
            !may_read(conn, &may, error))
                return NULL;
        if (as_json)
                return ask(conn, may ? show_json_sql : show_open_json_sql, name, n_events, error);
        return ask(conn, may ? show_sql : show_open_sql, name, n_events, error);
}

struct rows *schedule_history(
    struct blocking_conn *conn, const char *name, const char *n_events, struct error *error)
{
        bool may;

        if (!may_read(conn, &may, error))
                return NULL;
        return may ? ask(conn, history_sql, name, n_events, error)
                   : blocking_conn_query(conn, "SELECT WHERE false", NULL, 0, error);
}

struct rows *schedule_next(struct blocking_conn *conn, const char *name, const char *n_ticks,
    bool as_json, struct error *error)
{
        return ask(conn, as_json ? next_json_sql : next_sql, name, n_ticks, error);
}

struct rows *schedule_add(
    struct blocking_conn *conn, const char *const values[SCHEDULE_N_FIELDS], struct error *error)
{
        struct parameter parameters[SCHEDULE_N_FIELDS] = {0};

        for (unsigned i = 0; i < SCHEDULE_N_FIELDS; i++)
                parameters[i].value = values[i];
        return blocking_conn_query(conn, add_sql, parameters, SCHEDULE_N_FIELDS, error);
}

/* Class 22 and 23: the values are to blame. The savepoint lets the transaction go on. */
static struct rows *try_to_add(struct blocking_conn *conn,
    const char *const values[SCHEDULE_N_FIELDS], bool *out_is_refused, struct error *error)
{
        struct error ignored;
        struct rows *rows;

        if (!blocking_conn_run(conn, "SAVEPOINT line", error))
                return NULL;
        rows = schedule_add(conn, values, error);
        *out_is_refused = rows == NULL && (strncmp(blocking_conn_sqlstate(conn), "22", 2) == 0 ||
                                              strncmp(blocking_conn_sqlstate(conn), "23", 2) == 0);
        if (*out_is_refused && !blocking_conn_run(conn, "ROLLBACK TO line", &ignored)) {
                *error = ignored;
                *out_is_refused = false;
        }
        return rows;
}

struct rows *schedule_import(struct blocking_conn *conn,
    const char *const values[SCHEDULE_N_FIELDS], bool *out_is_refused, struct error *error)
{
        struct parameter parameters[SCHEDULE_N_FIELDS] = {0};
        struct rows *rows =
            ask(conn, clash_sql, values[SCHEDULE_FIELD_NAME], values[SCHEDULE_FIELD_TOPIC], error);

        *out_is_refused = rows != NULL && rows_count(rows) > 0;
        if (*out_is_refused)
                error_set(error, ERROR_USAGE,
                    "there is a schedule \"%.100s\" already, with the topic %.100s",
                    values[SCHEDULE_FIELD_NAME], rows_text(rows, 0, 0));
        if (rows == NULL || *out_is_refused) {
                rows_free(rows);
                return NULL;
        }
        rows_free(rows);
        rows = try_to_add(conn, values, out_is_refused, error);
        if (rows == NULL)
                return NULL;
        rows_free(rows);
        for (unsigned i = 0; i < SCHEDULE_N_FIELDS; i++)
                parameters[i].value = values[i];
        return blocking_conn_query(
            conn, import_sql, parameters, SCHEDULE_FIELD_TIME_ZONE + 1, error);
}

struct rows *schedule_pg_cron_jobs(struct blocking_conn *conn, struct error *error)
{
        struct rows *rows = blocking_conn_query(conn, may_read_pg_cron_sql, NULL, 0, error);
        bool may = rows != NULL && rows_count(rows) > 0 && rows_bool(rows, 0, 0);

        if (rows != NULL && !may)
                error_set(error, ERROR_EMPTY,
                    "there is no table cron.job in this database that %s may read",
                    blocking_conn_user(conn));
        rows_free(rows);
        return may ? blocking_conn_query(conn, pg_cron_sql, NULL, 0, error) : NULL;
}

bool schedule_change(struct blocking_conn *conn, enum schedule_change change, const char *name,
    bool *out_existed, struct error *error)
{
        static const char *const sqls[] = {
            [SCHEDULE_REMOVE] = "SELECT courier.unschedule($1::text)",
            [SCHEDULE_PAUSE] = "SELECT courier.pause_schedule($1::text)",
            [SCHEDULE_RESUME] = "SELECT courier.resume_schedule($1::text)",
        };
        struct rows *rows = ask(conn, sqls[change], name, NULL, error);

        if (rows == NULL)
                return false;
        *out_existed = rows_bool(rows, 0, 0);
        rows_free(rows);
        return true;
}

struct rows *schedule_run(struct blocking_conn *conn, const char *name, struct error *error)
{
        return ask(conn, "SELECT courier.run_schedule($1::text)", name, NULL, error);
}

struct rows *schedule_names(struct blocking_conn *conn, struct error *error)
{
        return blocking_conn_query(conn, "SELECT name FROM courier.schedule", NULL, 0, error);
}
