#include "operator/parked_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCH_ROWS 1000
#define MATCHES    SELECTION_SQL("outbox_id", "state", "parked_at")

#define LIMIT      (SELECTION_PARAMETERS + 0)
#define AFTER_SINK (SELECTION_PARAMETERS + 1)
#define AFTER_LANE (SELECTION_PARAMETERS + 2)
#define AFTER_ID   (SELECTION_PARAMETERS + 3)
#define PARAMETERS (SELECTION_PARAMETERS + 4)

/* The next page, by the primary key. */
#define PAGE                                                                                       \
        " FROM courier.parked WHERE " MATCHES " AND ($10::text IS NULL"                            \
        "      OR (sink, lane, outbox_id) > ($10::text, $11::integer, $12::bigint))"

#define IN_ORDER " ORDER BY sink, lane, outbox_id LIMIT $9::bigint"

#define RECEIVER SELECTION_RECEIVER("parked")

static const char list_sql[] = "SELECT outbox_id, sink, lane, " RECEIVER ", topic, key,"
                               " state || CASE WHEN skip THEN ', skip' ELSE '' END, attempts,"
                               " CASE WHEN state <> 'blocked' THEN courier.utc(due_at, 0) END,"
                               " last_error" PAGE IN_ORDER;

static const char list_json_sql[] =
    "SELECT outbox_id, sink, lane, (SELECT row_to_json(line) FROM (SELECT"
    "  sink, lane, " RECEIVER " AS receiver, outbox_id, state,"
    "  CASE WHEN state <> 'blocked' THEN courier.utc(due_at) END AS due_at,"
    "  attempts, extract(epoch FROM retried_for)::float8 AS retried_seconds,"
    "  first_error, courier.utc(first_failed_at) AS first_failed_at,"
    "  last_error, courier.utc(last_failed_at) AS last_failed_at,"
    "  is_redriven, skip, courier.utc(parked_at) AS parked_at,"
    "  position, event_id, courier.tap_table(source) AS source, source_key, topic, key, type,"
    "  courier.utc(created_at) AS created_at) AS line)" PAGE IN_ORDER;

/* The keys of blocked deliveries that match, each with the delivery that it waits for. */
#define BLOCKED                                                                                    \
        " FROM (SELECT sink, lane, key, count(*) AS waiting, min(parked_at) AS since"              \
        "       FROM courier.parked WHERE state = 'blocked' AND " MATCHES                          \
        "       GROUP BY sink, lane, key) AS blocked"                                              \
        " LEFT JOIN LATERAL (SELECT * FROM courier.parked"                                         \
        "       WHERE parked.sink = blocked.sink AND parked.lane = blocked.lane"                   \
        "         AND parked.key = blocked.key AND parked.state = 'retry'"                         \
        "       ORDER BY parked.position LIMIT 1) AS head ON true"                                 \
        " ORDER BY waiting DESC, blocked.sink, blocked.lane, blocked.key LIMIT $9::bigint"

#define BLOCKED_RECEIVER SELECTION_RECEIVER("blocked")

static const char blocked_sql[] = "SELECT blocked.sink, " BLOCKED_RECEIVER ", blocked.key, waiting,"
                                  " head.outbox_id, head.attempts, courier.utc(head.due_at, 0),"
                                  " head.last_error" BLOCKED;

static const char blocked_json_sql[] =
    "SELECT (SELECT row_to_json(line) FROM (SELECT"
    "  blocked.sink, blocked.lane, " BLOCKED_RECEIVER " AS receiver, blocked.key,"
    "  waiting, courier.utc(since) AS waiting_since,"
    "  head.outbox_id AS behind_outbox_id, head.event_id AS behind_event_id,"
    "  head.topic AS behind_topic, head.attempts,"
    "  courier.utc(head.due_at) AS due_at, head.last_error,"
    "  courier.utc(head.first_failed_at) AS first_failed_at) AS line)" BLOCKED;

static const char count_sql[] =
    "WITH matching AS (SELECT outbox_id, state FROM courier.parked WHERE " MATCHES IN_ORDER ")"
    " SELECT count(*), count(*) FILTER (WHERE state = 'blocked'),"
    "  (SELECT coalesce(string_agg(wanted::text, ', ' ORDER BY wanted), '')"
    "   FROM unnest($7::bigint[]) AS wanted WHERE wanted NOT IN (SELECT outbox_id FROM matching))"
    " FROM matching";

/* The marker looks at the event when the delivery is over, not when it would have been due. */
#define MARK(set, more, lock)                                                                      \
        "WITH picked AS MATERIALIZED (SELECT sink, lane, outbox_id" PAGE more IN_ORDER " " lock    \
        "), marked AS ("                                                                           \
        "  UPDATE courier.parked SET " set " FROM picked"                                          \
        "  WHERE (parked.sink, parked.lane, parked.outbox_id)"                                     \
        "      = (picked.sink, picked.lane, picked.outbox_id)"                                     \
        "  RETURNING parked.outbox_id, parked.sink, parked.lane"                                   \
        "), looked_at AS ("                                                                        \
        "  UPDATE courier.unmarked SET due_at = clock_timestamp() WHERE outbox_id IN ("            \
        "    SELECT outbox_id FROM courier.unmarked"                                               \
        "    WHERE state = 'parked' AND outbox_id IN (SELECT outbox_id FROM marked)"               \
        "    FOR UPDATE SKIP LOCKED))"                                                             \
        " SELECT outbox_id, sink, lane FROM marked ORDER BY sink, lane, outbox_id"

#define SKIP     "skip = true, due_at = clock_timestamp()"
#define UNMARKED " AND NOT skip"
#define RETRY    "due_at = clock_timestamp()"
#define TRIABLE  " AND state <> 'blocked' AND NOT skip"
#define NOT_DUE  TRIABLE " AND due_at > now()"

/*
 * The relay that owns the lane changes several rows in one transaction, in an order of its own. A
 * statement that waits for one of these rows while it holds another could deadlock with it, and the
 * relay's transaction might be cancelled. So first all rows that are not locked are marked, then
 * the others one by one.
 */
static const struct {
        const char *free_sql;
        const char *held_sql;
} marks[] = {
    [MARK_SKIP] = {MARK(SKIP, "", "FOR UPDATE SKIP LOCKED"), MARK(SKIP, UNMARKED, "FOR UPDATE")},
    [MARK_RETRY] = {MARK(RETRY, TRIABLE, "FOR UPDATE SKIP LOCKED"),
        MARK(RETRY, NOT_DUE, "FOR UPDATE")},
};

static struct rows *read_page(struct blocking_conn *conn, const char *sql,
    const struct selection *selection, const struct rows *page_before, int64_t max_rows,
    struct error *error)
{
        struct selection_texts texts;
        struct parameter parameters[PARAMETERS] = {0};
        char limit[24];

        selection_fill(selection, &texts, parameters);
        snprintf(limit, sizeof limit, "%" PRId64, max_rows);
        parameters[LIMIT].value = limit;
        if (page_before != NULL) {
                int last = rows_count(page_before) - 1;
                parameters[AFTER_SINK].value = rows_text(page_before, last, PARKED_ROW_SINK);
                parameters[AFTER_LANE].value = rows_text(page_before, last, PARKED_ROW_LANE);
                parameters[AFTER_ID].value = rows_text(page_before, last, PARKED_ROW_ID);
        }
        return blocking_conn_query(conn, sql, parameters, PARAMETERS, error);
}

struct rows *parked_rows_read(struct blocking_conn *conn, const struct selection *selection,
    const struct rows *page_before, int max_rows, bool as_json, struct error *error)
{
        return read_page(
            conn, as_json ? list_json_sql : list_sql, selection, page_before, max_rows, error);
}

/* For statements without pages: the selection's own limit is $9. */
static struct rows *query(struct blocking_conn *conn, const char *sql,
    const struct selection *selection, struct error *error)
{
        struct selection_texts texts;
        struct parameter parameters[SELECTION_PARAMETERS + 1];
        char limit[24];

        selection_fill(selection, &texts, parameters);
        snprintf(limit, sizeof limit, "%" PRId64, selection->limit);
        parameters[LIMIT] = (struct parameter){.value = selection->limit > 0 ? limit : NULL};
        return blocking_conn_query(conn, sql, parameters, SELECTION_PARAMETERS + 1, error);
}

struct rows *parked_rows_read_blocked(struct blocking_conn *conn, const struct selection *selection,
    bool as_json, struct error *error)
{
        return query(conn, as_json ? blocked_json_sql : blocked_sql, selection, error);
}

bool parked_rows_count(struct blocking_conn *conn, const struct selection *selection,
    struct parked_count *out_count, struct error *error)
{
        struct rows *rows = query(conn, count_sql, selection, error);

        if (rows == NULL)
                return false;
        out_count->n = strtoll(rows_text(rows, 0, 0), NULL, 10);
        out_count->n_blocked = strtoll(rows_text(rows, 0, 1), NULL, 10);
        snprintf(out_count->missing, sizeof out_count->missing, "%s", rows_text(rows, 0, 2));
        rows_free(rows);
        return true;
}

/* Batch after batch, until no row is left to mark or max_rows are marked. */
static bool mark_all(struct blocking_conn *conn, const char *sql, int64_t batch_rows,
    const struct selection *selection, int64_t max_rows, int64_t *n_marked, struct error *error)
{
        struct rows *page_before = NULL;
        bool ok = true;

        while (ok && *n_marked < max_rows) {
                int64_t n_left = max_rows - *n_marked;
                struct rows *page = read_page(conn, sql, selection, page_before,
                    n_left < batch_rows ? n_left : batch_rows, error);
                bool is_end = page == NULL || rows_count(page) == 0;
                rows_free(page_before);
                page_before = page;
                ok = page != NULL;
                if (is_end)
                        break;
                *n_marked += rows_count(page);
                ok = blocking_conn_run(conn, "NOTIFY courier_control", error);
        }
        rows_free(page_before);
        return ok;
}

bool parked_rows_mark(struct blocking_conn *conn, enum parked_mark mark,
    const struct selection *selection, int64_t max_rows, int64_t *out_n_marked, struct error *error)
{
        *out_n_marked = 0;
        return mark_all(conn, marks[mark].free_sql, BATCH_ROWS, selection, max_rows, out_n_marked,
                   error) &&
               mark_all(conn, marks[mark].held_sql, 1, selection, max_rows, out_n_marked, error);
}
