/* A dump, restored into another real cluster: the relay refuses it, `rebase` repairs it. */
#include "attach_rig.h"
#include "base/alloc.h"
#include "operator/rebase.h"
#include "pg/blocking_conn.h"
#include "support/postgres.h"
#include "support/reader.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct reader *open_lane(const char *dsn, const char *sink, uint32_t max_in_flight)
{
        return reader_open(
            dsn, &(struct reader_options){
                     .sink = sink, .start = START_BEGINNING, .max_in_flight = max_in_flight});
}

static void publish(const char *dsn, int first, int last)
{
        PGconn *connection = database_connect(dsn);
        char sql[160];

        snprintf(sql, sizeof sql,
            "SELECT count(courier.publish('t', to_json(i))) FROM generate_series(%d, %d) AS i",
            first, last);
        database_exec(connection, sql);
        PQfinish(connection);
}

/* Returns the dsn of the copy, of its superuser. */
static char *dump_and_restore(const char *dsn, struct postgres *other)
{
        char *roles = postgres_new_database(other); /* roles are not in a dump: make them */
        char *copy = postgres_new_empty_database(other);
        char command[1024];

        snprintf(command, sizeof command, "pg_dump -d '%s' | psql -q -v ON_ERROR_STOP=1 -d '%s'",
            dsn, copy);
        cr_assert_eq(
            process_run(
                (const char *const[]){"bash", "-o", "pipefail", "-c", command, NULL}, NULL, false),
            0);
        free(roles);
        return copy;
}

/* A backend notices the end of its session a moment after the client has gone. */
static bool no_session_is_left(void *dsn)
{
        PGconn *connection = database_connect(dsn);
        int64_t n = database_integer(connection,
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1668248946");

        PQfinish(connection);
        return n == 0;
}

static bool run_rebase(const char *dsn, struct rebase_result *result, struct error *error)
{
        struct blocking_conn *conn = blocking_conn_open(
            &(struct blocking_conn_settings){.dsn = dsn, .connect_timeout_ms = 10000}, error);
        bool ok;

        cr_assert_not_null(conn);
        ok = rebase(conn, result, error);
        blocking_conn_close(conn);
        return ok;
}

/* What the lane still gets: from..to, in order. */
static void expect_rest(const char *dsn, const char *sink, int from, int to)
{
        struct reader *reader = open_lane(dsn, sink, 1000);

        cr_assert(reader->is_owned, "%s: %s", sink, reader->refused.text);
        reader_catch_up(reader);
        cr_assert_eq(reader->n_deliveries, (size_t)(to - from + 1), "%s got %zu", sink,
            reader->n_deliveries);
        for (int i = from; i <= to; i++)
                cr_assert_eq(atoi(reader->payloads[i - from]), i);
        reader_close(reader);
}

static void draw_ids(const char *dsn, int n)
{
        char *sql =
            xasprintf("DO $$BEGIN FOR i IN 1 .. %d LOOP PERFORM pg_current_xact_id(); COMMIT; "
                      "END LOOP; END$$",
                n);

        database_exec_once(dsn, sql);
        free(sql);
}

/* The copy's cluster is ahead of the original's, or behind it. */
static void expect_all_to_go_on_in_a_copy(bool is_ahead)
{
        struct postgres *other = postgres_start_distinct();
        char *dsn = postgres_new_database(postgres_shared());
        struct rebase_result result;
        struct error error;
        struct reader *reader;
        char *copy;

        if (!is_ahead)
                draw_ids(dsn, 5000);

        /* all: has everything. some: in the middle of a difference. none: has nothing. */
        publish(dsn, 1, 100);
        reader = open_lane(dsn, "none", 1000);
        reader_close(reader);
        reader = open_lane(dsn, "all", 1000);
        reader_catch_up(reader);
        reader_close(reader);
        reader = open_lane(dsn, "some", 10);
        while (reader->lane.settler.n_settled < 40)
                uv_run(&reader->loop, UV_RUN_ONCE);
        int settled = (int)reader->lane.settler.n_settled;
        reader_close(reader);

        copy = dump_and_restore(dsn, other);
        if (is_ahead)
                draw_ids(copy, 30000);
        reader = open_lane(copy, "all", 1000);
        cr_assert_eq(reader->refused.kind, ERROR_SCHEMA);
        reader_close(reader);
        reader = open_lane(copy, "new", 1000); /* its cursor is of this cluster, the rows are not */
        cr_assert_eq(reader->refused.kind, ERROR_SCHEMA);
        reader_close(reader);
        PGconn *admin = database_connect(copy);
        database_exec(admin, "DELETE FROM courier.cursor WHERE sink = 'new'");
        PQfinish(admin);

        /* Behind, its transaction id is small, and the old snapshots would "see" it. */
        publish(copy, 101, 101);
        wait_until(no_session_is_left, copy, 10000, "the readers' sessions end");
        cr_assert(run_rebase(copy, &result, &error), "%s", error.text);
        cr_assert_eq(result.was_rewritten, !is_ahead);
        cr_assert_eq(result.n_lanes, 3);
        cr_assert_eq(result.lanes[0].n_waiting, 1);
        cr_assert_eq(result.lanes[1].n_waiting, 101);
        cr_assert_eq(result.lanes[2].n_waiting, 101 - settled);
        rebase_result_deinit(&result);
        publish(copy, 102, 105);

        expect_rest(copy, "all", 101, 105);
        expect_rest(copy, "some", settled + 1, 105);
        expect_rest(copy, "none", 1, 105);
        free(copy);
        free(dsn);
        postgres_stop(other);
}

Test(rebase, lets_every_lane_go_on_where_it_stood)
{
        expect_all_to_go_on_in_a_copy(false);
}

Test(rebase, rewrites_nothing_in_a_cluster_that_is_past_all_transaction_ids)
{
        expect_all_to_go_on_in_a_copy(true);
}

/* A copy whose cluster is behind the original's: it draws, or has drawn, ids that frames know. */
static void expect_new_events_to_be_seen(bool are_before_rebase)
{
        struct postgres *other = postgres_start_distinct();
        char *dsn = postgres_new_database(postgres_shared());
        struct rebase_result result;
        struct error error;
        struct reader *reader;
        char *copy;

        draw_ids(dsn, 5000);
        publish(dsn, 1, 10);
        reader = open_lane(dsn, "all", 1000);
        reader_catch_up(reader);
        reader_close(reader);
        copy = dump_and_restore(dsn, other);
        if (are_before_rebase) {
                publish(copy, 11, 11);
                draw_ids(copy, 30000);
        } else { /* no row tells of them, only frames do */
                database_exec_once(copy, "TRUNCATE courier.outbox");
        }
        cr_assert(run_rebase(copy, &result, &error), "%s", error.text);
        cr_expect(result.was_rewritten);
        rebase_result_deinit(&result);
        if (!are_before_rebase)
                publish(copy, 11, 11);
        expect_rest(copy, "all", 11, 11);
        free(copy);
        free(dsn);
        postgres_stop(other);
}

Test(rebase, keeps_no_transaction_ids_that_are_yet_to_be_drawn)
{
        expect_new_events_to_be_seen(false);
}

/* That the cluster is past all of them in the end does not help. */
Test(rebase, keeps_no_transaction_ids_that_were_drawn_since)
{
        expect_new_events_to_be_seen(true);
}

Test(rebase, refuses_while_a_relay_runs)
{
        char *dsn = postgres_new_database(postgres_shared());
        struct reader *reader = open_lane(dsn, "running", 10);
        struct rebase_result result;
        struct error error;

        cr_expect(!run_rebase(dsn, &result, &error));
        cr_expect_eq(error.kind, ERROR_TEMPORARY);
        cr_expect_not_null(strstr(error.text, "running"));
        reader_close(reader);
        free(dsn);
}

/* As many sets of lanes as there are lanes: all stand at places of their own, and name ids that
 * another cluster has drawn. */
static void make_places(const char *dsn, PGconn *admin, int64_t n)
{
        char *sql =
            xasprintf("INSERT INTO courier.cursor (sink, system_identifier, from_snapshot,"
                      "  from_floor, from_xid, until_snapshot, until_floor, until_xid, last_id)"
                      " SELECT 's' || i, system_identifier - 1, '1:1:', 0, '3',"
                      "  pg_current_snapshot(), courier.outbox_floor(), '1000000000', i"
                      " FROM generate_series(1, %lld) AS i, pg_control_system()",
                (long long)n);

        publish(dsn, 1, (int)n);
        database_exec(admin, sql);
        free(sql);
}

/* How many lanes have not behind them what is published now. */
static int64_t count_waiting(PGconn *admin)
{
        database_exec(admin, "SELECT courier.publish('t', '0')");
        return database_integer(admin,
            "SELECT count(*) FROM courier.cursor,"
            " (SELECT txid FROM courier.outbox ORDER BY id DESC LIMIT 1) AS newest"
            " WHERE NOT pg_visible_in_snapshot(txid, from_snapshot) AND txid >= from_xid");
}

Test(rebase, writes_only_transaction_ids_that_were_drawn)
{
        struct postgres *young = postgres_start_distinct();
        char *dsn = postgres_new_database(young);
        PGconn *admin = database_connect(dsn);
        int64_t n = 20 + database_integer(admin, "SELECT pg_current_xact_id()::text::bigint");
        struct rebase_result result;
        struct error error;

        make_places(dsn, admin, n);
        cr_assert(run_rebase(dsn, &result, &error), "%s", error.text);
        cr_expect_eq(result.n_lanes, n);
        rebase_result_deinit(&result);
        cr_expect_eq(count_waiting(admin), n);
        PQfinish(admin);
        free(dsn);
        postgres_stop(young);
}

Test(rebase, waits_for_transactions_whose_ids_it_would_write)
{
        struct postgres *young = postgres_start_distinct();
        char *dsn = postgres_new_database(young);
        PGconn *admin = database_connect(dsn);
        PGconn *old = database_connect(dsn);
        int64_t n = 20 + database_integer(admin, "SELECT pg_current_xact_id()::text::bigint");
        struct rebase_result result;
        struct error error;

        database_exec(old, "BEGIN; SELECT pg_current_xact_id()");
        make_places(dsn, admin, n);
        cr_expect(!run_rebase(dsn, &result, &error));
        cr_expect_eq(error.kind, ERROR_TEMPORARY, "%s", error.text);
        cr_expect_eq(
            database_integer(admin, "SELECT count(*) FROM courier.cursor WHERE epoch > 0"), 0);
        database_exec(old, "COMMIT");
        cr_assert(run_rebase(dsn, &result, &error), "%s", error.text);
        rebase_result_deinit(&result);
        cr_expect_eq(count_waiting(admin), n);
        PQfinish(admin);
        PQfinish(old);
        free(dsn);
        postgres_stop(young);
}

/* No cursor moves, so nothing is to be repaired. */
Test(rebase, is_not_needed_for_taps)
{
        struct attach_rig rig;
        char *copy;
        PGconn *restored;

        attach_rig_begin(&rig,
            "CREATE TABLE outbox (id bigint PRIMARY KEY, topic text, payload jsonb,"
            " processed_at timestamptz)");
        database_exec(rig.owner,
            "SELECT courier.attach('shop.outbox', topic => 'topic', payload => 'payload', "
            "only_if => 'processed_at IS NULL', done_set => "
            "'processed_at = now()')");
        copy = dump_and_restore(rig.database.dsn, postgres_shared());
        restored = database_connect(copy);
        expect_value(
            restored, "SELECT string_agg(state, ' ') FROM courier.check_attachments()", "ok");
        database_exec(
            restored, "INSERT INTO shop.outbox (id, topic, payload) VALUES (1, 't', '1')");
        expect_value(restored, "SELECT count(*) FROM courier.outbox", "1");
        PQfinish(restored);
        free(copy);
        attach_rig_end(&rig);
}
