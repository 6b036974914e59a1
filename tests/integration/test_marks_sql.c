/*
 * courier.mark() against a real server, called by the test, with lanes that the test moves: what it
 * may mark and what it must, whatever transactions, lanes and the application's tables do.
 */
#include "base/alloc.h"
#include "support/attached_table.h"
#include "support/postgres.h"
#include "support/postgres_expect.h"
#include "support/process.h"
#include "support/shards.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* lane_open(): takes a frame of now; lane_draw() draws its id and opens a difference up to it, as
 * relays do, who write no cursor before. */
static const char lanes_sql[] =
    "CREATE TABLE lane_frame (sink text PRIMARY KEY, snapshot pg_snapshot, floor bigint);"
    "CREATE FUNCTION lane_make(name text) RETURNS void LANGUAGE sql AS $$"
    "  INSERT INTO courier.cursor (sink, system_identifier, from_snapshot, from_floor, from_xid)"
    "  SELECT name, system_identifier, '1:1:', 0, '3' FROM pg_control_system() $$;"
    "CREATE FUNCTION lane_open(name text) RETURNS void LANGUAGE sql AS $$"
    "  INSERT INTO lane_frame SELECT name, now.s, now.f"
    "  FROM (SELECT pg_current_snapshot() AS s, courier.outbox_floor() AS f OFFSET 0) AS now"
    "  WHERE EXISTS (SELECT FROM courier.cursor WHERE sink = name AND until_snapshot IS NULL)"
    "  ON CONFLICT DO NOTHING $$;"
    "CREATE FUNCTION lane_draw(name text) RETURNS void LANGUAGE sql AS $$"
    "  WITH frame AS (DELETE FROM lane_frame WHERE sink = name RETURNING *)"
    "  UPDATE courier.cursor AS c SET until_snapshot = snapshot, until_floor = floor,"
    "    until_xid = pg_current_xact_id(), last_id = 0, settled_at = clock_timestamp()"
    "  FROM frame WHERE c.sink = frame.sink $$;"
    "CREATE FUNCTION lane_go(name text, id bigint) RETURNS void LANGUAGE sql AS $$"
    "  UPDATE courier.cursor SET last_id = least(until_floor, greatest(last_id, id)),"
    "    settled_at = clock_timestamp()"
    "  WHERE sink = name AND until_snapshot IS NOT NULL $$;"
    "CREATE FUNCTION lane_close(name text) RETURNS void LANGUAGE sql AS $$"
    "  UPDATE courier.cursor SET from_snapshot = until_snapshot, from_floor = until_floor,"
    "    from_xid = until_xid, until_snapshot = NULL, until_floor = NULL, until_xid = NULL,"
    "    last_id = 0, settled_at = clock_timestamp()"
    "  WHERE sink = name AND until_snapshot IS NOT NULL AND last_id >= until_floor $$;";

struct fixture {
        struct test_database database;
        PGconn *admin;
        PGconn *relay;
        PGconn *app;
};

static struct fixture begin(void)
{
        struct fixture fixture = {.database = test_database_make()};

        fixture.admin = fixture.database.admin;
        fixture.relay = database_connect(fixture.database.relay);
        fixture.app = database_connect(fixture.database.dsn);
        database_exec(fixture.admin, lanes_sql);
        database_exec(fixture.relay,
            "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;"
            "SET enable_bitmapscan = off; SET lock_timeout = '100ms'");
        return fixture;
}

static void end(struct fixture *fixture)
{
        PQfinish(fixture->relay);
        PQfinish(fixture->app);
        test_database_drop(&fixture->database);
}

static void on_lane(struct fixture *fixture, const char *verb, const char *sink)
{
        char *sql = xasprintf("SELECT lane_%s('%s')", verb, sink);

        database_exec(fixture->admin, sql);
        free(sql);
}

static void make_lane(struct fixture *fixture, const char *sink)
{
        on_lane(fixture, "make", sink);
}

/* It has passed everything that is committed. */
static void pass(struct fixture *fixture, const char *sink)
{
        char *sql =
            xasprintf("SELECT lane_go('%s', 1000000); SELECT lane_close('%s');", sink, sink);

        for (int i = 0; i < 3; i++) { /* what is open, a frame that was taken, and all else */
                database_exec(fixture->admin, sql);
                on_lane(fixture, "open", sink);
                on_lane(fixture, "draw", sink);
        }
        database_exec(fixture->admin, sql);
        free(sql);
}

#define MARK "SELECT marked || ' ' || put_off || ' ' || failed || ' ' || dead FROM courier.mark()"

/* marked, put_off, failed, dead */
static void expect_mark(struct fixture *fixture, const char *expected)
{
        expect_value(fixture->relay, MARK, expected);
}

#define IS_DONE "processed_at IS NOT NULL"

static void expect_done(struct fixture *fixture, const char *name, int n_rows)
{
        cr_expect_eq(attached_table_count(fixture->admin, name, IS_DONE), n_rows);
}

Test(marks_sql, marks_what_all_lanes_have_passed)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        make_lane(&fixture, "bus");
        make_lane(&fixture, "slow");
        attached_table_insert(fixture.app, "orders", 3);
        expect_mark(&fixture, "0 0 0 0");
        pass(&fixture, "bus");
        expect_mark(&fixture, "0 3 0 0");
        expect_done(&fixture, "orders", 0);
        expect_value(fixture.admin,
            "SELECT string_agg(state || ' ' || sink || ' ' || lane, ', ') FROM courier.unmarked",
            "behind slow 0, behind slow 0, behind slow 0");
        expect_mark(&fixture, "0 0 0 0");
        pass(&fixture, "slow");
        expect_mark(&fixture, "3 0 0 0");
        expect_done(&fixture, "orders", 3);
        expect_value(fixture.admin, "SELECT count(*) FROM courier.unmarked", "0");
        expect_value(fixture.admin, "SELECT count(*) FROM shop.orders WHERE note = 'a'", "3");
        end(&fixture);
}

Test(marks_sql, says_when_there_is_no_more)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        make_lane(&fixture, "bus");
        attached_table_insert(fixture.app, "orders", 2);
        pass(&fixture, "bus");
        expect_value(fixture.relay, "SELECT marked || ' ' || more FROM courier.mark(1)", "1 true");
        expect_value(fixture.relay, "SELECT marked || ' ' || more FROM courier.mark(1)", "1 false");
        expect_value(fixture.relay, "SELECT marked || ' ' || more FROM courier.mark(1)", "0 false");
        end(&fixture);
}

/* Or the marker asks again at once, for ever. */
Test(marks_sql, is_not_due_while_nothing_waits)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        make_lane(&fixture, "bus");
        attached_table_insert(fixture.app, "orders", 1);
        pass(&fixture, "bus");
        expect_mark(&fixture, "1 0 0 0");
        expect_value(fixture.admin,
            "SELECT more || ' ' || (next_due_ms IS NULL) FROM courier.mark(100)", "false true");
        end(&fixture);
}

Test(marks_sql, follows_a_lane_through_an_open_difference)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        make_lane(&fixture, "bus");
        attached_table_insert(fixture.app, "orders", 10);
        on_lane(&fixture, "open", "bus");
        on_lane(&fixture, "draw", "bus");
        expect_mark(&fixture, "0 0 0 0");
        database_exec(fixture.admin, "SELECT lane_go('bus', 4)");
        expect_mark(&fixture, "4 0 0 0");
        database_exec(fixture.admin, "SELECT lane_go('bus', 9)");
        expect_mark(&fixture, "5 0 0 0");
        pass(&fixture, "bus");
        expect_mark(&fixture, "1 0 0 0");
        end(&fixture);
}

/* A snapshot's xmax is the last completed transaction plus one: what runs from there on is in no
 * list. */
Test(marks_sql, reads_what_the_xmax_of_a_snapshot_hid)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        make_lane(&fixture, "bus");
        database_exec(fixture.app, "BEGIN");
        attached_table_insert(fixture.app, "orders", 2);
        on_lane(&fixture, "open", "bus"); /* once: the next one sees that later ones completed */
        on_lane(&fixture, "draw", "bus");
        database_exec(fixture.admin, "SELECT lane_go('bus', 10); SELECT lane_close('bus')");
        expect_mark(&fixture, "0 0 0 0");
        expect_value(fixture.admin,
            "SELECT from_floor FROM courier.cursor WHERE sink = 'courier.marks'", "2");
        database_exec(fixture.app, "COMMIT");
        pass(&fixture, "bus");
        expect_mark(&fixture, "2 0 0 0");
        end(&fixture);
}

/* The frame of a lane that drew its id late is not newer for that. */
Test(marks_sql, goes_back_to_no_older_frame)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        make_lane(&fixture, "bus");
        make_lane(&fixture, "mail");
        database_exec(
            fixture.admin, "SELECT courier.note_sink('mail', false, '{}', '{mail.**}', '{}')");
        database_exec(fixture.app, "BEGIN");
        attached_table_insert(fixture.app, "orders", 1);
        on_lane(&fixture, "open", "mail");
        database_exec(fixture.app, "COMMIT");
        pass(&fixture, "bus");
        expect_mark(&fixture, "1 0 0 0");
        on_lane(&fixture, "draw", "mail");
        database_exec(fixture.admin, "SELECT lane_go('mail', 10); SELECT lane_close('mail')");
        expect_mark(&fixture, "0 0 0 0");
        pass(&fixture, "bus");
        expect_mark(&fixture, "0 0 0 0");
        expect_value(fixture.admin, "SELECT count(*) FROM courier_tap.marked", "1");
        end(&fixture);
}

Test(marks_sql, asks_only_lanes_that_take_the_event)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        make_lane(&fixture, "bus");
        make_lane(&fixture, "mail");
        make_lane(&fixture, "new");
        pass(&fixture, "new"); /* not noted: it may take anything, so it has to pass */
        database_exec(fixture.admin,
            "SELECT courier.note_sink('mail', false, '{}', '{mail.**,\"!orders.**\"}', '{}')");
        attached_table_insert(fixture.app, "orders", 2);
        pass(&fixture, "bus");
        expect_mark(&fixture, "0 2 0 0");
        pass(&fixture, "new");
        expect_mark(&fixture, "2 0 0 0");
        end(&fixture);
}

Test(marks_sql, asks_receivers_by_their_own_patterns_and_the_sinks)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        make_lane(&fixture, "bus");
        database_exec(fixture.admin, "SELECT courier.note_sink('hooks', true, '{}', '{**}', '{}');"
                                     "INSERT INTO courier.receiver (sink, name, url, topics) VALUES"
                                     " ('hooks', 'a', 'http://a/', '{refunds.*}'), ('hooks', 'b', "
                                     "'http://b/', '{orders.*}')");
        attached_table_insert(fixture.app, "orders", 2);
        pass(&fixture, "bus");
        expect_mark(&fixture, "0 2 0 0"); /* b was never served, but waits for them */
        expect_value(
            fixture.admin, "SELECT string_agg(lane::text, ' ') FROM courier.unmarked", "2 2");
        database_exec(fixture.admin, "DELETE FROM courier.receiver WHERE name = 'b'");
        expect_mark(&fixture, "2 0 0 0");
        end(&fixture);
}

/* marked, put_off: as many as these two count. */
static void expect_mark_of(struct fixture *fixture, const char *marked, const char *put_off)
{
        char *sql = xasprintf("SELECT (%s) || ' ' || (%s) || ' 0 0'", marked, put_off);
        char *expected = database_value(fixture->admin, sql);

        expect_mark(fixture, expected);
        free(expected);
        free(sql);
}

#define EVENTS "SELECT count(*) FROM shard_event WHERE "

Test(marks_sql, asks_the_shard_of_the_events_key)
{
        struct fixture fixture = begin();

        database_exec(fixture.admin, shards_sql);
        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        database_exec(fixture.admin, "SELECT courier.agree_shards('bus', 3, false, false, 'test')");
        attached_table_insert(fixture.app, "orders", 30);
        database_exec(fixture.admin, "SELECT shard_pass('bus', -1)");
        expect_mark_of(&fixture, EVENTS "lane = -1", EVENTS "lane <> -1");
        database_exec(fixture.admin, "SELECT shard_pass('bus', -2)");
        expect_mark_of(&fixture, EVENTS "lane = -2", "0");
        expect_mark(&fixture, "0 0 0 0");
        database_exec(fixture.admin, "SELECT shard_pass('bus', -3)");
        expect_mark_of(&fixture, EVENTS "lane = -3", "0");
        expect_done(&fixture, "orders", 30);
        end(&fixture);
}

/* What a former shard had behind it is done, although its lane's successor is not so far. */
Test(marks_sql, asks_where_former_shards_ended)
{
        struct fixture fixture = begin();
        char *expected;

        database_exec(fixture.admin, shards_sql);
        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        database_exec(fixture.admin, "SELECT courier.agree_shards('bus', 2, false, false, 'test')");
        attached_table_insert(fixture.app, "orders", 30);
        database_exec(fixture.admin, "SELECT shard_pass('bus', -1);"
                                     "SELECT courier.agree_shards('bus', 3, false, false, 'test')");
        attached_table_insert(fixture.app, "orders", 5);
        database_exec(fixture.admin, "SELECT shard_pass('bus', -2)");
        expect_value(fixture.admin,
            "SELECT count(*) > 5 FROM shard_event WHERE is_passed AND lane <> -2", "t");
        expect_mark_of(&fixture, EVENTS "is_passed", EVENTS "NOT is_passed");
        expected = database_value(
            fixture.admin, "SELECT count(*) || ' 0 0 0' FROM shard_event WHERE NOT is_passed");
        database_exec(fixture.admin, "SELECT courier.agree_shards('bus', 1, false, false, 'test');"
                                     "SELECT shard_pass('bus', 0)");
        expect_mark(&fixture, expected); /* those that waited for lanes that are gone, too */
        expect_done(&fixture, "orders", 35);
        free(expected);
        end(&fixture);
}

Test(marks_sql, asks_only_the_sinks_of_done_after)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "orders", "mark", "'{bus}'");
        attached_table_make(fixture.admin, "refunds", "mark", "'{bus,later}'");
        make_lane(&fixture, "bus");
        make_lane(&fixture, "slow");
        attached_table_insert(fixture.app, "orders", 2);
        attached_table_insert(fixture.app, "refunds", 1);
        pass(&fixture, "bus");
        expect_mark(&fixture, "2 1 0 0"); /* no relay has run a sink `later` */
        expect_value(
            fixture.admin, "SELECT state || ' ' || sink FROM courier.unmarked", "parked later");
        make_lane(&fixture, "later");
        pass(&fixture, "later");
        database_exec(fixture.admin, "UPDATE courier.unmarked SET due_at = now()");
        expect_mark(&fixture, "1 0 0 0");
        end(&fixture);
}

#define PARK_TWO(state, due_at)                                                                    \
        "INSERT INTO courier.parked (sink, lane, outbox_id, state, due_at, event_id, topic,"       \
        " payload, created_at, source, source_key)"                                                \
        " SELECT 'bus', 0, id, " state ", " due_at ", event_id, topic, payload, created_at,"       \
        " source, source_key FROM courier.outbox WHERE id < 3"

Test(marks_sql, waits_for_parked_events_and_tells_dead_ones)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        make_lane(&fixture, "bus");
        attached_table_insert(fixture.app, "orders", 3);
        database_exec(fixture.admin, PARK_TWO("'retry'", "now() + '1 hour'"));
        pass(&fixture, "bus");
        expect_mark(&fixture, "1 2 0 0");
        expect_value(fixture.admin,
            "SELECT count(*) FROM courier.unmarked JOIN courier.parked USING (outbox_id)"
            " WHERE unmarked.due_at = parked.due_at + interval '1 s'",
            "2");
        database_exec(fixture.admin,
            "WITH gone AS (DELETE FROM courier.parked RETURNING *)"
            " INSERT INTO courier.dead_letter (sink, lane, outbox_id, reason, attempts, error,"
            "  event_id, topic, payload, created_at, source, source_key)"
            " SELECT sink, lane, outbox_id, 'attempts', 3, 'no', event_id, topic, payload,"
            "  created_at, source, source_key FROM gone WHERE outbox_id = 1;"
            "UPDATE courier.unmarked SET due_at = now()");
        expect_mark(&fixture, "2 0 0 0");
        expect_value(
            fixture.admin, "SELECT string_agg(id::text, ' ') FROM shop.orders WHERE dead", "1");
        expect_done(&fixture, "orders", 2);
        end(&fixture);
}

Test(marks_sql, goes_on_behind_events_that_are_due_at_the_end_of_time)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        make_lane(&fixture, "bus");
        attached_table_insert(fixture.app, "orders", 3);
        database_exec(fixture.admin,
            PARK_TWO("'delayed'", "CASE id WHEN 1 THEN 'infinity'"
                                  " ELSE timestamptz '294276-12-31 23:59:59.999999+00' END"));
        pass(&fixture, "bus");
        expect_mark(&fixture, "1 2 0 0");
        expect_value(fixture.admin,
            "SELECT bool_and(due_at BETWEEN now() AND now() + '1 hour 1 s') FROM courier.unmarked",
            "t");
        end(&fixture);
}

Test(marks_sql, deletes_where_the_attachment_says_so)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "orders", "delete", "NULL");
        make_lane(&fixture, "bus");
        attached_table_insert(fixture.app, "orders", 3);
        database_exec(fixture.app, "DELETE FROM shop.orders WHERE id = 2");
        pass(&fixture, "bus");
        expect_mark(&fixture, "3 0 0 0");
        cr_expect_eq(attached_table_count(fixture.admin, "orders", "true"), 0);
        end(&fixture);
}

Test(marks_sql, puts_locked_rows_off_and_marks_the_others)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        make_lane(&fixture, "bus");
        attached_table_insert(fixture.app, "orders", 4);
        database_exec(fixture.app, "BEGIN; SELECT FROM shop.orders WHERE id = 2 FOR UPDATE");
        pass(&fixture, "bus");
        expect_mark(&fixture, "3 1 0 0");
        database_exec(fixture.admin, "UPDATE courier.unmarked SET due_at = now()");
        expect_mark(&fixture, "0 0 0 0");
        expect_value(
            fixture.admin, "SELECT state || ' ' || attempts FROM courier.unmarked", "retry 0");
        database_exec(fixture.app, "COMMIT");
        database_exec(fixture.admin, "UPDATE courier.unmarked SET due_at = now()");
        expect_mark(&fixture, "1 0 0 0");
        expect_done(&fixture, "orders", 4);
        end(&fixture);
}

Test(marks_sql, finds_the_rows_that_a_table_refuses)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        attached_table_make(fixture.admin, "refunds", "mark", "NULL");
        database_exec(fixture.admin, "ALTER TABLE shop.orders ADD CONSTRAINT never CHECK "
                                     "(processed_at IS NULL OR id % 40 > 0)");
        make_lane(&fixture, "bus");
        attached_table_insert(fixture.app, "orders", 100);
        attached_table_insert(fixture.app, "refunds", 10);
        pass(&fixture, "bus");
        expect_mark(&fixture, "108 2 2 0");
        expect_value(fixture.admin,
            "SELECT string_agg(source_key || ' ' || attempts || ' ' || (last_error LIKE "
            "'%\"never\"%')"
            " || ' ' || (due_at > now()), ', ' ORDER BY outbox_id) FROM courier.unmarked",
            "40 1 true true, 80 1 true true");
        database_exec(fixture.admin, "UPDATE courier.unmarked SET due_at = now(), attempts = 19");
        expect_mark(&fixture, "0 0 2 2");
        expect_value(fixture.admin, "SELECT count(*) FROM courier.unmarked", "0");
        expect_value(fixture.admin,
            "SELECT string_agg(sink || ' ' || reason || ' ' || attempts || ' ' || target || ' '"
            " || (error LIKE '%\"never\"%') || ' ' || (payload::text), ', ' ORDER BY id)"
            " FROM courier.dead_letter",
            "courier.marks attempts 20 shop.orders, row 40 true {}, "
            "courier.marks attempts 20 shop.orders, row 80 true {}");
        end(&fixture);
}

Test(marks_sql, bounds_what_a_table_that_refuses_all_costs)
{
        struct fixture fixture = begin();
        int n_calls = 0;

        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        attached_table_make(fixture.admin, "refunds", "mark", "NULL");
        database_exec(fixture.admin,
            "ALTER TABLE shop.orders ADD CONSTRAINT never CHECK (processed_at IS NULL)");
        make_lane(&fixture, "bus");
        attached_table_insert(fixture.app, "orders", 500);
        attached_table_insert(fixture.app, "refunds", 10);
        pass(&fixture, "bus");
        expect_mark(&fixture, "10 500 100 0"); /* the others wait, uncharged */
        expect_value(fixture.admin, "SELECT count(*) FROM courier.mark_trouble", "1");
        attached_table_insert(fixture.app, "orders", 5);
        attached_table_insert(fixture.app, "refunds", 5);
        pass(&fixture, "bus");
        expect_mark(&fixture, "5 5 0 0"); /* those of a table in trouble are not even tried */
        database_exec(fixture.admin, "ALTER TABLE shop.orders DROP CONSTRAINT never");
        while (attached_table_count(fixture.admin, "orders", IS_DONE) < 505 && n_calls++ < 20) {
                database_exec(fixture.admin, "UPDATE courier.mark_trouble SET hold_until = now();"
                                             "UPDATE courier.unmarked SET due_at = now()");
                database_exec(fixture.relay, MARK);
        }
        expect_done(&fixture, "orders", 505);
        database_exec(fixture.relay, MARK);
        expect_value(fixture.admin, "SELECT count(*) FROM courier.mark_trouble", "0");
        end(&fixture);
}

Test(marks_sql, goes_on_with_other_tables_while_one_is_locked)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        attached_table_make(fixture.admin, "refunds", "mark", "NULL");
        make_lane(&fixture, "bus");
        attached_table_insert(fixture.app, "orders", 3);
        attached_table_insert(fixture.app, "refunds", 3);
        database_exec(fixture.app, "BEGIN; LOCK TABLE shop.orders IN ACCESS EXCLUSIVE MODE");
        pass(&fixture, "bus");
        expect_mark(&fixture, "3 3 0 0");
        database_exec(fixture.admin, "UPDATE courier.mark_trouble SET hold_until = now();"
                                     "UPDATE courier.unmarked SET due_at = now()");
        expect_mark(&fixture, "0 0 0 0");
        expect_value(fixture.admin, "SELECT sum(attempts) FROM courier.unmarked", "0");
        database_exec(fixture.app, "COMMIT");
        database_exec(fixture.admin, "UPDATE courier.mark_trouble SET hold_until = now();"
                                     "UPDATE courier.unmarked SET due_at = now()");
        expect_mark(&fixture, "3 0 0 0");
        end(&fixture);
}

Test(marks_sql, gives_a_table_whose_trigger_takes_too_long_fewer_rows)
{
        struct fixture fixture = begin();
        int n_calls = 0;

        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        attached_table_make(fixture.admin, "refunds", "mark", "NULL");
        database_exec(fixture.admin,
            "CREATE FUNCTION shop.dawdle() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
            " PERFORM pg_sleep(CASE WHEN NEW.id = 5 THEN 10 ELSE 0.05 END); RETURN NEW; END$$;"
            "CREATE TRIGGER dawdle BEFORE UPDATE ON shop.orders FOR EACH ROW EXECUTE FUNCTION"
            " shop.dawdle()");
        make_lane(&fixture, "bus");
        attached_table_insert(fixture.app, "orders", 16);
        attached_table_insert(fixture.app, "refunds", 3);
        pass(&fixture, "bus");
        database_exec(fixture.relay, "SET statement_timeout = '300ms'");
        database_exec(fixture.relay, MARK);
        database_exec(fixture.relay, MARK);
        expect_done(&fixture, "refunds", 3);
        while (attached_table_count(fixture.admin, "orders", IS_DONE) < 15 && n_calls++ < 60) {
                database_exec(fixture.admin, "UPDATE courier.mark_trouble SET hold_until = now();"
                                             "UPDATE courier.unmarked SET due_at = now()"
                                             " WHERE attempts = 0 OR source_key <> '5'");
                database_exec(fixture.relay, MARK);
        }
        expect_done(&fixture, "orders", 15);
        expect_value(fixture.admin,
            "SELECT source_key || ' ' || (attempts > 0) || ' ' || last_error FROM courier.unmarked",
            "5 true canceling statement due to statement timeout");
        end(&fixture);
}

Test(marks_sql, never_runs_an_applications_code_with_the_relays_rights)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        make_lane(&fixture, "bus");
        attached_table_insert(fixture.app, "orders", 1);
        pass(&fixture, "bus");
        database_exec(fixture.admin,
            "CREATE TABLE shop.ran_as (who text); GRANT INSERT ON shop.ran_as TO PUBLIC;"
            "CREATE FUNCTION shop.spy() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
            " INSERT INTO shop.ran_as VALUES (current_user); RETURN NULL; END$$;"
            "CREATE CONSTRAINT TRIGGER spy AFTER UPDATE ON shop.orders DEFERRABLE INITIALLY "
            "DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION shop.spy();"
            "ALTER FUNCTION courier_tap.orders_mark(text[], boolean[]) SECURITY INVOKER;"
            "GRANT ALL ON shop.orders TO relay");
        expect_mark(&fixture, "0 1 1 0");
        expect_value(fixture.admin,
            "SELECT last_error LIKE '%must be SECURITY DEFINER and belong to the owner of "
            "shop.orders"
            " (shop)%' FROM courier.unmarked",
            "t");
        database_exec(fixture.admin, "ALTER FUNCTION courier_tap.orders_mark(text[], boolean[]) "
                                     "SECURITY DEFINER;ALTER FUNCTION "
                                     "courier_tap.orders_mark(text[], boolean[]) OWNER TO app;"
                                     "UPDATE courier.unmarked SET due_at = now()");
        expect_mark(&fixture, "0 0 1 0");
        expect_value(fixture.admin, "SELECT count(*) FROM shop.ran_as", "0");
        /* Its deferred triggers, too, run as the owner, and not at our COMMIT. */
        database_exec(fixture.admin,
            "ALTER FUNCTION courier_tap.orders_mark(text[], boolean[]) OWNER TO shop;"
            "UPDATE courier.unmarked SET due_at = now()");
        expect_mark(&fixture, "1 0 0 0");
        expect_value(fixture.admin, "SELECT string_agg(who, ' ') FROM shop.ran_as", "shop");
        end(&fixture);
}

Test(marks_sql, says_that_the_table_or_the_function_is_gone)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        make_lane(&fixture, "bus");
        attached_table_insert(fixture.app, "orders", 1);
        pass(&fixture, "bus");
        database_exec(fixture.admin, "DROP FUNCTION courier_tap.orders_mark");
        expect_mark(&fixture, "0 1 1 0");
        expect_value(fixture.admin,
            "SELECT last_error LIKE '%courier_tap.orders_mark%is missing%'"
            " FROM courier.unmarked",
            "t");
        database_exec(fixture.admin, "DROP TABLE shop.orders;"
                                     "UPDATE courier.unmarked SET due_at = now()");
        expect_mark(&fixture, "0 0 1 0");
        expect_value(fixture.admin,
            "SELECT last_error LIKE 'the table shop.orders is gone%'"
            " FROM courier.unmarked",
            "t");
        end(&fixture);
}

Test(marks_sql, forgets_an_attachment_that_is_removed)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        attached_table_make(fixture.admin, "refunds", "mark", "NULL");
        make_lane(&fixture, "bus");
        make_lane(&fixture, "slow");
        attached_table_insert(fixture.app, "orders", 3);
        attached_table_insert(fixture.app, "refunds", 2);
        pass(&fixture, "bus");
        expect_mark(&fixture, "0 5 0 0");
        database_exec(fixture.app, "BEGIN; DELETE FROM courier.attachment WHERE name = 'orders'");
        pass(&fixture, "slow");
        expect_mark(&fixture, "2 0 0 0"); /* and does not wait for that session */
        database_exec(fixture.app, "COMMIT");
        expect_value(fixture.admin, "SELECT count(*) FROM courier.unmarked", "0");
        expect_value(
            fixture.admin, "SELECT count(*) FROM courier.cursor WHERE sink = 'courier.marks'", "1");
        database_exec(fixture.admin, "DELETE FROM courier.attachment");
        expect_value(
            fixture.admin, "SELECT count(*) FROM courier.cursor WHERE sink = 'courier.marks'", "0");
        expect_value(fixture.relay, "SELECT is_wanted FROM courier.mark()", "f");
        end(&fixture);
}

Test(marks_sql, keeps_the_events_that_it_has_not_read)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        make_lane(&fixture, "bus");
        database_exec(fixture.admin,
            "DO $$BEGIN EXECUTE (SELECT 'DROP TABLE ' || string_agg('courier.' || name, ', ')"
            "  FROM courier.outbox_partition); END$$;"
            "DELETE FROM courier.outbox_partition; SELECT courier.maintain('0', '0', 10, 10)");
        attached_table_insert(fixture.app, "orders", 15);
        pass(&fixture, "bus");
        database_exec(fixture.admin, "SELECT courier.maintain('0', '0', 10, 10)");
        expect_value(fixture.admin,
            "SELECT array_to_string(held_by, ' ') FROM courier.maintain('0', '0', 10, 10)"
            " WHERE action = 'held'",
            "courier.marks");
        expect_mark(&fixture, "15 0 0 0");
        expect_value(fixture.admin,
            "SELECT count(*) FROM courier.maintain('0', '0', 10, 10) WHERE action = 'dropped'",
            "1");
        end(&fixture);
}

Test(marks_sql, leaves_it_to_the_session_that_is_at_it)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        make_lane(&fixture, "bus");
        attached_table_insert(fixture.app, "orders", 3);
        pass(&fixture, "bus");
        database_exec(fixture.app, "BEGIN; SELECT courier.mark()");
        expect_mark(&fixture, "0 0 0 0");
        database_exec(fixture.app, "ROLLBACK");
        expect_mark(&fixture, "3 0 0 0");
        end(&fixture);
}

Test(marks_sql, marks_a_row_with_the_last_of_its_events)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        database_exec(
            fixture.admin, "UPDATE courier.attachment SET expressions = '{\"each\": \"x\"}'");
        make_lane(&fixture, "bus");
        make_lane(&fixture, "slow");
        database_exec(fixture.admin,
            "SELECT courier.note_sink('slow', false, '{}', '{orders.late}', '{}');"
            "ALTER TABLE shop.orders DISABLE TRIGGER tap; INSERT INTO shop.orders (note) VALUES "
            "('a');"
            "INSERT INTO courier.outbox (topic, payload, source, source_key)"
            " SELECT topic, '{}', 1, '1' FROM "
            "unnest('{orders.early,orders.late,orders.last}'::text[])"
            " AS topic");
        pass(&fixture, "bus");
        expect_mark(&fixture, "2 1 0 0");
        expect_done(&fixture, "orders", 0);
        pass(&fixture, "slow");
        expect_mark(&fixture, "1 0 0 0");
        expect_done(&fixture, "orders", 1);
        end(&fixture);
}

Test(marks_sql, marks_a_row_once_all_pages_with_its_events_are_read)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        database_exec(fixture.admin,
            "UPDATE courier.attachment SET expressions = '{\"each\": \"x\"}';"
            "ALTER TABLE shop.orders DISABLE TRIGGER tap; INSERT INTO shop.orders (note) VALUES "
            "('a');"
            "INSERT INTO courier.outbox (topic, payload, source, source_key)"
            " SELECT 'a', '{}', 1, '1' FROM generate_series(1, 3)");
        make_lane(&fixture, "bus");
        pass(&fixture, "bus");
        expect_value(fixture.relay, "SELECT marked FROM courier.mark(2)", "2");
        expect_done(&fixture, "orders", 0);
        expect_value(fixture.relay, "SELECT marked FROM courier.mark(2)", "1");
        expect_done(&fixture, "orders", 1);
        end(&fixture);
}

/* Writers, lanes and the marker at random. */

#define N_WRITERS 4

struct random_fixture {
        struct fixture fixture;
        PGconn *writers[N_WRITERS];
        bool is_open[N_WRITERS];
        unsigned seed;
};

static unsigned roll(struct random_fixture *world, unsigned below)
{
        world->seed = world->seed * 1103515245u + 12345u;
        return (world->seed >> 16) % below;
}

static void write_something(struct random_fixture *world)
{
        unsigned writer = roll(world, N_WRITERS);
        PGconn *connection = world->writers[writer];

        if (!world->is_open[writer]) {
                database_exec(connection, "BEGIN");
                world->is_open[writer] = true;
        } else if (roll(world, 3) == 0) {
                database_exec(connection, roll(world, 5) == 0 ? "ROLLBACK" : "COMMIT");
                world->is_open[writer] = false;
        } else if (roll(world, 4) == 0) {
                database_exec(connection, "INSERT INTO courier.outbox (topic, payload)"
                                          " SELECT 'native', '1' FROM generate_series(1, 3)");
        } else {
                attached_table_insert(connection, roll(world, 2) == 0 ? "orders" : "refunds",
                    1 + (int)roll(world, 4));
        }
}

/* What it parks when it passes it, it delivers, or gives up, later. */
static void move_a_lane(struct random_fixture *world)
{
        static const char *const sinks[] = {"a", "b", "c"};
        const char *sink = sinks[roll(world, 3)];
        char *sql = NULL;

        switch (roll(world, 6)) {
        case 0:
                on_lane(&world->fixture, "open", sink);
                return;
        case 1:
                on_lane(&world->fixture, "draw", sink);
                return;
        case 2:
                sql = xasprintf("SELECT lane_go('%s', (SELECT last_id + %u FROM courier.cursor"
                                " WHERE sink = '%s'))",
                    sink, 1 + roll(world, 12), sink);
                break;
        case 3:
                sql =
                    xasprintf("SELECT lane_go('%s', 1000000); SELECT lane_close('%s')", sink, sink);
                break;
        case 4:
                /* One transaction: it passes an event and parks it. */
                sql = xasprintf(
                    "BEGIN; INSERT INTO courier.parked (sink, lane, outbox_id, state, due_at, "
                    "event_id,"
                    "  topic, payload, created_at, source, source_key)"
                    " SELECT sink, 0, o.id, 'retry', now() - interval '1 s', event_id, topic, "
                    "payload,"
                    "  created_at, source, source_key"
                    " FROM courier.cursor AS c, courier.outbox AS o"
                    " WHERE sink = '%s' AND until_snapshot IS NOT NULL AND o.id = c.last_id + 1"
                    "  AND pg_visible_in_snapshot(o.txid, until_snapshot)"
                    "  AND NOT pg_visible_in_snapshot(o.txid, from_snapshot)"
                    " ON CONFLICT DO NOTHING;"
                    "SELECT lane_go('%s', (SELECT last_id + 1 FROM courier.cursor WHERE sink = "
                    "'%s'));"
                    "COMMIT",
                    sink, sink, sink);
                break;
        case 5:
                sql = xasprintf(
                    "DELETE FROM courier.parked WHERE sink = '%s' AND outbox_id %% 3 = %u", sink,
                    roll(world, 3));
                break;
        }
        database_exec(world->fixture.admin, sql);
        free(sql);
}

static void expect_only_passed(struct random_fixture *world)
{
        expect_value(world->fixture.admin,
            "SELECT string_agg(format('%s of %s, at %s', o.id, o.topic, c.sink), ', ')"
            " FROM courier_tap.marked AS m"
            " JOIN courier.attachment AS a ON a.name = m.relation"
            " JOIN courier.outbox AS o ON o.source = a.id AND o.source_key = m.key"
            " CROSS JOIN courier.cursor AS c"
            " WHERE c.sink <> 'courier.marks'"
            "  AND (NOT courier.has_passed(c.from_snapshot, c.until_snapshot, c.last_id, o.id, "
            "o.txid)"
            "   OR EXISTS (SELECT FROM courier.parked AS p WHERE p.outbox_id = o.id))",
            "");
        expect_value(world->fixture.admin,
            "SELECT count(*) - count(DISTINCT (relation, key)) FROM courier_tap.marked", "0");
}

static void mark_some(struct random_fixture *world)
{
        const bool dies = roll(world, 5) == 0;
        char *sql = xasprintf("SELECT courier.mark(%u)", 1 + roll(world, 12));

        database_exec(world->fixture.admin, "UPDATE courier.unmarked SET due_at = now()"
                                            " WHERE state <> 'behind'");
        if (dies) /* the relay, before it commits */
                database_exec(world->fixture.relay, "BEGIN");
        database_exec(world->fixture.relay, sql);
        if (dies)
                database_exec(world->fixture.relay, "ROLLBACK");
        free(sql);
        expect_only_passed(world);
}

static void end_well(struct random_fixture *world)
{
        for (int i = 0; i < N_WRITERS; i++)
                if (world->is_open[i])
                        database_exec(world->writers[i], "COMMIT");
        database_exec(world->fixture.admin, "DELETE FROM courier.parked");
        pass(&world->fixture, "a");
        pass(&world->fixture, "b");
        pass(&world->fixture, "c");
        for (int i = 0;
             i < 500 && attached_table_count(world->fixture.admin, "orders", IS_DONE) +
                                attached_table_count(world->fixture.admin, "refunds", IS_DONE) <
                            (int)database_integer(world->fixture.admin,
                                "SELECT count(*) FROM courier.outbox WHERE source > 0");
             i++)
                mark_some(world);
        expect_value(world->fixture.admin,
            "SELECT string_agg(o.id::text, ' ') FROM courier.outbox AS o"
            " JOIN courier.attachment AS a ON a.id = o.source"
            " LEFT JOIN courier_tap.marked AS m ON m.relation = a.name AND m.key = o.source_key"
            " WHERE m.key IS NULL",
            "");
        mark_some(world);
        expect_value(world->fixture.admin, "SELECT count(*) FROM courier.unmarked", "0");
}

static void run_random(unsigned seed)
{
        struct random_fixture world = {.fixture = begin(), .seed = seed};

        database_exec(world.fixture.admin, "SET client_min_messages = error");
        attached_table_make(world.fixture.admin, "orders", "mark", "NULL");
        attached_table_make(world.fixture.admin, "refunds", "mark", "NULL");
        make_lane(&world.fixture, "a");
        make_lane(&world.fixture, "b");
        make_lane(&world.fixture, "c");
        for (int i = 0; i < N_WRITERS; i++)
                world.writers[i] = database_connect(world.fixture.database.dsn);
        for (int i = 0; i < 800; i++) {
                unsigned what = roll(&world, 10);

                if (what < 4)
                        write_something(&world);
                else if (what < 8)
                        move_a_lane(&world);
                else
                        mark_some(&world);
        }
        end_well(&world);
        for (int i = 0; i < N_WRITERS; i++)
                PQfinish(world.writers[i]);
        end(&world.fixture);
}

Test(marks_sql, keeps_its_promises_whatever_the_order_of_things)
{
        for (unsigned seed = 1; seed <= 6; seed++)
                run_random(seed);
}
