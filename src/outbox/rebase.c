#include "outbox/rebase.h"

#include "base/alloc.h"
#include "outbox/blocking_conn.h"

#include <stdio.h>
#include <stdlib.h>

extern const char rebase_sql[]; /* rebase.sql, embedded at build time */

/* Nobody publishes or settles until the transaction ends. */
static const char lock_sql[] =
    "BEGIN; SET LOCAL search_path = pg_catalog, pg_temp;"
    " LOCK TABLE courier.outbox, courier.cursor IN ACCESS EXCLUSIVE MODE";

static const char owned_sql[] =
    "SELECT sink FROM courier.cursor"
    " WHERE NOT pg_try_advisory_xact_lock(1668248946, lock_id) ORDER BY sink LIMIT 1";

static const char waiting_sql[] =
    "SELECT cursor.sink, cursor.lane, count(rebased.id)"
    " FROM courier.cursor LEFT JOIN rebased ON cursor.lock_id = ANY (rebased.lanes)"
    " GROUP BY cursor.sink, cursor.lane ORDER BY cursor.sink, cursor.lane";

static bool no_lane_is_owned(struct blocking_conn *conn, struct error *error)
{
        struct rows *rows = blocking_conn_query(conn, owned_sql, NULL, 0, error);
        bool ok;

        if (rows == NULL)
                return false;
        ok = rows_count(rows) == 0;
        if (!ok)
                error_set(error, ERROR_TEMPORARY,
                    "a relay is running and owns the lane of sink %s; stop all relays first",
                    rows_text(rows, 0, 0));
        rows_free(rows);
        return ok;
}

static bool read_result(
    struct blocking_conn *conn, struct rebase_result *result, struct error *error)
{
        struct rows *rows = blocking_conn_query(conn, waiting_sql, NULL, 0, error);

        if (rows == NULL)
                return false;
        result->n_lanes = rows_count(rows);
        result->lanes = xcalloc((size_t)result->n_lanes, sizeof *result->lanes);
        for (int i = 0; i < result->n_lanes; i++) {
                struct rebased_lane *lane = &result->lanes[i];
                snprintf(lane->sink, sizeof lane->sink, "%s", rows_text(rows, i, 0));
                lane->lane = (int)strtol(rows_text(rows, i, 1), NULL, 10);
                lane->n_waiting = strtoll(rows_text(rows, i, 2), NULL, 10);
        }
        rows_free(rows);
        return true;
}

bool rebase(struct blocking_conn *conn, struct rebase_result *out_result, struct error *error)
{
        struct rebase_result result = {0};

        if (blocking_conn_run(conn, lock_sql, error) && no_lane_is_owned(conn, error) &&
            blocking_conn_run(conn, rebase_sql, error) && read_result(conn, &result, error) &&
            blocking_conn_run(conn, "COMMIT", error)) {
                *out_result = result;
                return true;
        }
        rebase_result_deinit(&result);
        return false;
}

void rebase_result_deinit(struct rebase_result *result)
{
        free(result->lanes);
        *result = (struct rebase_result){0};
}
