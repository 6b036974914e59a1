/*
 * The partitions of the outbox against a real server: made ahead, dropped when they are over and
 * no longer needed, and never otherwise. They are ten ids wide here, or some hundreds.
 */
#include "base/alloc.h"
#include "support/history.h"
#include "support/postgres.h"
#include "support/reader.h"
#include "support/relay_process.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct reader_options from_the_beginning = {.start = START_BEGINNING};

/* What courier.maintain() says, each as "action partition", with who holds it or lost how much. */
#define MAINTAIN(arguments)                                                                        \
        "SELECT coalesce(string_agg(action || ' ' || name"                                         \
        " || coalesce(' by ' || array_to_string(held_by, ','), '')"                                \
        " || coalesce(' ' || sink || ':' || events, ''), ', ' ORDER BY lower, action), 'nothing')" \
        " FROM courier.maintain(" arguments ")"
#define DELIVERED_IS_OVER MAINTAIN("'0', '0', 10, 10, 20")
#define ALL_IS_YOUNG      MAINTAIN("'1 hour', '0', 10, 10, 20")

/* Transaction ids are the whole cluster's, in which autovacuum may be at work, too. */
static void await_no_strangers(PGconn *admin)
{
        while (database_integer(admin,
                   "SELECT count(*) FROM pg_stat_activity WHERE backend_xid IS NOT NULL"
                   " AND (datname <> current_database() OR backend_type <> 'client backend')") > 0)
                continue;
}

static void expect_at(int line, PGconn *connection, const char *sql, const char *expected)
{
        char *value;

        await_no_strangers(connection);
        value = database_value(connection, sql);
        cr_expect_str_eq(
            value, expected, "line %d: is \"%s\" and not \"%s\"", line, value, expected);
        free(value);
}
#define expect(connection, sql, expected) expect_at(__LINE__, connection, sql, expected)

/* The first partitions as a migration makes them are too wide for tests. */
static void make_narrow(PGconn *admin, const char *width)
{
        char sql[256];

        snprintf(sql, sizeof sql,
            "DO $$BEGIN EXECUTE (SELECT 'DROP TABLE ' || string_agg('courier.' || name, ', ')"
            "  FROM courier.outbox_partition); END$$;"
            "DELETE FROM courier.outbox_partition;"
            "SELECT courier.maintain('0', '0', %s, %s)",
            width, width);
        database_exec(admin, sql);
}

static struct test_database set_up(void)
{
        struct test_database fixture = test_database_make();

        make_narrow(fixture.admin, "10");
        return fixture;
}

static void publish(PGconn *connection, int n_events)
{
        char sql[256];

        snprintf(sql, sizeof sql,
            "INSERT INTO courier.outbox (topic, payload) SELECT 'test.topic', '1'"
            " FROM generate_series(1, %d)",
            n_events);
        database_exec(connection, sql);
}

/* A sink that begins with the first event, and has had nothing. */
static void begin_sink(const struct test_database *fixture, const char *sink)
{
        reader_close(reader_open(
            fixture->relay, &(struct reader_options){.sink = sink, .start = START_BEGINNING}));
}

static size_t catch_up(const struct test_database *fixture, const char *sink)
{
        struct reader *reader = reader_open(
            fixture->relay, &(struct reader_options){.sink = sink, .start = START_BEGINNING});
        size_t n_deliveries;

        reader_catch_up(reader);
        n_deliveries = reader->n_deliveries;
        reader_close(reader);
        return n_deliveries;
}

/* ---- made ahead --------------------------------------------------------------------------- */

Test(retention, makes_two_partitions_ahead)
{
        struct test_database fixture = set_up();

        expect(fixture.admin, DELIVERED_IS_OVER, "nothing");
        publish(fixture.admin, 1);
        expect(fixture.admin, DELIVERED_IS_OVER, "made outbox_p21");
        expect(fixture.admin, DELIVERED_IS_OVER, "nothing");
        expect(fixture.admin,
            "SELECT string_agg(pg_get_expr(c.relpartbound, c.oid), ', ' ORDER BY c.oid)"
            " FROM pg_class AS c WHERE c.relname LIKE 'outbox\\_p%' AND c.relkind = 'r'"
            " AND c.relispartition",
            "FOR VALUES FROM ('1') TO ('11'), FOR VALUES FROM ('11') TO ('21'),"
            " FOR VALUES FROM ('21') TO ('31')");
        test_database_drop(&fixture);
}

Test(retention, makes_them_as_wide_as_events_come)
{
        struct test_database fixture = set_up();

        publish(fixture.admin, 10);
        /* In an eighth of an hour there would be 750 at this rate; but no more than four times
         * as many as now, lest an hour of them decide about a week. */
        database_exec(fixture.admin, "UPDATE courier.outbox_partition SET began_at = now() - "
                                     "interval '6 s' WHERE lower = 1");
        expect(fixture.admin, MAINTAIN("'1 hour', '0', 10"), "made outbox_p21");
        expect(fixture.admin, "SELECT upper - lower FROM courier.outbox_partition WHERE lower = 21",
            "40");
        database_exec(fixture.admin, "UPDATE courier.outbox_partition SET began_at = now() - "
                                     "interval '200 s' WHERE lower = 1");
        publish(fixture.admin, 1);
        expect(fixture.admin, MAINTAIN("'1 hour', '0', 10"), "made outbox_p61");
        cr_expect_leq(
            labs(database_integer(fixture.admin,
                     "SELECT upper - lower FROM courier.outbox_partition WHERE lower = 61") -
                 23),
            1, "11 in 200 s are 22.5 in 450 s");
        test_database_drop(&fixture);
}

Test(retention, takes_events_that_no_partition_was_made_for)
{
        struct test_database fixture = set_up();

        publish(fixture.admin, 35);
        expect(fixture.admin, "SELECT count(*) FROM courier.outbox_default", "15");
        begin_sink(&fixture, "test");
        expect(fixture.admin, ALL_IS_YOUNG, "made outbox_p21, made outbox_p36, made outbox_p46");
        expect(fixture.admin, "SELECT count(*) FROM courier.outbox_default", "0");
        expect(fixture.admin, "SELECT count(*) FROM courier.outbox_p21", "15");
        cr_expect_eq(catch_up(&fixture, "test"), 35);
        expect(fixture.admin, DELIVERED_IS_OVER,
            "dropped outbox_p1, dropped outbox_p11, dropped outbox_p21");
        publish(fixture.admin, 30);
        expect(fixture.admin, "SELECT count(*) FROM courier.outbox_default", "10");
        cr_expect_eq(catch_up(&fixture, "test"), 30);
        test_database_drop(&fixture);
}

Test(retention, leaves_events_alone_whose_ids_were_chosen_by_hand)
{
        struct test_database fixture = set_up();

        database_exec(fixture.admin, "INSERT INTO courier.outbox (id, topic, payload)"
                                     " OVERRIDING SYSTEM VALUE VALUES (-5, 'a', '1')");
        publish(fixture.admin, 25);
        expect(
            fixture.admin, ALL_IS_YOUNG, "made outbox_p26, made outbox_p36, stray outbox_default");
        expect(fixture.admin, "SELECT count(*) FROM courier.outbox", "26");
        test_database_drop(&fixture);
}

/* ---- dropped ------------------------------------------------------------------------------ */

Test(retention, drops_an_old_partition_that_every_sink_has_had)
{
        struct test_database fixture = set_up();

        publish(fixture.admin, 15);
        cr_expect_eq(catch_up(&fixture, "test"), 15);
        expect(fixture.admin, ALL_IS_YOUNG, "made outbox_p21, made outbox_p31");
        database_exec(fixture.admin,
            "UPDATE courier.outbox_partition SET closed_at = closed_at - interval '59 min'");
        expect(fixture.admin, ALL_IS_YOUNG, "nothing");
        database_exec(fixture.admin,
            "UPDATE courier.outbox_partition SET closed_at = closed_at - interval '1 min'");
        expect(fixture.admin, ALL_IS_YOUNG, "dropped outbox_p1");
        expect(fixture.admin, "SELECT string_agg(id::text, ' ' ORDER BY id) FROM courier.outbox",
            "11 12 13 14 15");
        test_database_drop(&fixture);
}

Test(retention, drops_only_partitions_that_are_full)
{
        struct test_database fixture = set_up();

        publish(fixture.admin, 9);
        (void)catch_up(&fixture, "test");
        expect(fixture.admin, DELIVERED_IS_OVER, "made outbox_p21");
        publish(fixture.admin, 1);
        (void)catch_up(&fixture, "test");
        expect(fixture.admin, DELIVERED_IS_OVER, "dropped outbox_p1");
        test_database_drop(&fixture);
}

Test(retention, keeps_a_partition_that_one_sink_has_not_had)
{
        struct test_database fixture = set_up();

        begin_sink(&fixture, "slow");
        publish(fixture.admin, 20);
        cr_expect_eq(catch_up(&fixture, "fast"), 20);
        expect(fixture.admin, DELIVERED_IS_OVER,
            "held outbox_p1 by slow, held outbox_p11 by slow, made outbox_p21, made outbox_p31");
        expect(fixture.admin,
            "SELECT string_agg(name || ' ' || held_by[1] || ' ' || (held_since <= now()), ',')"
            " FROM courier.retention WHERE held_by IS NOT NULL",
            "outbox_p1 slow true,outbox_p11 slow true");
        cr_expect_eq(catch_up(&fixture, "slow"), 20);
        expect(fixture.admin, DELIVERED_IS_OVER, "dropped outbox_p1, dropped outbox_p11");
        test_database_drop(&fixture);
}

Test(retention, keeps_a_partition_whose_events_commit_late)
{
        struct test_database fixture = set_up();
        PGconn *late = database_connect(fixture.app);

        publish(fixture.admin, 3);
        database_exec(late, "BEGIN");
        publish(late, 1);
        publish(fixture.admin, 15);
        cr_expect_eq(catch_up(&fixture, "test"), 18);
        expect(fixture.admin, DELIVERED_IS_OVER,
            "held outbox_p1 by a transaction that has not ended, waits outbox");
        publish(fixture.admin, 1);
        cr_expect_eq(catch_up(&fixture, "test"), 1); /* its snapshot is newer than the look at p1 */
        database_exec(late, "COMMIT");
        expect(fixture.admin, DELIVERED_IS_OVER,
            "held outbox_p1 by test, dropped outbox_p11, made outbox_p21, made outbox_p31");
        cr_expect_eq(catch_up(&fixture, "test"), 1);
        expect(fixture.admin, DELIVERED_IS_OVER, "dropped outbox_p1");
        PQfinish(late);
        test_database_drop(&fixture);
}

/* The cursor's snapshot neither shows nor lists a transaction that began after the last one
 * ended. */
Test(retention, keeps_events_of_a_transaction_that_no_snapshot_lists)
{
        struct test_database fixture = set_up();
        PGconn *late = database_connect(fixture.app);

        publish(fixture.admin, 9);
        cr_expect_eq(catch_up(&fixture, "test"), 9);
        database_exec(late, "BEGIN");
        publish(late, 1);
        expect(fixture.admin, DELIVERED_IS_OVER,
            "held outbox_p1 by a transaction that has not ended, waits outbox");
        database_exec(late, "COMMIT");
        expect(fixture.admin, DELIVERED_IS_OVER, "held outbox_p1 by test, made outbox_p21");
        cr_expect_eq(catch_up(&fixture, "test"), 1);
        expect(fixture.admin, DELIVERED_IS_OVER, "dropped outbox_p1");
        PQfinish(late);
        test_database_drop(&fixture);
}

/* The row of a receiver says from where on it needs the log before other sessions can see that
 * row. */
Test(retention, keeps_events_that_an_uncommitted_receiver_needs)
{
        struct test_database fixture = set_up();
        PGconn *late = database_connect(fixture.app);
        PGconn *owner = database_connect(fixture.dsn);

        publish(fixture.admin, 3);
        database_exec(late, "BEGIN");
        publish(late, 1);
        publish(fixture.admin, 15);
        expect(fixture.admin, DELIVERED_IS_OVER,
            "held outbox_p1 by a transaction that has not ended, waits outbox");
        database_exec(owner, "BEGIN; INSERT INTO courier.receiver (sink, name, url)"
                             " VALUES ('hooks', 'acme', 'https://acme.example/')");
        database_exec(late, "COMMIT");
        expect(fixture.admin, DELIVERED_IS_OVER,
            "held outbox_p1 by a transaction that has changed receivers or cursors,"
            " made outbox_p21, made outbox_p31");
        database_exec(owner, "COMMIT");
        expect(fixture.admin, DELIVERED_IS_OVER, "held outbox_p1 by hooks/1");
        PQfinish(late);
        PQfinish(owner);
        test_database_drop(&fixture);
}

/* Not even for a moment longer than it takes to see that no session has changed any. */
Test(retention, does_not_block_a_session_that_adds_a_receiver)
{
        struct test_database fixture = set_up();

        publish(fixture.admin, 15);
        database_exec(fixture.admin, "BEGIN");
        database_exec(fixture.admin, "SELECT courier.maintain('0', '0', 10, 10, 20)");
        expect(fixture.admin,
            "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'ShareLock'"
            " AND relation IN ('courier.receiver'::regclass, 'courier.cursor'::regclass)",
            "0");
        database_exec(fixture.admin, "COMMIT");
        test_database_drop(&fixture);
}

Test(retention, is_not_held_by_a_sink_that_takes_no_event)
{
        static char other[] = "other";
        static char *const topics[] = {other};
        struct test_database fixture = set_up();
        struct reader *reader = reader_open(
            fixture.relay, &(struct reader_options){.routing = {.topics = topics, .n_topics = 1},
                               .start = START_BEGINNING});

        publish(fixture.admin, 15);
        reader_catch_up(reader);
        cr_expect_eq(reader->n_deliveries, 0);
        expect(fixture.admin, DELIVERED_IS_OVER,
            "dropped outbox_p1, made outbox_p21, made outbox_p31");
        publish(fixture.admin, 10);
        expect(fixture.admin, DELIVERED_IS_OVER, "held outbox_p11 by test, made outbox_p41");
        reader_close(reader);
        test_database_drop(&fixture);
}

struct delivered {
        struct reader *reader;
        size_t n;
};

static bool has_delivered(void *context)
{
        struct delivered *delivered = context;

        return delivered->reader->n_deliveries >= delivered->n;
}

Test(retention, goes_by_the_place_in_an_open_difference)
{
        struct test_database fixture = set_up();
        struct reader *reader;

        publish(fixture.admin, 45);
        database_exec(fixture.admin, ALL_IS_YOUNG); /* and all of them full, before it is opened */
        database_exec(fixture.admin, ALL_IS_YOUNG);
        reader = reader_open(
            fixture.relay, &(struct reader_options){.start = START_BEGINNING, .max_in_flight = 8});
        reader_follow(reader, has_delivered, &(struct delivered){reader, 24});
        reader_close(reader);
        expect(fixture.admin,
            "SELECT until_snapshot IS NOT NULL AND last_id BETWEEN 10 AND 29 FROM courier.cursor",
            "t");
        database_exec(fixture.admin, DELIVERED_IS_OVER);
        expect(fixture.admin, "SELECT count(*) FROM courier.outbox WHERE id <= 10", "0");
        expect(fixture.admin,
            "SELECT count(*) = 45 - last_id FROM courier.outbox, courier.cursor WHERE id > last_id"
            " GROUP BY last_id",
            "t");
        test_database_drop(&fixture);
}

Test(retention, keeps_parked_rows_and_dead_letters)
{
        struct test_database fixture = set_up();

        publish(fixture.admin, 15);
        (void)catch_up(&fixture, "test");
        database_exec(fixture.admin,
            "INSERT INTO courier.parked (sink, lane, outbox_id, state, due_at, event_id, topic, "
            "payload, created_at)"
            " SELECT 'test', 0, id, 'retry', 'infinity', event_id, topic, payload, created_at"
            " FROM courier.outbox WHERE id = 1;"
            "INSERT INTO courier.dead_letter (sink, lane, outbox_id, reason, attempts, error, "
            "event_id, topic, payload, created_at)"
            " SELECT 'test', 0, id, 'rejected', 1, 'no', event_id, topic, payload, created_at"
            " FROM courier.outbox WHERE id = 2");
        expect(fixture.admin, DELIVERED_IS_OVER,
            "dropped outbox_p1, made outbox_p21, made outbox_p31");
        expect(fixture.admin,
            "SELECT (SELECT count(*) FROM courier.parked) + (SELECT count(*) FROM "
            "courier.dead_letter)",
            "2");
        test_database_drop(&fixture);
}

Test(retention, is_held_by_cursors_of_another_cluster)
{
        struct test_database fixture = set_up();

        publish(fixture.admin, 15);
        (void)catch_up(&fixture, "test");
        database_exec(fixture.admin, "UPDATE courier.cursor SET system_identifier = 1");
        expect(fixture.admin, DELIVERED_IS_OVER,
            "held outbox_p1 by test, made outbox_p21, made outbox_p31");
        test_database_drop(&fixture);
}

/* ---- receivers ---------------------------------------------------------------------------- */

Test(retention, is_held_by_receivers_but_not_by_their_owner_lane)
{
        struct test_database fixture = set_up();
        struct relay_process *relay =
            relay_start("postgres: {dsn: \"%s\"}\nsinks:\n  - name: hooks\n    topics: [\"**\"]\n"
                        "    http: {receivers: table}\n",
                fixture.relay);

        relay_wait_for_log(relay, "event=receivers_read", 30000);
        relay_stop(relay);
        relay_destroy(relay);
        database_await_no_relay(fixture.admin); /* its maintenance makes others return at once */
        database_exec(fixture.admin,
            "INSERT INTO courier.receiver (sink, name, url, topics, state) VALUES"
            " ('hooks', 'new', 'https://a.example/', '{**}', 'disabled')");
        publish(fixture.admin, 20);
        expect(fixture.admin, DELIVERED_IS_OVER,
            "held outbox_p1 by hooks/1, held outbox_p11 by hooks/1, made outbox_p21, made "
            "outbox_p31");
        database_exec(fixture.admin, "DELETE FROM courier.receiver");
        expect(fixture.admin, DELIVERED_IS_OVER, "dropped outbox_p1, dropped outbox_p11");
        test_database_drop(&fixture);
}

/* ---- the emergency brake ------------------------------------------------------------------ */

Test(retention, drops_at_its_limit_events_that_a_sink_has_not_had_and_counts_them)
{
        struct test_database fixture = set_up();

        publish(fixture.admin, 4);
        (void)catch_up(&fixture, "slow");
        publish(fixture.admin, 16);
        (void)catch_up(&fixture, "fast");
        expect(fixture.admin, MAINTAIN("'0', '1 hour', 10, 10"),
            "held outbox_p1 by slow, held outbox_p11 by slow, made outbox_p21, made outbox_p31");
        database_exec(fixture.admin, "UPDATE courier.outbox_partition SET closed_at = closed_at - "
                                     "interval '1 hour' WHERE lower = 1");
        expect(fixture.admin, MAINTAIN("'0', '1 hour', 10, 10"),
            "dropped outbox_p1, lost outbox_p1 slow:6, held outbox_p11 by slow");
        expect(fixture.admin,
            "SELECT string_agg(concat_ws(' ', sink, lane, partition, lower, upper, events), ',')"
            " FROM courier.outbox_loss",
            "slow 0 outbox_p1 1 11 6");
        cr_expect_eq(catch_up(&fixture, "slow"), 10);
        test_database_drop(&fixture);
}

Test(retention, refuses_settings_that_contradict_each_other)
{
        struct test_database fixture = set_up();
        PGresult *result = PQexec(fixture.admin, "SELECT courier.maintain('2 days', '1 day')");

        cr_expect_str_eq(PQresultErrorField(result, PG_DIAG_SQLSTATE), "22023");
        PQclear(result);
        test_database_drop(&fixture);
}

/* ---- beside others ------------------------------------------------------------------------ */

Test(retention, does_not_wait_long_for_sessions_that_use_the_outbox)
{
        struct test_database fixture = set_up();
        PGconn *writer = database_connect(fixture.app);
        PGconn *backup = database_connect(fixture.dsn);

        publish(fixture.admin, 15);
        (void)catch_up(&fixture, "test");
        database_exec(fixture.admin, ALL_IS_YOUNG);
        database_exec(backup, "BEGIN; SELECT count(*) FROM courier.outbox");
        expect(fixture.admin, DELIVERED_IS_OVER, "waits outbox");
        database_exec(backup, "COMMIT");
        database_exec(writer, "BEGIN");
        publish(writer, 1);
        /* A writer is not in the way of emptying what it does not write to. */
        expect(fixture.admin, DELIVERED_IS_OVER, "emptied outbox_p1, waits outbox");
        expect(fixture.admin, DELIVERED_IS_OVER, "waits outbox");
        publish(fixture.admin, 1);
        database_exec(writer, "COMMIT");
        expect(fixture.admin, DELIVERED_IS_OVER, "dropped outbox_p1");
        expect(fixture.admin, "SELECT count(*) FROM courier.outbox", "7");
        PQfinish(backup);
        PQfinish(writer);
        test_database_drop(&fixture);
}

Test(retention, makes_partitions_beside_transactions_that_stay_open)
{
        struct test_database fixture = set_up();
        PGconn *writer = database_connect(fixture.app);

        database_exec(writer, "BEGIN");
        publish(writer, 1);
        expect(fixture.admin, DELIVERED_IS_OVER, "waits outbox");
        database_exec(fixture.admin,
            "UPDATE courier.outbox_partition SET began_at = now() - interval '10 min'"
            " WHERE lower = 1"); /* one in ten minutes: twenty are three hours */
        expect(fixture.admin, DELIVERED_IS_OVER, "made outbox_p21");
        publish(writer, 25);
        database_exec(writer, "COMMIT");
        expect(fixture.admin, "SELECT count(*) FROM courier.outbox_p21", "6");
        PQfinish(writer);
        test_database_drop(&fixture);
}

/* A statement goes on with the partitions that it knew when it began: one that were made meanwhile,
 * for ids that it is still to draw, would make it fail. */
Test(retention, makes_no_partition_under_a_statement)
{
        struct test_database fixture = set_up();
        PGconn *bulk = database_connect(fixture.app);
        PGresult *result;

        database_exec(fixture.admin, "SELECT pg_advisory_lock(1)");
        cr_assert(
            PQsendQuery(bulk, "INSERT INTO courier.outbox (topic, payload) SELECT 'bulk', '1' FROM "
                              "generate_series(1, 100) AS n"
                              " WHERE n <> 15 OR pg_advisory_xact_lock_shared(1)::text = ''"));
        while (
            database_integer(fixture.admin,
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == 0)
                continue;
        expect(fixture.admin, DELIVERED_IS_OVER,
            "held outbox_p1 by a transaction that has not ended, waits outbox");
        database_exec(fixture.admin, "SELECT pg_advisory_unlock(1)");
        result = PQgetResult(bulk);
        cr_expect_eq(PQresultStatus(result), PGRES_COMMAND_OK, "%s", PQresultErrorMessage(result));
        PQclear(result);
        PQfinish(bulk);
        database_exec(fixture.admin, DELIVERED_IS_OVER);
        expect(fixture.admin, "SELECT count(*) FROM courier.outbox_default", "0");
        test_database_drop(&fixture);
}

Test(retention, is_done_by_one_session_at_a_time)
{
        struct test_database fixture = set_up();
        PGconn *other = database_connect(fixture.relay);

        publish(fixture.admin, 1);
        database_exec(other, "BEGIN");
        expect(other, DELIVERED_IS_OVER, "made outbox_p21");
        expect(fixture.admin, DELIVERED_IS_OVER, "nothing");
        database_exec(other, "ROLLBACK");
        expect(fixture.admin, DELIVERED_IS_OVER, "made outbox_p21");
        PQfinish(other);
        test_database_drop(&fixture);
}

static void expect_denied(PGconn *connection, const char *sql)
{
        PGresult *result = PQexec(connection, sql);

        cr_expect_str_eq(PQresultErrorField(result, PG_DIAG_SQLSTATE) != NULL
                             ? PQresultErrorField(result, PG_DIAG_SQLSTATE)
                             : "no error",
            "42501", "%s", sql);
        PQclear(result);
}

Test(retention, is_allowed_to_a_relay_and_not_to_a_publisher)
{
        struct test_database fixture = set_up();
        PGconn *app = database_connect(fixture.app);
        PGconn *relay = database_connect(fixture.relay);

        publish(fixture.admin, 11);
        expect(relay, DELIVERED_IS_OVER, "dropped outbox_p1, made outbox_p21, made outbox_p31");
        expect(relay, "SELECT count(*) FROM courier.retention", "4");
        expect_denied(relay, "DROP TABLE courier.outbox_p11");
        expect_denied(relay, "TRUNCATE courier.outbox_p11");
        expect_denied(relay, "DELETE FROM courier.outbox");
        expect_denied(relay, "UPDATE courier.outbox_partition SET closed_xid = '3'");
        expect_denied(relay, "SELECT courier.outbox_close_partitions()");
        expect_denied(app, "SELECT courier.maintain()");
        expect_denied(app, "INSERT INTO courier.outbox_p11 (topic, payload) VALUES ('a', '1')");
        PQfinish(app);
        PQfinish(relay);
        test_database_drop(&fixture);
}

/* ---- the relay ---------------------------------------------------------------------------- */

#define TWO_ROUNDS_MS 60000 /* the lock for a drop may not be had in the first */

static bool has_had_the_first(void *admin)
{
        return database_integer(admin,
                   "SELECT count(*) FROM courier.cursor WHERE sink = 'out' AND NOT EXISTS"
                   " (SELECT FROM courier.outbox_partition AS p,"
                   "  courier.outbox_holders(p, false) AS holder"
                   "  WHERE p.name = 'outbox_p1' AND holder.sink = 'out')") == 1;
}

Test(retention, is_done_by_the_relay)
{
        struct test_database fixture = set_up();
        struct relay_process *relay;

        begin_sink(&fixture, "slow"); /* or the first round might already drop what was delivered */
        publish(fixture.admin, 15);
        relay =
            relay_start("postgres: {dsn: \"%s\"}\noutbox: {retention: 0}\n"
                        "sinks:\n  - {name: out, topics: [\"**\"], start: beginning, stdout: {}}\n",
                fixture.relay);
        relay_wait_for_log(
            relay, "event=partition_made partition=outbox_p21 first_id=21", TWO_ROUNDS_MS);
        wait_until(has_had_the_first, fixture.admin, 30000, "its events are not settled");
        relay_stop(relay);
        expect(fixture.admin, "SELECT count(*) FROM courier.outbox WHERE id <= 10", "10");
        database_exec(fixture.admin, "DELETE FROM courier.cursor WHERE sink = 'slow'");
        relay_start_again(relay);
        relay_wait_for_log(relay,
            "event=partition_dropped partition=outbox_p1 first_id=1 last_id=10 bytes=",
            TWO_ROUNDS_MS);
        relay_stop(relay);
        relay_destroy(relay);
        test_database_drop(&fixture);
}

Test(retention, logs_what_holds_a_partition_and_which_events_were_lost)
{
        struct test_database fixture = set_up();
        struct relay_process *relay;

        begin_sink(&fixture, "gone");
        publish(fixture.admin, 15);
        database_exec(fixture.admin, DELIVERED_IS_OVER);
        relay = relay_start("postgres: {dsn: \"%s\"}\noutbox: {retention: 0, retention_max: 1h}\n"
                            "sinks:\n  - {name: out, topics: [\"**\"], stdout: {}}\n",
            fixture.relay);
        relay_wait_for_log(
            relay, "level=warn event=retention_held partition=outbox_p1 bytes=", TWO_ROUNDS_MS);
        relay_wait_for_log(relay, "by=gone", TWO_ROUNDS_MS);
        relay_stop(relay);
        database_exec(fixture.admin,
            "UPDATE courier.outbox_partition SET closed_at = closed_at - interval '2 hours'");
        relay_start_again(relay);
        relay_wait_for_log(relay,
            "level=error event=events_lost sink=gone events=10 first_id=1 last_id=10",
            TWO_ROUNDS_MS);
        relay_stop(relay);
        relay_destroy(relay);
        test_database_drop(&fixture);
}

/* ---- sixteen writers ---------------------------------------------------------------------- */

struct hurry {
        const char *dsn;
        atomic_bool is_over;
        unsigned n_dropped;
};

static void *maintain_all_the_time(void *argument)
{
        struct hurry *hurry = argument;
        PGconn *connection = database_connect(hurry->dsn);

        while (!hurry->is_over)
                hurry->n_dropped += (unsigned)database_integer(connection,
                    "SELECT count(*) FROM courier.maintain('0', '0', 300, 300, 50)"
                    " WHERE action IN ('dropped', 'emptied')");
        PQfinish(connection);
        return NULL;
}

Test(retention, loses_nothing_of_sixteen_writers)
{
        struct test_database fixture = set_up();
        struct hurry hurry = {.dsn = fixture.relay};
        struct history history = {0};
        struct filter_result verdict;
        struct writers *writers;
        struct reader *reader = reader_open(fixture.relay, &from_the_beginning);
        pthread_t thread;

        make_narrow(fixture.admin, "300"); /* no statement of theirs writes as much */
        pthread_create(&thread, NULL, maintain_all_the_time, &hurry);
        writers = writers_start(fixture.app,
            &(struct writer_options){.n_writers = 16, .n_transactions = 200, .seed = 6});
        reader_follow(reader, writers_have_ended, writers);
        writers_stop(writers);
        reader_catch_up(reader);
        hurry.is_over = true;
        pthread_join(thread, NULL);

        cr_expect_gt(hurry.n_dropped, 10, "%u were dropped", hurry.n_dropped);
        for (size_t i = 0; i < reader->n_deliveries; i++)
                history_note(&history, reader->payloads[i]);
        verdict = history_judge(&history, writers);
        cr_expect_eq(verdict.n_lost, 0, "%zu were lost", verdict.n_lost);
        cr_expect_eq(verdict.n_repeated, 0, "%zu came twice", verdict.n_repeated);
        cr_expect_eq(verdict.n_misordered, 0, "%zu out of order", verdict.n_misordered);
        cr_expect_eq(verdict.n_uncommitted, 0, "%zu were never committed", verdict.n_uncommitted);
        cr_expect_str_empty(verdict.first_fault);
        history_deinit(&history);
        writers_destroy(writers);
        reader_close(reader);
        test_database_drop(&fixture);
}
