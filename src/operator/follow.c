#include "operator/follow.h"

#include "operator/selection.h"

#include <inttypes.h>
#include <stdio.h>

static const char publish_sql[] =
    "SELECT courier.publish($1::text, $2::json, key => $3::text, type => $4::text,"
    " headers => $5::jsonb)";

/* In the same transaction: the only event that it has written. */
static const char find_sql[] = "SELECT id, txid, event_id FROM courier.outbox"
                               " WHERE txid = pg_catalog.pg_current_xact_id()";

/* $1 sink, $2 lane, $3 id, $4 xid, $5 committed at. All in one snapshot: what leaves courier.parked
 * turns up in courier.dead_letter in the same moment. A cursor first, then the parked row: both were
 * written in one transaction. */
static const char status_query_sql[] =
    "SELECT round(extract(epoch FROM clock_timestamp() - $5::timestamptz) * 1000),"
    " c.lane IS NOT NULL,"
    " courier.has_passed(c.from_snapshot, c.until_snapshot, c.last_id, $3::bigint, $4::xid8),"
    " EXISTS (SELECT FROM courier.lane_owner AS o WHERE o.sink = $1 AND o.lane IN (0, "
    "$2::integer)),"
    " pause.by, pause.reason,"
    " parked.state, parked.attempts,"
    " to_char(parked.due_at AT TIME ZONE 'UTC', 'HH24:MI:SS'), parked.last_error,"
    " dead.id, dead.reason, dead.error"
    " FROM (VALUES (1)) AS one"
    " LEFT JOIN courier.cursor AS c ON c.sink = $1 AND c.lane = $2::integer"
    " LEFT JOIN courier.parked AS parked"
    "   ON parked.sink = $1 AND parked.lane = $2::integer AND parked.outbox_id = $3::bigint"
    " LEFT JOIN LATERAL (SELECT id, reason, error FROM courier.dead_letter AS d WHERE d.sink = $1"
    "   AND d.lane = $2::integer AND d.outbox_id = $3::bigint ORDER BY id DESC LIMIT 1) AS dead"
    "   ON true"
    " LEFT JOIN LATERAL (SELECT by, reason FROM courier.pause AS p WHERE p.sink = $1"
    "   ORDER BY by LIMIT 1) AS pause ON true";

static bool find(struct blocking_conn *conn, struct followed *out_followed, struct error *error)
{
        struct rows *rows = blocking_conn_query(conn, find_sql, NULL, 0, error);

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
        struct rows *rows = blocking_conn_query(
            conn, "SELECT to_char(clock_timestamp() " AS_UTC ")", NULL, 0, error);

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

struct rows *follow_look(struct blocking_conn *conn, const struct followed *followed,
    const char *sink, int32_t lane, struct error *error)
{
        char number[16];
        const struct parameter parameters[] = {{.value = sink}, {.value = number},
            {.value = followed->id}, {.value = followed->xid}, {.value = followed->committed_at}};

        snprintf(number, sizeof number, "%" PRId32, lane);
        return blocking_conn_query(conn, status_query_sql, parameters, 5, error);
}
