#include "operator/receiver_rows.h"

#include "base/bytes.h"
#include "operator/selection.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Of the .sql files beside this one, embedded at build time. */
extern const char receiver_parts_sql[];
extern const char receiver_unread_sql[];

static const struct {
        const char *column;
        const char *type;
} fields[RECEIVER_N_FIELDS] = {
    [RECEIVER_SINK] = {"sink", "text"},
    [RECEIVER_NAME] = {"name", "text"},
    [RECEIVER_URL] = {"url", "text"},
    [RECEIVER_DESCRIPTION] = {"description", "text"},
    [RECEIVER_SECRET] = {"secret", "text"},
    [RECEIVER_HEADERS] = {"headers", "jsonb"},
    [RECEIVER_TOPICS] = {"topics", "text[]"},
    [RECEIVER_TYPES] = {"types", "text[]"},
    [RECEIVER_FILTER] = {"filter", "jsonpath"},
    [RECEIVER_START] = {"start", "text"},
    [RECEIVER_CONCURRENCY] = {"concurrency", "integer"},
    [RECEIVER_RATE] = {"rate", "double precision"},
    [RECEIVER_BURST] = {"burst", "integer"},
};

/* What follows the path of a URL may be a token. */
#define PLAIN_URL "regexp_replace(url, '[?#].*$', '?...')"

#define HEALTH                                                                                     \
        " FROM courier.receiver_health AS health JOIN courier.receiver AS receiver USING (id)"

#define CHOSEN                                                                                     \
        " WHERE ($1::text IS NULL OR receiver.sink = $1)"                                          \
        " AND ($2::text IS NULL OR receiver.state = $2) ORDER BY receiver.sink, receiver.name"

/* A relay delivers its sink, with receivers: table. */
#define IS_SERVED                                                                                  \
        "EXISTS (SELECT FROM courier.lane_owner AS owner"                                          \
        " JOIN courier.sink AS noted ON noted.name = owner.sink AND noted.fans_out"                \
        " WHERE owner.sink = receiver.sink AND owner.lane = 0)"

static const char list_sql[] =
    "SELECT receiver.name, receiver.sink, receiver.state,"
    " to_char(receiver.failing_since " AS_UTC_SECONDS "), parked, dead,"
    " array_to_string(topics, ','), " PLAIN_URL ","
    " coalesce(receiver.state_reason,"
    "  CASE WHEN receiver.failing_since IS NOT NULL THEN receiver.last_error END,"
    "  CASE WHEN NOT " IS_SERVED " THEN 'no relay serves its sink' END)" HEALTH CHOSEN;

#define TIMES                                                                                      \
        " to_char(receiver.state_since " AS_UTC ") AS state_since,"                                \
        " to_char(receiver.failing_since " AS_UTC ") AS failing_since,"                            \
        " receiver.last_error, to_char(receiver.last_failed_at " AS_UTC ") AS last_failed_at,"     \
        " parked, to_char(parked_since " AS_UTC ") AS parked_since, dead,"                         \
        " to_char(created_at " AS_UTC ") AS created_at"

static const char list_json_sql[] =
    "SELECT (SELECT row_to_json(line) FROM (SELECT id, receiver.sink, receiver.name, description,"
    " " PLAIN_URL " AS url, topics, types, filter::text AS filter, start, concurrency, rate, burst,"
    " receiver.state, receiver.state_reason, " IS_SERVED " AS is_served," TIMES
    ") AS line)" HEALTH CHOSEN;

/* $2: with secrets. Without, header values go too: one of them may be an Authorization. */
#define SHOWN_HEADERS                                                                              \
        "CASE WHEN $2::boolean THEN headers"                                                       \
        " ELSE coalesce((SELECT jsonb_object_agg(key, '...') FROM jsonb_each(headers)), '{}') END"
#define SHOWN_URL "CASE WHEN $2::boolean THEN url ELSE " PLAIN_URL " END"

static const char show_json_sql[] =
    "SELECT (SELECT row_to_json(line) FROM (SELECT id, receiver.sink, receiver.name, description,"
    " " SHOWN_URL " AS url, " SHOWN_HEADERS " AS headers,"
    " topics, types, filter::text AS filter, start, concurrency, rate, burst,"
    " receiver.state, receiver.state_reason, " IS_SERVED " AS is_served," TIMES ","
    " $3::bigint AS waiting, $4::boolean AS waiting_is_exact,"
    " CASE WHEN $2 THEN secret END AS secret, CASE WHEN $2 THEN old_secrets END AS old_secrets,"
    " to_char(old_secrets_until " AS_UTC ") AS old_secrets_until) AS line)" HEALTH
    " WHERE receiver.name = $1::text";

static const char show_sql[] =
    "SELECT field.name, value" HEALTH ", LATERAL (VALUES"
    " ('name', receiver.name), ('id', id::text), ('sink', receiver.sink),"
    " ('description', description), ('url', " SHOWN_URL "),"
    " ('headers', nullif(" SHOWN_HEADERS ", '{}')::text),"
    " ('topics', array_to_string(topics, ',')), ('types', nullif(array_to_string(types, ','), '')),"
    " ('filter', filter::text), ('start', start), ('concurrency', concurrency::text),"
    " ('rate', CASE WHEN rate > 0 THEN rate::text ELSE 'unlimited' END),"
    " ('burst', CASE WHEN burst > 0 THEN burst::text END), ('state', receiver.state),"
    " ('state_reason', receiver.state_reason),"
    " ('state_since', to_char(receiver.state_since " AS_UTC_SECONDS ")),"
    " ('failing_since', to_char(receiver.failing_since " AS_UTC_SECONDS ")),"
    " ('last_error', receiver.last_error),"
    " ('last_failed_at', to_char(receiver.last_failed_at " AS_UTC_SECONDS ")),"
    " ('served', CASE WHEN " IS_SERVED " THEN 'yes' ELSE 'no relay serves its sink' END),"
    " ('waiting', $3),"
    " ('parked', parked::text), ('parked_since', to_char(parked_since " AS_UTC_SECONDS ")),"
    " ('dead', dead::text), ('created_at', to_char(created_at " AS_UTC_SECONDS ")),"
    " ('secret', CASE WHEN $2 THEN secret END),"
    " ('old_secrets', CASE WHEN $2 THEN nullif(array_to_string(old_secrets, ' '), '') END),"
    " ('old_secrets_until', to_char(old_secrets_until " AS_UTC_SECONDS "))"
    ") AS field (name, value) WHERE receiver.name = $1::text";

static const char set_state_sql[] =
    "WITH old AS (SELECT id, state FROM courier.receiver WHERE name = $1::text FOR UPDATE),"
    " changed AS (UPDATE courier.receiver AS e"
    "  SET state = $2::text, state_reason = coalesce($3::text, e.state_reason)"
    "  FROM old WHERE e.id = old.id AND (old.state <> $2::text OR $3::text IS NOT NULL))"
    " SELECT state FROM old";

static const char rotate_sql[] =
    "SELECT courier.rotate_secret($1::text, $2::bigint * interval '1 millisecond',"
    "  coalesce($3::text, courier.new_secret())),"
    " CASE WHEN $2::bigint > 0 THEN"
    "  to_char((now() + $2::bigint * interval '1 millisecond') " AS_UTC_SECONDS ") END";

struct rows *receiver_add(
    struct blocking_conn *conn, const char *const *values, bool as_json, struct error *error)
{
        struct parameter parameters[RECEIVER_N_FIELDS];
        struct bytes columns = {0};
        struct bytes places = {0};
        struct bytes sql = {0};
        struct rows *rows;
        int n = 0;

        for (int i = 0; i < RECEIVER_N_FIELDS; i++) {
                if (values[i] == NULL)
                        continue;
                parameters[n++] = (struct parameter){.value = values[i]};
                bytes_printf(&columns, "%s%s", n > 1 ? ", " : "", fields[i].column);
                bytes_printf(&places, "%s$%d::%s", n > 1 ? ", " : "", n, fields[i].type);
        }
        bytes_printf(&sql, "INSERT INTO courier.receiver (%s) VALUES (%s) RETURNING %s",
            columns.data, places.data,
            as_json ? "(SELECT row_to_json(line) FROM (SELECT id, sink, name, secret) AS line)"
                    : "id, secret");
        rows = blocking_conn_query(conn, sql.data, parameters, n, error);
        bytes_deinit(&sql);
        bytes_deinit(&places);
        bytes_deinit(&columns);
        return rows;
}

struct rows *receivers_read(struct blocking_conn *conn, const char *sink, const char *state,
    bool as_json, struct error *error)
{
        const struct parameter parameters[] = {{.value = sink}, {.value = state}};

        return blocking_conn_query(conn, as_json ? list_json_sql : list_sql, parameters, 2, error);
}

struct rows *receivers_read_texts(struct blocking_conn *conn, const char *sink, struct error *error)
{
        static const char sql[] =
            "SELECT id, json_build_object('name', name, 'url', '', 'headers', '{}'::json,"
            " 'topics', topics, 'types', types, 'filter', filter::text, 'state', state,"
            " 'reason', state_reason)::text"
            " FROM courier.receiver WHERE sink = $1 ORDER BY id";
        const struct parameter parameter = {.value = sink};

        return blocking_conn_query(conn, sql, &parameter, 1, error);
}

struct rows *receiver_show(struct blocking_conn *conn, const char *name, bool with_secrets,
    const char *waiting, struct error *error)
{
        const struct parameter parameters[] = {
            {.value = name}, {.value = with_secrets ? "true" : "false"}, {.value = waiting}};

        return blocking_conn_query(conn, show_sql, parameters, 3, error);
}

struct rows *receiver_show_json(struct blocking_conn *conn, const char *name, bool with_secrets,
    int64_t n_waiting, bool is_exact, struct error *error)
{
        char n[24];
        const struct parameter parameters[] = {{.value = name},
            {.value = with_secrets ? "true" : "false"}, {.value = n},
            {.value = is_exact ? "true" : "false"}};

        snprintf(n, sizeof n, "%" PRId64, n_waiting);
        return blocking_conn_query(conn, show_json_sql, parameters, 4, error);
}

static struct rows *query_name(
    struct blocking_conn *conn, const char *sql, const char *name, struct error *error)
{
        const struct parameter parameter = {.value = name};

        return blocking_conn_query(conn, sql, &parameter, 1, error);
}

struct rows *receiver_read_parts(struct blocking_conn *conn, const char *name, struct error *error)
{
        return query_name(conn, receiver_parts_sql, name, error);
}

struct rows *receiver_count(struct blocking_conn *conn, const char *name, struct error *error)
{
        return query_name(conn,
            "SELECT parked, dead FROM courier.receiver_health WHERE name = $1::text", name, error);
}

struct rows *receiver_unread(
    struct blocking_conn *conn, const char *name, int max_rows, struct error *error)
{
        char limit[16];
        const struct parameter parameters[] = {{.value = name}, {.value = limit}};

        snprintf(limit, sizeof limit, "%d", max_rows);
        return blocking_conn_query(conn, receiver_unread_sql, parameters, 2, error);
}

bool receiver_note_sink(struct blocking_conn *conn, const char *sink, struct error *error)
{
        struct rows *rows = query_name(conn,
            "INSERT INTO courier.sink (name, fans_out) VALUES ($1::text, true)"
            " ON CONFLICT (name) DO UPDATE SET fans_out = true WHERE NOT sink.fans_out",
            sink, error);

        rows_free(rows);
        return rows != NULL;
}

struct rows *receiver_set_state(struct blocking_conn *conn, const char *name, const char *state,
    const char *reason, struct error *error)
{
        const struct parameter parameters[] = {
            {.value = name}, {.value = state}, {.value = reason}};

        return blocking_conn_query(conn, set_state_sql, parameters, 3, error);
}

bool receiver_remove(
    struct blocking_conn *conn, const char *name, bool *out_existed, struct error *error)
{
        struct rows *rows = query_name(
            conn, "DELETE FROM courier.receiver WHERE name = $1::text RETURNING id", name, error);

        if (rows == NULL)
                return false;
        *out_existed = rows_count(rows) > 0;
        rows_free(rows);
        return true;
}

struct rows *receiver_rotate_secret(struct blocking_conn *conn, const char *name,
    int64_t overlap_ms, const char *secret, struct error *error)
{
        char overlap[24];
        const struct parameter parameters[] = {
            {.value = name}, {.value = overlap}, {.value = secret}};

        snprintf(overlap, sizeof overlap, "%" PRId64, overlap_ms);
        return blocking_conn_query(conn, rotate_sql, parameters, 3, error);
}

struct rows *receiver_names(struct blocking_conn *conn, struct error *error)
{
        return blocking_conn_query(
            conn, "SELECT name FROM courier.receiver ORDER BY name", NULL, 0, error);
}
