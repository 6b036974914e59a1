#include "operator/sink_rows.h"

#include "operator/selection.h"
#include "outbox/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The rest of a query about rows of courier.cursor as c: $1 a sink or NULL, $2 the sinks of a
 * configuration or NULL. */
#define ABOUT_CURSORS                                                                              \
        " FROM courier.cursor AS c"                                                                \
        " CROSS JOIN LATERAL (SELECT greatest(c.from_floor,"                                       \
        "   CASE WHEN c.until_snapshot IS NOT NULL THEN c.last_id END) AS reached) AS place"       \
        " CROSS JOIN LATERAL (SELECT greatest(0, coalesce(pg_catalog.pg_sequence_last_value("      \
        "   'courier.outbox_id_seq'::regclass), 0) - place.reached) AS behind) AS lag"             \
        " LEFT JOIN LATERAL (SELECT o.pid, o.application_name, o.client_addr"                      \
        "   FROM courier.lane_owner AS o WHERE o.sink = c.sink AND o.lane = c.lane"                \
        "   AND o.pid <> pg_catalog.pg_backend_pid() LIMIT 1) AS owner ON true"                    \
        " CROSS JOIN LATERAL (SELECT c.sink <> ALL ($2::text[]) AND c.sink <> 'courier.marks'"     \
        "   AS is_orphan) AS judged"                                                               \
        " LEFT JOIN courier.sink AS noted ON noted.name = c.sink AND c.lane < 0"                   \
        " WHERE $1::text IS NULL OR c.sink = $1 ORDER BY c.sink, c.lane > 0, abs(c.lane)"

#define CURSOR_RECEIVER SELECTION_RECEIVER("c")

static const char cursors_sql[] =
    "SELECT c.sink, c.lane, " CURSOR_RECEIVER ","
    " CASE WHEN c.lane < 0 THEN -1 - c.lane || ' of ' || noted.shards END,"
    " place.reached, lag.behind,"
    " courier.utc(c.settled_at, 0),"
    " 'pid ' || owner.pid || coalesce(' (' || nullif(owner.application_name, '') || ')', ''),"
    " CASE WHEN judged.is_orphan THEN 'ORPHAN'"
    "   WHEN NOT judged.is_orphan AND c.sink <> 'courier.marks' THEN 'yes' END,"
    " judged.is_orphan" ABOUT_CURSORS;

static const char cursors_json_sql[] =
    "SELECT (SELECT row_to_json(line) FROM (SELECT"
    "  c.sink, c.lane, " CURSOR_RECEIVER " AS receiver,"
    "  CASE WHEN c.lane < 0 THEN -1 - c.lane END AS shard, noted.shards,"
    "  place.reached, lag.behind,"
    "  courier.utc(c.settled_at) AS settled_at,"
    "  CASE WHEN owner.pid IS NOT NULL THEN json_build_object('pid', owner.pid,"
    "    'application_name', owner.application_name, 'client', host(owner.client_addr))"
    "  END AS owner,"
    "  judged.is_orphan) AS line)" ABOUT_CURSORS;

/* Of a receiver, or 0 for the sink's own lanes: one, or one for each shard; NULL for all. */
#define LANES "($2::integer IS NULL OR lane = $2 OR lane < 0 AND $2 = 0)"

/* Tries the locks one by one in the order of the lanes; that of its shard also holds a receiver's
 * lane. They end with the transaction. */
static const char hold_sql[] =
    "WITH lane AS MATERIALIZED (SELECT sink, lane,"
    "   pg_catalog.pg_try_advisory_xact_lock(" LOCK_CLASS ", lock_id) AS is_free"
    "   FROM (SELECT c.* FROM courier.cursor AS c LEFT JOIN courier.sink AS noted ON name = sink,"
    "         LATERAL (SELECT coalesce(noted.shards, 1) AS n) AS shards"
    "         WHERE sink = $1 AND (" LANES
    "           OR lane = courier.shard_lane(courier.shard_of(NULL, n, $2), n))"
    "         ORDER BY lane OFFSET 0) AS held)"
    " SELECT count(*) FILTER (WHERE " LANES "),"
    "  count(*) FILTER (WHERE NOT is_free),"
    "  (SELECT count(*) FROM courier.parked WHERE sink = $1 AND " LANES "),"
    "  (SELECT count(*) FROM courier.dead_letter WHERE sink = $1 AND " LANES "),"
    "  (SELECT count(*) FROM courier.pause WHERE sink = $1)"
    " FROM lane";

static const char drop_sql[] =
    "WITH parked AS (DELETE FROM courier.parked WHERE sink = $1 AND " LANES "),"
    " noted AS (DELETE FROM courier.sink WHERE name = $1 AND $2::integer IS NULL),"
    " ended AS (DELETE FROM courier.shard_end WHERE sink = $1 AND coalesce($2::integer, 0) = 0)"
    " DELETE FROM courier.cursor WHERE sink = $1 AND " LANES;

struct rows *cursors_read(struct blocking_conn *conn, const char *sink, const char *sinks,
    bool as_json, struct error *error)
{
        const struct parameter parameters[] = {{.value = sink}, {.value = sinks}};

        return blocking_conn_query(
            conn, as_json ? cursors_json_sql : cursors_sql, parameters, 2, error);
}

static struct rows *query(
    struct blocking_conn *conn, const char *sql, const char *sink, int lane, struct error *error)
{
        char number[16];
        const struct parameter parameters[] = {
            {.value = sink}, {.value = lane == CURSOR_ALL_LANES ? NULL : number}};

        snprintf(number, sizeof number, "%d", lane);
        return blocking_conn_query(conn, sql, parameters, 2, error);
}

static int64_t count(const struct rows *rows, int column)
{
        return strtoll(rows_text(rows, 0, column), NULL, 10);
}

bool cursors_hold(struct blocking_conn *conn, const char *sink, int lane,
    struct cursor_belongings *out_belongings, struct error *error)
{
        struct rows *rows;

        if (!blocking_conn_run(conn, "BEGIN", error))
                return false;
        rows = query(conn, hold_sql, sink, lane, error);
        if (rows == NULL)
                return false;
        *out_belongings = (struct cursor_belongings){.n_cursors = count(rows, 0),
            .n_owned = count(rows, 1),
            .n_parked = count(rows, 2),
            .n_dead = count(rows, 3),
            .n_pauses = count(rows, 4)};
        rows_free(rows);
        return true;
}

bool cursors_drop(struct blocking_conn *conn, const char *sink, int lane, struct error *error)
{
        struct rows *rows = query(conn, drop_sql, sink, lane, error);

        if (rows == NULL)
                return false;
        rows_free(rows);
        return blocking_conn_run(conn, "COMMIT", error);
}

#define MAX_REASON_BYTES 500

#define PAUSE_COLUMNS " sink, by, courier.utc(paused_at, 0), reason"

static const char pauses_sql[] =
    "SELECT" PAUSE_COLUMNS
    " FROM courier.pause WHERE $1::text IS NULL OR sink = $1 ORDER BY sink, by";

static const char pauses_json_sql[] =
    "SELECT (SELECT row_to_json(line) FROM (SELECT sink, by, reason,"
    " courier.utc(paused_at) AS paused_at) AS line)"
    " FROM courier.pause WHERE $1::text IS NULL OR sink = $1 ORDER BY sink, by";

/* xmax is 0 in a row that was inserted, not updated. */
const char pause_add_sql[] =
    "INSERT INTO courier.pause AS old (sink, by, reason) VALUES ($1::text, 'operator', $2::text)"
    " ON CONFLICT (sink, by) DO UPDATE SET reason = coalesce(excluded.reason, old.reason)"
    " RETURNING xmax <> 0";

const char pause_remove_sql[] =
    "WITH removed AS (DELETE FROM courier.pause WHERE sink = $1::text RETURNING *)"
    " SELECT" PAUSE_COLUMNS " FROM removed ORDER BY by";

static const char sink_known_sql[] =
    "SELECT EXISTS (SELECT FROM courier.cursor WHERE sink = $1::text)"
    " OR EXISTS (SELECT FROM courier.pause WHERE sink = $1::text)";

struct rows *pauses_read(
    struct blocking_conn *conn, const char *sink, bool as_json, struct error *error)
{
        const struct parameter parameter = {.value = sink};

        return blocking_conn_query(
            conn, as_json ? pauses_json_sql : pauses_sql, &parameter, 1, error);
}

bool pauses_add(struct blocking_conn *conn, const char *sink, const char *reason,
    bool *out_was_paused, struct error *error)
{
        const struct parameter parameters[] = {{.value = sink}, {.value = reason}};
        struct rows *rows = blocking_conn_query(conn, pause_add_sql, parameters, 2, error);

        if (rows == NULL)
                return false;
        *out_was_paused = rows_bool(rows, 0, 0);
        rows_free(rows);
        return true;
}

struct rows *pauses_remove(struct blocking_conn *conn, const char *sink, struct error *error)
{
        const struct parameter parameter = {.value = sink};

        return blocking_conn_query(conn, pause_remove_sql, &parameter, 1, error);
}

bool pauses_knows_sink(
    struct blocking_conn *conn, const char *sink, bool *out_known, struct error *error)
{
        const struct parameter parameter = {.value = sink};
        struct rows *rows = blocking_conn_query(conn, sink_known_sql, &parameter, 1, error);

        if (rows == NULL)
                return false;
        *out_known = rows_bool(rows, 0, 0);
        rows_free(rows);
        return true;
}

/* It ends up in a line of the relay's log and in tables. */
bool pause_check_reason(const char *reason, const char *name, struct error *error)
{
        if (reason == NULL)
                return true;
        if (strlen(reason) > MAX_REASON_BYTES)
                return error_set(
                    error, ERROR_USAGE, "%s is longer than %d bytes", name, MAX_REASON_BYTES);
        for (const char *at = reason; *at != '\0'; at++)
                if ((unsigned char)*at < ' ' || *at == 0x7f)
                        return error_set(error, ERROR_USAGE,
                            "%s has a control character at byte %d; it must be one line", name,
                            (int)(at - reason) + 1);
        return true;
}
