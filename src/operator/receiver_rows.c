#include "operator/receiver_rows.h"

#include "base/bytes.h"
#include "operator/selection.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Of the .sql files beside this one, embedded at build time. */
extern const char receiver_parts_sql[];
extern const char receiver_list_sql[];
extern const char receiver_story_sql[];

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

#define SHOWN_HEADERS                                                                              \
        "CASE WHEN $2::boolean THEN r.headers"                                                     \
        " ELSE coalesce((SELECT jsonb_object_agg(key, '...') FROM jsonb_each(r.headers)), '{}') "  \
        "END"

/* $2: with secrets. Without, header values go too: one of them may be an Authorization. */
static const char show_sql[] =
    "SELECT field.name, value FROM courier.receiver AS r"
    " CROSS JOIN LATERAL (SELECT * FROM courier.receiver_status AS one WHERE one.lane = r.id"
    "  OFFSET 0) AS s"
    " CROSS JOIN LATERAL courier.waiting(r.sink, r.id, 100000) AS w, LATERAL (VALUES"
    " ('name', r.name), ('id', r.id::text), ('sink', r.sink), ('description', r.description),"
    " ('url', CASE WHEN $2::boolean THEN r.url ELSE s.url END),"
    " ('headers', nullif(" SHOWN_HEADERS ", '{}')::text),"
    " ('topics', array_to_string(r.topics, ',')),"
    " ('types', nullif(array_to_string(r.types, ','), '')), ('filter', r.filter::text),"
    " ('start', r.start), ('concurrency', r.concurrency::text),"
    " ('rate_limit', CASE WHEN r.rate > 0 THEN r.rate::text ELSE 'none' END),"
    " ('burst', CASE WHEN r.burst > 0 THEN r.burst::text END), ('state', r.state),"
    " ('state_reason', r.state_reason),"
    " ('state_since', courier.utc(r.state_since, 0)),"
    " ('failing_since', courier.utc(r.failing_since, 0)),"
    " ('served', CASE WHEN s.is_served THEN 'yes' ELSE 'no relay serves its sink' END),"
    " ('waiting', CASE WHEN w.is_exact THEN w.events::text ELSE 'about ' || w.events END),"
    " ('waiting_since', courier.utc(w.since, 0)),"
    " ('retrying', s.retrying::text), ('next_at', courier.utc(s.next_at, 0)),"
    " ('blocked', CASE WHEN s.blocked > 0 THEN s.blocked || ' of ' || s.blocked_keys"
    "   || CASE s.blocked_keys WHEN 1 THEN ' key' ELSE ' keys' END END),"
    " ('delayed', nullif(s.delayed, 0)::text), ('dead', s.dead::text),"
    " ('last_delivered_at', courier.utc(s.last_delivered_at, 0)),"
    " ('pace', CASE WHEN s.rate > 0 THEN round(s.rate::numeric, 2) || '/s, P50 '"
    "   || round((s.p50 * 1000)::numeric, 1) || ' ms, P99 ' || round((s.p99 * 1000)::numeric, 1)"
    "   || ' ms' END),"
    " ('last_failed_at', courier.utc(s.last_failed_at, 0)),"
    " ('last_status', s.last_status::text), ('last_error', s.last_error),"
    " ('created_at', courier.utc(r.created_at, 0)),"
    " ('secret', CASE WHEN $2 THEN r.secret END),"
    " ('old_secrets', CASE WHEN $2 THEN nullif(array_to_string(r.old_secrets, ' '), '') END),"
    " ('old_secrets_until', courier.utc(r.old_secrets_until, 0))"
    ") AS field (name, value) WHERE r.name = $1::text";

static const char attempts_sql[] =
    "SELECT courier.utc(a.at), a.outbox_id, a.number, a.outcome,"
    " round(a.took_us / 1000.0, 1) || ' ms', a.status, a.answer"
    " FROM courier.receiver AS r, courier.newest_attempts(r.id, $2::integer) AS a"
    " WHERE r.name = $1::text ORDER BY a.at DESC";

const char receiver_set_state_sql[] =
    "WITH old AS (SELECT id, state FROM courier.receiver WHERE name = $1::text FOR UPDATE),"
    " changed AS (UPDATE courier.receiver AS e"
    "  SET state = $2::text, state_reason = coalesce($3::text, e.state_reason)"
    "  FROM old WHERE e.id = old.id AND (old.state <> $2::text OR $3::text IS NOT NULL))"
    " SELECT state FROM old";

static const char rotate_sql[] =
    "SELECT courier.rotate_secret($1::text, $2::bigint * interval '1 millisecond',"
    "  coalesce($3::text, courier.new_secret())),"
    " CASE WHEN $2::bigint > 0 THEN"
    "  courier.utc(now() + $2::bigint * interval '1 millisecond', 0) END";

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

/* %d is the number of the parameter. */
static const char *const setters[RECEIVER_N_FIELDS] = {
    [RECEIVER_URL] = "url = $%d::text",
    [RECEIVER_DESCRIPTION] = "description = nullif($%d::text, '')",
    [RECEIVER_HEADERS] = "headers = jsonb_strip_nulls(headers || $%d::jsonb)",
    [RECEIVER_TOPICS] = "topics = $%d::text[]",
    [RECEIVER_TYPES] = "types = $%d::text[]",
    [RECEIVER_FILTER] = "filter = nullif($%d::text, '')::jsonpath",
    [RECEIVER_CONCURRENCY] = "concurrency = $%d::integer",
    [RECEIVER_RATE] = "rate = $%d::double precision",
    [RECEIVER_BURST] = "burst = $%d::integer",
};

static void append_setter(struct bytes *sql, const char *setter, int n)
{
        const char *place = strstr(setter, "%d");

        bytes_append(sql, setter, (size_t)(place - setter));
        bytes_printf(sql, "%d%s", n, place + 2);
}

struct rows *receiver_set(
    struct blocking_conn *conn, const char *const *values, struct error *error)
{
        struct parameter parameters[RECEIVER_N_FIELDS] = {{.value = values[RECEIVER_NAME]}};
        struct bytes sql = {0};
        struct rows *rows;
        int n = 1;

        bytes_append_text(&sql, "UPDATE courier.receiver SET ");
        for (int i = 0; i < RECEIVER_N_FIELDS; i++) {
                if (values[i] == NULL || setters[i] == NULL)
                        continue;
                parameters[n++] = (struct parameter){.value = values[i]};
                bytes_append_text(&sql, n > 2 ? ", " : "");
                append_setter(&sql, setters[i], n);
        }
        bytes_append_text(&sql, " WHERE name = $1::text RETURNING name");
        rows = blocking_conn_query(conn, sql.data, parameters, n, error);
        bytes_deinit(&sql);
        return rows;
}

struct rows *receivers_read(
    struct blocking_conn *conn, const struct receivers_chosen *chosen, struct error *error)
{
        struct receivers_parameters parameters;

        receivers_parameters_fill(&parameters, chosen);
        if (!blocking_conn_run(conn, "SET TimeZone = 'UTC'; SET jit = off", error))
                return NULL;
        return blocking_conn_query(
            conn, receiver_list_sql, parameters.values, RECEIVERS_PARAMETERS, error);
}

void receivers_parameters_fill(
    struct receivers_parameters *parameters, const struct receivers_chosen *chosen)
{
        *parameters = (struct receivers_parameters){0};
        snprintf(parameters->limit, sizeof parameters->limit, "%u", chosen->limit);
        snprintf(parameters->offset, sizeof parameters->offset, "%" PRId64, chosen->offset);
        parameters->values[0].value = chosen->sink;
        parameters->values[1].value = chosen->search;
        parameters->values[2].value = chosen->state;
        parameters->values[3].value = chosen->limit > 0 ? parameters->limit : NULL;
        parameters->values[4].value = parameters->offset;
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

struct rows *receiver_show(
    struct blocking_conn *conn, const char *name, bool with_secrets, struct error *error)
{
        const struct parameter parameters[] = {
            {.value = name}, {.value = with_secrets ? "true" : "false"}};

        return blocking_conn_query(conn, show_sql, parameters, 2, error);
}

struct rows *receiver_story(struct blocking_conn *conn, const char *name, const char *n_attempts,
    bool with_secrets, struct error *error)
{
        const struct parameter parameters[] = {
            {.value = name}, {.value = n_attempts}, {.value = with_secrets ? "true" : "false"}};

        if (!blocking_conn_run(conn, "SET TimeZone = 'UTC'; SET jit = off", error))
                return NULL;
        return blocking_conn_query(conn, receiver_story_sql, parameters, 3, error);
}

struct rows *receiver_attempts(
    struct blocking_conn *conn, const char *name, const char *n_attempts, struct error *error)
{
        const struct parameter parameters[] = {{.value = name}, {.value = n_attempts}};

        return blocking_conn_query(conn, attempts_sql, parameters, 2, error);
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
            "SELECT CASE WHEN w.is_exact THEN '' ELSE 'about ' END || w.events,"
            " retrying + blocked + delayed, dead"
            " FROM courier.receiver_status AS s, courier.waiting(s.sink, s.lane, 100000) AS w"
            " WHERE name = $1::text",
            name, error);
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

        return blocking_conn_query(conn, receiver_set_state_sql, parameters, 3, error);
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

#define LINK_COLUMNS                                                                               \
        "l.id, courier.utc(l.expires_at, 0),"                                                      \
        " CASE WHEN l.can_manage THEN 'yes' ELSE 'no' END,"                                        \
        " courier.utc(l.created_at, 0),"                                                           \
        " json_build_object('id', l.id, 'expires_at', courier.utc(l.expires_at, 0),"               \
        "  'can_manage', l.can_manage, 'created_at', courier.utc(l.created_at, 0))"

struct rows *receiver_link_add(struct blocking_conn *conn, const char *name, const char *token_hash,
    bool can_manage, int64_t for_ms, struct error *error)
{
        static const char sql[] =
            "WITH gone AS (SELECT courier.drop_links())"
            " INSERT INTO courier.receiver_link AS l (receiver, token_hash, can_manage, expires_at)"
            " SELECT id, decode($2::text, 'hex'), $3::boolean,"
            "  clock_timestamp() + $4::bigint * interval '1 millisecond'"
            " FROM courier.receiver, gone WHERE name = $1::text RETURNING " LINK_COLUMNS;
        char milliseconds[24];
        const struct parameter parameters[] = {{.value = name}, {.value = token_hash},
            {.value = can_manage ? "true" : "false"}, {.value = milliseconds}};

        snprintf(milliseconds, sizeof milliseconds, "%" PRId64, for_ms);
        return blocking_conn_query(conn, sql, parameters, 4, error);
}

struct rows *receiver_links(struct blocking_conn *conn, const char *name, struct error *error)
{
        return query_name(conn,
            "SELECT " LINK_COLUMNS
            " FROM courier.receiver_link AS l JOIN courier.receiver AS r ON r.id = l.receiver"
            " WHERE r.name = $1::text AND l.expires_at > clock_timestamp() ORDER BY l.id DESC",
            name, error);
}

struct rows *receiver_links_remove(
    struct blocking_conn *conn, const char *name, const char *id, struct error *error)
{
        const struct parameter parameters[] = {{.value = name}, {.value = id}};

        return blocking_conn_query(conn,
            "DELETE FROM courier.receiver_link AS l USING courier.receiver AS r"
            " WHERE r.id = l.receiver AND r.name = $1::text"
            " AND ($2::bigint IS NULL OR l.id = $2::bigint)"
            " RETURNING l.id",
            parameters, 2, error);
}
