#include "operator/rebase.h"

#include "base/alloc.h"
#include "outbox/schema.h"
#include "pg/blocking_conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char rebase_sql[]; /* rebase.sql, embedded at build time, like the next */
extern const char rebase_needless_sql[];

#define BEGIN "BEGIN; SET LOCAL search_path = pg_catalog, pg_temp;"

/* Locks out relays until the transaction ends; and writers, too. */
static const char lock_cursors_sql[] = BEGIN " LOCK TABLE courier.cursor IN EXCLUSIVE MODE";
static const char lock_all_sql[] =
    BEGIN " LOCK TABLE courier.outbox, courier.cursor IN ACCESS EXCLUSIVE MODE";

static const char name_cluster_sql[] =
    "UPDATE courier.cursor SET epoch = epoch + 1, system_identifier = here.system_identifier"
    " FROM pg_control_system() AS here"
    " WHERE cursor.system_identifier <> here.system_identifier";

static const char owned_sql[] =
    "SELECT sink FROM courier.cursor"
    " WHERE NOT pg_try_advisory_xact_lock(" LOCK_CLASS ", lock_id) ORDER BY sink LIMIT 1";

/* How many ids the cluster has to draw, before those written here are below the oldest in use. */
static const char missing_sql[] =
    "SELECT coalesce(max(txid), 3) + 1 - pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
    " FROM rebased";

/* Each in its own transaction, which writes nothing. */
static const char draw_sql[] =
    "DO $$BEGIN FOR i IN 1 .. %lld LOOP PERFORM pg_catalog.pg_current_xact_id(); COMMIT; END LOOP; "
    "END$$";

static const char waiting_sql[] =
    "SELECT sink, greatest(lane, 0), sum((SELECT count(*) FROM courier.outbox"
    " WHERE txid >= pg_snapshot_xmin(from_snapshot)"
    " AND (lane >= 0 OR -1 - lane = courier.shard_of(key, noted.shards, id))"
    " AND NOT courier.has_passed(from_snapshot, until_snapshot, last_id, id, txid)"
    " AND NOT (lane <= 0 AND courier.had_passed(cursor.sink, key, id, txid))))::bigint"
    " FROM courier.cursor LEFT JOIN courier.sink AS noted ON noted.name = sink"
    " GROUP BY 1, 2 ORDER BY 1, 2";

static bool lock(struct blocking_conn *conn, const char *sql, struct error *error)
{
        if (blocking_conn_run(conn, sql, error))
                return true;
        if (error->kind == ERROR_PERMISSION)
                error_set(error, ERROR_PERMISSION,
                    "user %s may not rewrite the outbox: connect as the owner of "
                    "schema courier",
                    blocking_conn_user(conn));
        return false;
}

static bool no_lane_is_owned(struct blocking_conn *conn, struct error *error)
{
        struct rows *rows = blocking_conn_query(conn, owned_sql, NULL, 0, error);
        bool ok;

        if (rows == NULL)
                return false;
        ok = rows_count(rows) == 0;
        if (!ok)
                error_set(error, ERROR_TEMPORARY,
                    "a running relay owns the lane of sink %s; stop all relays first",
                    rows_text(rows, 0, 0));
        rows_free(rows);
        return ok;
}

static bool find_need(struct blocking_conn *conn, bool *out_is_needed, struct error *error)
{
        struct rows *rows = blocking_conn_query(conn, rebase_needless_sql, NULL, 0, error);

        if (rows == NULL)
                return false;
        *out_is_needed = strcmp(rows_text(rows, 0, 0), "t") != 0;
        rows_free(rows);
        return true;
}

static bool count_missing_ids(struct blocking_conn *conn, long long *out_n, struct error *error)
{
        struct rows *rows = blocking_conn_query(conn, missing_sql, NULL, 0, error);

        if (rows == NULL)
                return false;
        *out_n = strtoll(rows_text(rows, 0, 0), NULL, 10);
        rows_free(rows);
        return true;
}

static bool draw_ids(struct blocking_conn *conn, long long n, struct error *error)
{
        char draw[sizeof draw_sql + 24];

        snprintf(draw, sizeof draw, draw_sql, n);
        return blocking_conn_run(conn, "ROLLBACK", error) && blocking_conn_run(conn, draw, error);
}

/* A cluster that has drawn fewer ids than there are sets of lanes draws the missing ones, and the
 * rewrite begins again; some are to spare, as an event published meanwhile may make one more
 * set. */
static bool rewrite(struct blocking_conn *conn, struct error *error)
{
        enum { MAX_ROUNDS = 3, SPARE = 100 };

        for (int round = 0; round < MAX_ROUNDS; round++) {
                long long n_missing;

                if (!lock(conn, lock_all_sql, error) || !no_lane_is_owned(conn, error) ||
                    !blocking_conn_run(conn, rebase_sql, error) ||
                    !count_missing_ids(conn, &n_missing, error))
                        return false;
                if (n_missing <= 0)
                        return true;
                if (!draw_ids(conn, n_missing + SPARE, error))
                        return false;
        }
        return error_set(error, ERROR_TEMPORARY,
            "an open transaction is older than the ids that rebase has to write; end all "
            "transactions of the cluster (pg_stat_activity, pg_prepared_xacts), then try "
            "again");
}

/* Writers go on while the frames are checked; before a rewrite the lock is given back, because it
 * is to be taken with that of the outbox, in the order in which others take them. */
static bool make_valid(struct blocking_conn *conn, bool *out_was_rewritten, struct error *error)
{
        if (!lock(conn, lock_cursors_sql, error) || !no_lane_is_owned(conn, error) ||
            !find_need(conn, out_was_rewritten, error))
                return false;
        if (!*out_was_rewritten)
                return blocking_conn_run(conn, name_cluster_sql, error);
        return blocking_conn_run(conn, "ROLLBACK", error) && rewrite(conn, error);
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

        if (make_valid(conn, &result.was_rewritten, error) && read_result(conn, &result, error) &&
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
