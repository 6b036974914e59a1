#include "operator/history.h"

#include "base/clock.h"
#include "operator/selection.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the .sql files beside this one, embedded at build time. */
extern const char history_sql[];
extern const char replay_sql[];
extern const char rewind_sql[];

static const char fix_sql[] =
    "SELECT coalesce($1::timestamptz, now() - $2::bigint * interval '1 ms'),"
    " coalesce($3::timestamptz, now() - $4::bigint * interval '1 ms'),"
    " coalesce(pg_catalog.pg_sequence_last_value('courier.outbox_id_seq'::regclass), 0),"
    " EXISTS (SELECT FROM courier.cursor WHERE sink = $5"
    "         AND (lane = $6::integer OR lane < 0 AND $6 = 0))";

static const char due_sql[] =
    "SELECT count(*) FROM (SELECT FROM courier.parked WHERE sink = $1"
    " AND (lane = $2::integer OR lane < 0 AND $2 = 0)"
    " AND (state <> 'blocked' OR skip) AND due_at <= clock_timestamp() AND headers ? 'replayed'"
    " LIMIT $3::integer) AS due";

static const char find_sql[] =
    "SELECT min(id) FROM courier.outbox WHERE ($1::bigint IS NULL OR id >= $1)"
    " AND ($2::timestamptz IS NULL OR created_at >= $2)"
    " AND ($3::bigint IS NULL OR created_at >= now() - $3 * interval '1 ms')";

/* Shards have different events, and so had those before: no more come again than of the one that
 * is furthest. */
static const char count_sql[] =
    "SELECT coalesce(sum(n) FILTER (WHERE lane > 0), 0)"
    "  + coalesce(max(n) FILTER (WHERE lane <= 0), 0)"
    " FROM (SELECT lane, greatest(from_floor,"
    "         CASE WHEN until_snapshot IS NOT NULL THEN last_id END) AS reached"
    "       FROM courier.cursor WHERE sink = $1"
    "         AND ($2::integer IS NULL OR lane = $2 OR lane < 0 AND $2 = 0)"
    "       UNION ALL"
    "       SELECT 0, greatest(from_floor, last_id) FROM courier.shard_end"
    "       WHERE sink = $1 AND coalesce($2, 0) = 0) AS each,"
    " LATERAL (SELECT greatest(0, reached - ($3::bigint - 1)) AS n) AS passed";

static const char *number(char *text, size_t size, int64_t n)
{
        snprintf(text, size, "%" PRId64, n);
        return text;
}

static const char *ago(char *text, size_t size, const struct log_position *moment)
{
        return moment->ago_ms < 0 ? NULL : number(text, size, moment->ago_ms);
}

static void copy_time(char *to, size_t size, const char *text)
{
        snprintf(to, size, "%s", text != NULL ? text : "");
}

static const char *or_null(const char *text)
{
        return *text != '\0' ? text : NULL;
}

bool history_fix(struct blocking_conn *conn, struct history_range *range, struct error *error)
{
        char from_ago[24], to_ago[24], lane[16];
        const struct parameter parameters[] = {{.value = range->from.time},
            {.value = ago(from_ago, sizeof from_ago, &range->from)}, {.value = range->to.time},
            {.value = ago(to_ago, sizeof to_ago, &range->to)}, {.value = range->sink},
            {.value = number(lane, sizeof lane, range->lane)}};
        struct rows *rows;
        bool exists;

        if (!blocking_conn_run(conn, "SET TimeZone = 'UTC'", error))
                return false;
        rows = blocking_conn_query(conn, fix_sql, parameters, 6, error);
        if (rows == NULL)
                return false;
        copy_time(range->from_time, sizeof range->from_time, rows_text(rows, 0, 0));
        copy_time(range->to_time, sizeof range->to_time, rows_text(rows, 0, 1));
        range->upto = strtoll(rows_text(rows, 0, 2), NULL, 10);
        if (range->to.id != 0 && range->to.id < range->upto)
                range->upto = range->to.id;
        exists = rows_bool(rows, 0, 3);
        rows_free(rows);
        return exists ||
               error_set(error, ERROR_EMPTY,
                   "no relay has run sink %s here so far: it has no history", range->sink);
}

struct rows *history_read(struct blocking_conn *conn, const struct history_range *range,
    int64_t after_id, int max_rows, struct error *error)
{
        char lane[16], after[24], upto[24], limit[16];
        const struct parameter parameters[] = {{.value = range->sink},
            {.value = number(lane, sizeof lane, range->lane)},
            {.value = number(after, sizeof after, after_id)},
            {.value = number(upto, sizeof upto, range->upto)}, {.value = or_null(range->from_time)},
            {.value = or_null(range->to_time)}, {.value = range->topic}, {.value = range->key},
            {.value = number(limit, sizeof limit, max_rows)}};

        return blocking_conn_query(conn, history_sql, parameters, 9, error);
}

bool history_replay(struct blocking_conn *conn, const struct history_range *range, const char *ids,
    int64_t interval_us, int64_t *out_n_parked, struct error *error)
{
        char lane[16], interval[24];
        const struct parameter parameters[] = {{.value = range->sink},
            {.value = number(lane, sizeof lane, range->lane)}, {.value = ids},
            {.value = number(interval, sizeof interval, interval_us)}};
        struct rows *rows = blocking_conn_query(conn, replay_sql, parameters, 4, error);

        if (rows == NULL)
                return false;
        *out_n_parked = rows_count(rows);
        rows_free(rows);
        return blocking_conn_run(conn, "NOTIFY courier_control", error);
}

bool history_count_due(struct blocking_conn *conn, const struct history_range *range, int limit,
    int64_t *out_n_due, struct error *error)
{
        char lane[16], most[16];
        const struct parameter parameters[] = {{.value = range->sink},
            {.value = number(lane, sizeof lane, range->lane)},
            {.value = number(most, sizeof most, limit)}};
        struct rows *rows = blocking_conn_query(conn, due_sql, parameters, 3, error);

        if (rows == NULL)
                return false;
        *out_n_due = strtoll(rows_text(rows, 0, 0), NULL, 10);
        rows_free(rows);
        return true;
}

bool history_find(struct blocking_conn *conn, const struct log_position *moment, int64_t *out_id,
    struct error *error)
{
        char id[24], ms[24];
        const struct parameter parameters[] = {
            {.value = moment->id != 0 ? number(id, sizeof id, moment->id) : NULL},
            {.value = moment->time}, {.value = ago(ms, sizeof ms, moment)}};
        struct rows *rows;
        const char *first;

        if (!blocking_conn_run(conn, "SET TimeZone = 'UTC'", error))
                return false;
        rows = blocking_conn_query(conn, find_sql, parameters, 3, error);
        if (rows == NULL)
                return false;
        first = rows_text(rows, 0, 0);
        *out_id = first != NULL ? strtoll(first, NULL, 10) : 0;
        rows_free(rows);
        return true;
}

static struct rows *query_rewind(struct blocking_conn *conn, const char *sql, const char *sink,
    int lane, int64_t id, struct error *error)
{
        char lane_text[16], id_text[24];
        const struct parameter parameters[] = {{.value = sink},
            {.value = lane == HISTORY_ALL_LANES ? NULL : lane_text}, {.value = id_text}};

        snprintf(lane_text, sizeof lane_text, "%d", lane);
        snprintf(id_text, sizeof id_text, "%" PRId64, id);
        return blocking_conn_query(conn, sql, parameters, 3, error);
}

bool history_count_rewind(struct blocking_conn *conn, const char *sink, int lane, int64_t id,
    int64_t *out_n_events, struct error *error)
{
        struct rows *rows = query_rewind(conn, count_sql, sink, lane, id, error);

        if (rows == NULL)
                return false;
        *out_n_events = strtoll(rows_text(rows, 0, 0), NULL, 10);
        rows_free(rows);
        return true;
}

bool history_rewind(struct blocking_conn *conn, const char *sink, int lane, int64_t id,
    int64_t *out_n_lanes, struct error *error)
{
        struct rows *rows = query_rewind(conn, rewind_sql, sink, lane, id, error);

        if (rows == NULL)
                return false;
        *out_n_lanes = rows_count(rows);
        rows_free(rows);
        return blocking_conn_run(conn, "COMMIT", error);
}

static const char publish_sql[] =
    "SELECT courier.publish($1::text, $2::json, key => $3::text, type => $4::text,"
    " headers => $5::jsonb)";

/* In the same transaction: the only event that it has written. */
static const char last_published_sql[] = "SELECT id, txid, event_id FROM courier.outbox"
                                         " WHERE txid = pg_catalog.pg_current_xact_id()";

extern const char follow_sql[]; /* follow.sql, embedded at build time */

static bool find(struct blocking_conn *conn, struct followed *out_followed, struct error *error)
{
        struct rows *rows = blocking_conn_query(conn, last_published_sql, NULL, 0, error);

        if (rows == NULL)
                return false;
        snprintf(out_followed->id, sizeof out_followed->id, "%s", rows_text(rows, 0, 0));
        snprintf(out_followed->xid, sizeof out_followed->xid, "%s", rows_text(rows, 0, 1));
        snprintf(
            out_followed->event_id, sizeof out_followed->event_id, "%s", rows_text(rows, 0, 2));
        rows_free(rows);
        return true;
}

static bool read_clock(
    struct blocking_conn *conn, struct followed *out_followed, struct error *error)
{
        struct rows *rows =
            blocking_conn_query(conn, "SELECT courier.utc(clock_timestamp())", NULL, 0, error);

        if (rows == NULL)
                return false;
        snprintf(out_followed->committed_at, sizeof out_followed->committed_at, "%s",
            rows_text(rows, 0, 0));
        rows_free(rows);
        return true;
}

bool follow_publish(struct blocking_conn *conn, const char *topic, const char *payload,
    const char *key, const char *type, const char *headers, struct followed *out_followed,
    struct error *error)
{
        const struct parameter parameters[] = {{.value = topic}, {.value = payload}, {.value = key},
            {.value = type}, {.value = headers}};
        struct rows *rows;

        if (!blocking_conn_run(conn, "BEGIN", error))
                return false;
        rows = blocking_conn_query(conn, publish_sql, parameters, 5, error);
        if (rows == NULL)
                return false;
        rows_free(rows);
        return find(conn, out_followed, error) && blocking_conn_run(conn, "COMMIT", error) &&
               read_clock(conn, out_followed, error);
}

struct rows *follow_find_tap(struct blocking_conn *conn, const char *topic, struct error *error)
{
        static const char sql[] =
            "SELECT name, courier.tap_table(id) FROM courier.attachment"
            " WHERE id = (SELECT source FROM (SELECT id, topic, source FROM courier.outbox"
            "                                 ORDER BY id DESC LIMIT 1000) AS last"
            "             WHERE topic = $1 AND source IS NOT NULL ORDER BY last.id DESC LIMIT 1)";
        const struct parameter parameter = {.value = topic};

        return blocking_conn_query(conn, sql, &parameter, 1, error);
}

struct rows *follow_look(struct blocking_conn *conn, const struct followed *followed,
    const char *sink, int32_t lane, struct error *error)
{
        char number[16];
        const struct parameter parameters[] = {{.value = sink}, {.value = number},
            {.value = followed->id}, {.value = followed->xid}, {.value = followed->committed_at}};

        snprintf(number, sizeof number, "%" PRId32, lane);
        return blocking_conn_query(conn, follow_sql, parameters, 5, error);
}

/* For the transaction: so it also holds behind a pooler, and ends by itself. The payloads are only
 * measured, which costs a fraction of reading them as jsonb. */
static const char limit_sql[] =
    "SELECT pg_catalog.set_config('statement_timeout', ms::text, true), ms"
    " FROM (SELECT $2::bigint + coalesce(sum(octet_length(payload::text)), 0)::bigint / $3::bigint"
    "  AS ms FROM courier.outbox WHERE id = ANY ($1::bigint[])) AS bound";

/* OFFSET 0 keeps the planner from asking about other events. */
static const char ask_sql[] =
    "SELECT id FROM (SELECT id, courier.true_filters(payload, $2::jsonpath[], id) AS held"
    "  FROM courier.outbox WHERE id = ANY ($1::bigint[]) OFFSET 0) AS asked"
    " WHERE cardinality(held) = cardinality($2::jsonpath[]) ORDER BY id";

static bool set_limit(
    struct blocking_conn *conn, const char *ids, int64_t *out_limit_ms, struct error *error)
{
        char least[24], bytes[24];
        const struct parameter parameters[] = {{.value = ids}, {.value = least}, {.value = bytes}};
        struct rows *rows;

        snprintf(least, sizeof least, "%d", FILTERS_LIMIT_MS);
        snprintf(bytes, sizeof bytes, "%d", FILTER_QUEUE_BYTES_PER_MS);
        rows = blocking_conn_query(conn, limit_sql, parameters, 3, error);
        if (rows == NULL)
                return false;
        *out_limit_ms = strtoll(rows_text(rows, 0, 1), NULL, 10);
        rows_free(rows);
        return true;
}

/* A statement that is cancelled before its time is up ends the command. */
static bool is_time_out(struct blocking_conn *conn, int64_t asked_us, int64_t limit_ms)
{
        return strcmp(blocking_conn_sqlstate(conn), "57014") == 0 &&
               clock_monotonic_us() - asked_us >= limit_ms * 1000;
}

bool filters_ask(struct blocking_conn *conn, const char *ids, const char *filters,
    struct rows **out_rows, struct error *error)
{
        const struct parameter parameters[] = {{.value = ids}, {.value = filters}};
        int64_t limit_ms, asked_us;
        struct error failure;

        *out_rows = NULL;
        if (!blocking_conn_run(conn, "BEGIN READ ONLY", error) ||
            !set_limit(conn, ids, &limit_ms, error))
                return false;
        asked_us = clock_monotonic_us();
        *out_rows = blocking_conn_query(conn, ask_sql, parameters, 2, &failure);
        if (*out_rows == NULL && !is_time_out(conn, asked_us, limit_ms)) {
                *error = failure;
                return false;
        }
        if (blocking_conn_run(conn, "ROLLBACK", error))
                return true;
        rows_free(*out_rows);
        *out_rows = NULL;
        return false;
}

struct rows *event_trace(
    struct blocking_conn *conn, const char *event, const char *n_deliveries, struct error *error)
{
        const struct parameter parameters[] = {{.value = event}, {.value = n_deliveries}};

        if (!blocking_conn_run(conn, "SET TimeZone = 'UTC'", error))
                return NULL;
        return blocking_conn_query(conn, trace_sql, parameters, 2, error);
}
