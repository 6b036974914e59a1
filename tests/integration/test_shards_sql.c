/*
 * How a sink gets another number of shards, and which relays there are: the functions of
 * 0014_shards.sql, called by the test, with lanes that the test moves.
 */
#include "base/alloc.h"
#include "support/postgres_expect.h"
#include "support/relay_fixture.h"
#include "support/shards.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct test_database database;
static PGconn *admin, *relay;

static void start(void)
{
        database = test_database_make();
        admin = database.admin;
        relay = database_connect(database.relay);
        database_exec(admin, shards_sql);
}

static void stop(void)
{
        PQfinish(relay);
        test_database_drop(&database);
}

TestSuite(shards_sql, .init = start, .fini = stop);

/* By a relay of that name: verdict and number in force. */
static void expect_verdict(PGconn *session, const char *name, int shards, const char *expected)
{
        char *sql = xasprintf("SELECT verdict || ' ' || in_force"
                              " FROM courier.agree_shards('bus', %d, false, false, '%s')",
            shards, name);

        expect_value(session, sql, expected);
        free(sql);
}

static void agree(int shards)
{
        char expected[16];

        snprintf(expected, sizeof expected, "ready %d", shards);
        expect_verdict(relay, "test", shards, expected);
}

static void publish_some(PGconn *session, int n)
{
        char *sql = xasprintf("SELECT count(courier.publish('t', '0', CASE WHEN i %% 5 > 0 THEN"
                              " 'k' || floor(random() * 50) END)) FROM generate_series(1, %d) AS i",
            n);

        database_exec(session, sql);
        free(sql);
}

/* Every event has one lane, and is behind it or not, as it was. */
static void expect_no_change(const char *what)
{
        char *changed = database_value(admin,
            "SELECT string_agg(format('%s in %s: %s', id, now.lane, now.is_passed), ', ')"
            " FROM shard_event AS now JOIN was USING (sink, id)"
            " WHERE now.lane IS NULL OR now.is_passed IS DISTINCT FROM was.is_passed");

        cr_expect_str_eq(changed, "", "%s: %s", what, changed);
        free(changed);
        expect_value(admin,
            "SELECT count(*) = min(s.shards) AND min(lane) = CASE min(s.shards) WHEN 1 THEN 0"
            " ELSE -min(s.shards) END FROM courier.cursor JOIN courier.sink AS s ON name = sink",
            "t");
        expect_value(admin,
            "SELECT count(*) FROM courier.parked JOIN courier.sink AS s ON name = sink"
            " WHERE lane <> courier.shard_lane(courier.shard_of(key, shards, outbox_id), shards)",
            "0");
        expect_value(admin,
            "SELECT count(*) FROM courier.cursor WHERE until_snapshot IS NULL AND last_id <> 0",
            "0");
}

/* Some lanes pass what is committed, some open a difference and go a part of the way, some stay. */
static const char move_sql[] =
    "SELECT CASE WHEN how < 0.3 THEN shard_pass(sink, lane)"
    "  WHEN how < 0.7 THEN shard_go(sink, lane, last_id"
    "    + floor(random() * (courier.outbox_floor() - last_id))::bigint) END"
    " FROM (SELECT sink, lane, greatest(from_floor, last_id) AS last_id, until_snapshot,"
    "         random() AS how FROM courier.cursor) AS c WHERE until_snapshot IS NULL OR how < 0.3";

#define PARK                                                                                       \
        "INSERT INTO courier.parked (sink, lane, outbox_id, state, due_at, event_id, topic, key,"  \
        "  created_at) SELECT sink, lane, id, 'delayed', now(), gen_random_uuid(), 't', key, "     \
        "now()"                                                                                    \
        " FROM shard_event WHERE is_passed AND id % 3 = 0 ON CONFLICT DO NOTHING"

Test(shards_sql, no_event_is_lost_or_comes_twice_when_a_sink_is_divided, .timeout = 240)
{
        static const int numbers[] = {1, 2, 3, 4, 256, 6, 4, 3, 2, 5, 1, 7, 1};
        PGconn *late = database_connect(database.dsn); /* commits what others have long passed */

        database_exec(admin, "SELECT setseed(0.14); CREATE TABLE was (LIKE shard_event)");
        publish_some(admin, 50);
        agree(1);
        for (size_t i = 1; i < sizeof numbers / sizeof *numbers; i++) {
                char what[32];

                snprintf(what, sizeof what, "%d to %d", numbers[i - 1], numbers[i]);
                for (int turn = 0; turn < 3; turn++) {
                        database_exec(late, "BEGIN");
                        publish_some(late, 7);
                        publish_some(admin, 20);
                        database_exec(admin, move_sql);
                        publish_some(admin, 10);
                        database_exec(late, "COMMIT");
                        database_exec(admin, move_sql);
                }
                database_exec(admin, PARK);
                database_exec(admin, "TRUNCATE was; INSERT INTO was SELECT * FROM shard_event");
                agree(numbers[i]);
                expect_no_change(what);
                database_exec(relay, "SELECT courier.forget_shard_ends()");
                expect_no_change("what lanes are past is forgotten");
        }
        expect_value(admin, "SELECT count(*) > 0 FROM was WHERE is_passed", "t");
        expect_value(admin, "SELECT count(*) > 0 FROM was WHERE NOT is_passed", "t");
        expect_value(admin, "SELECT count(*) > 100 FROM courier.parked", "t");
        expect_value(admin, "SELECT count(*) > 0 FROM courier.shard_end", "t");
        database_exec(admin, "SELECT shard_pass(sink, lane) FROM courier.cursor");
        database_exec(relay, "SELECT courier.maintain()");
        expect_value(admin, "SELECT count(*) FROM courier.shard_end", "0");
        PQfinish(late);
}

Test(shards_sql, lanes_at_one_place_leave_no_ends)
{
        publish_some(admin, 20);
        agree(2);
        database_exec(admin, "SELECT shard_pass(sink, lane) FROM courier.cursor");
        agree(3);
        expect_value(admin, "SELECT count(*) FROM courier.shard_end", "0");
        expect_value(admin, "SELECT bool_and(is_passed) FROM shard_event", "t");
        expect_value(admin, "SELECT shards || ' ' || shards_before FROM courier.sink", "3 2");
}

Test(shards_sql, of_two_places_with_one_xmax_that_with_more_in_progress_is_behind)
{
        agree(2);
        database_exec(admin, "UPDATE courier.cursor SET from_snapshot = CASE lane"
                             " WHEN -1 THEN '100:200:150' ELSE '100:200:' END::pg_snapshot");
        agree(3);
        expect_value(admin,
            "SELECT string_agg(DISTINCT from_snapshot::text, ' ') FROM courier.cursor",
            "100:200:150");
}

/* A write with an epoch of before changes nothing. */
Test(shards_sql, a_division_goes_on_from_the_highest_epoch)
{
        agree(2);
        database_exec(admin, "UPDATE courier.cursor SET epoch = 7 WHERE lane = -1");
        agree(3);
        expect_value(admin, "SELECT string_agg(epoch::text, ' ') FROM courier.cursor", "7 7 7");
}

Test(shards_sql, a_sink_keeps_its_number_while_a_relay_holds_a_shard)
{
        PGconn *holder = database_connect(database.relay);

        agree(2);
        database_exec(holder,
            "SELECT pg_advisory_lock(1668248946, lock_id) FROM courier.cursor WHERE lane = -2");
        expect_verdict(holder, "holder", 2, "ready 2"); /* it has it itself, and may go on */
        expect_verdict(relay, "test", 3, "changing 2");
        expect_value(admin, "SELECT shards_wanted FROM courier.sink", "3");
        expect_verdict(holder, "holder", 2, "changing 2"); /* it is to give it back first */
        expect_verdict(relay, "test", 3, "changing 2");
        database_exec(holder, "SELECT pg_advisory_unlock_all()");
        expect_verdict(relay, "test", 3, "ready 3");
        expect_value(admin, "SELECT shards_wanted FROM courier.sink", "");
        PQfinish(holder);
}

/* It comes after the change was asked for, with the number of before: it makes the change. */
Test(shards_sql, the_last_relay_that_gives_back_divides_whatever_its_own_number)
{
        agree(2);
        database_exec(admin, "UPDATE courier.sink SET shards_wanted = 3");
        expect_verdict(relay, "test", 2, "older 3");
        expect_value(admin, "SELECT count(*) FROM courier.cursor", "3");
}

static void join(PGconn *session, const char *name, int shards, const char *expected)
{
        char *sql = xasprintf(
            "SELECT courier.join_relays('%s', 'host', '1', 1, '{\"bus\": %d}')", name, shards);

        expect_value(session, sql, expected);
        free(sql);
}

static bool other_has_left(void *session)
{
        return database_integer(
                   session, "SELECT count(*) FROM courier.live_member WHERE name = 'other'") == 0;
}

Test(shards_sql, a_relay_with_the_number_of_before_waits_for_one_with_the_new_one)
{
        PGconn *other = database_connect(database.relay);

        agree(2);
        join(other, "other", 3, "other");
        expect_verdict(other, "other", 3, "ready 3");
        expect_verdict(relay, "test", 2, "older 3");
        expect_value(admin, "SELECT shards FROM courier.sink", "3");
        PQfinish(other);
        wait_until(other_has_left, admin, 10000, "the session is gone");
        join(relay, "test", 3, "test");              /* as it was told before */
        expect_verdict(relay, "test", 2, "ready 2"); /* nobody has the other number any more */
        expect_verdict(relay, "test", 4, "ready 4"); /* a third one is always new */
}

Test(shards_sql, two_relays_of_a_name_get_different_ones)
{
        PGconn *second = database_connect(database.relay), *third;

        join(relay, "a", 1, "a");
        join(second, "a", 2, "a/2");
        expect_value(admin,
            "SELECT string_agg(name || ': ' || (shards ->> 'bus'), ', ' ORDER BY name)"
            " FROM courier.live_member",
            "a: 1, a/2: 2");
        database_exec(relay, "SELECT pg_advisory_unlock_all()");
        expect_value(admin, "SELECT string_agg(name, ' ') FROM courier.live_member", "a/2");
        third = database_connect(database.relay);
        join(third, "a", 1, "a");
        PQfinish(third);
        PQfinish(second);
}

/* Those that live are kept, and those that an operator has drained. */
Test(shards_sql, relays_that_have_not_been_seen_for_long_are_forgotten)
{
        PGconn *later = database_connect(database.relay);

        join(relay, "alive", 1, "alive");
        database_exec(admin, "INSERT INTO courier.member (name, host, version, weight, shards,"
                             " is_drained) VALUES ('gone', 'host', '1', 1, '{}', false),"
                             " ('drained', 'host', '1', 1, '{}', true);"
                             "UPDATE courier.member SET joined_at = now() - interval '8 days'");
        join(later, "later", 1, "later");
        expect_value(admin, "SELECT string_agg(name, ' ' ORDER BY name) FROM courier.member",
            "alive drained later");
        PQfinish(later);
}

/* They both find a sink that is not there. */
Test(shards_sql, two_relays_may_begin_at_once_with_different_numbers)
{
        PGconn *other = database_connect(database.relay);
        PGresult *result;

        database_exec(relay, "BEGIN");
        expect_verdict(relay, "a", 2, "ready 2");
        cr_assert(PQsendQuery(other, "SELECT verdict || ' ' || in_force"
                                     " FROM courier.agree_shards('bus', 3, false, false, 'b')"));
        await_in_database(admin, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted", "it waits");
        database_exec(relay, "COMMIT");
        result = PQgetResult(other);
        cr_assert_eq(PQresultStatus(result), PGRES_TUPLES_OK, "%s", PQerrorMessage(other));
        cr_expect_str_eq(PQgetvalue(result, 0, 0), "ready 3");
        PQclear(result);
        cr_assert_null(PQgetResult(other));
        expect_value(admin, "SELECT count(*) || ' ' || min(lane) FROM courier.cursor", "3 -3");
        PQfinish(other);
}

Test(shards_sql, a_relay_that_knows_nothing_of_shards_makes_no_cursor)
{
        static const char old_relay[] =
            "INSERT INTO courier.cursor (sink, system_identifier, from_snapshot, from_floor,"
            " from_xid) SELECT 'bus', 1, '1:1:', 0, '3'";

        agree(2);
        expect_error(relay, old_relay, "55000", "run the version of pgcourier that the others run");
        agree(1);
        database_exec(relay, "DELETE FROM courier.cursor");
        database_exec(relay, old_relay);
}

Test(shards_sql, shards_of_another_hash_function_are_refused)
{
        agree(2);
        database_exec(admin, "UPDATE courier.sink SET hash_check = 1");
        expect_error(relay, "SELECT courier.agree_shards('bus', 2, false, false, 'test')", "55000",
            "run pgcourier rebase");
}

/* One shard takes all keys, whatever their hash is. */
Test(shards_sql, a_whole_sink_takes_the_hash_function_that_is_there)
{
        agree(1);
        database_exec(admin, "UPDATE courier.sink SET hash_check = 1");
        agree(1);
        agree(2);
        agree(2);
        agree(1);
        database_exec(admin, "UPDATE courier.sink SET hash_check = 1; DELETE FROM courier.cursor");
        agree(2);
        agree(2);
}

/* Dead letters are redriven before any relay has served the sink, and while it is divided. */
Test(shards_sql, what_is_parked_by_hand_comes_into_the_lane_of_its_key)
{
        static const char park[] =
            "INSERT INTO courier.parked (sink, lane, outbox_id, state, due_at, event_id, topic,"
            " key, created_at) SELECT 'bus', courier.lane_to_park('bus', 0, 'k' || i, i), i,"
            " 'delayed', now(), gen_random_uuid(), 't', 'k' || i, now()"
            " FROM generate_series(%d, %d) AS i";
        PGconn *by_hand = database_connect(database.relay);
        char sql[400];
        PGresult *result;

        snprintf(sql, sizeof sql, park, 1, 30);
        database_exec(by_hand, sql);
        expect_value(admin, "SELECT string_agg(DISTINCT lane::text, ' ') FROM courier.parked", "0");
        agree(3);
        expect_value(admin,
            "SELECT string_agg(DISTINCT lane::text, ' ' ORDER BY lane::text) FROM courier.parked",
            "-1 -2 -3");
        snprintf(sql, sizeof sql, park, 31, 60);
        database_exec(by_hand, "BEGIN");
        database_exec(by_hand, sql);
        cr_assert(
            PQsendQuery(relay, "SELECT courier.agree_shards('bus', 4, false, false, 'test')"));
        await_in_database(admin, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted", "it waits");
        database_exec(by_hand, "COMMIT");
        result = PQgetResult(relay);
        cr_assert_eq(PQresultStatus(result), PGRES_TUPLES_OK, "%s", PQerrorMessage(relay));
        PQclear(result);
        cr_assert_null(PQgetResult(relay));
        expect_value(admin,
            "SELECT count(*) || ' ' || count(*) FILTER (WHERE lane = courier.shard_lane("
            "  courier.shard_of(key, 4, outbox_id), 4)) FROM courier.parked",
            "60 60");
        expect_value(admin, "SELECT courier.lane_to_park('bus', 7, 'k', 1)", "7");
        PQfinish(by_hand);
}
