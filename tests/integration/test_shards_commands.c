/*
 * Commands on a sink with shards, in the middle of a division: what they say, and that they reach
 * the lane of each event's key. shards.h says what there is.
 */
#include "base/alloc.h"
#include "support/postgres_expect.h"
#include "support/program_expect.h"
#include "support/relay_fixture.h"
#include "support/shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct test_database database;
static PGconn *admin;
static char *config;

static void start(void)
{
        char *text;

        database = test_database_make();
        admin = database.admin;
        shards_divide(admin);
        database_exec(admin, "UPDATE courier.cursor SET settled_at = '2026-01-02 03:04:05+00'");
        text = xasprintf("postgres: {dsn: \"%s\"}\n"
                         "sinks: [{name: bus, topics: ['**'], stdout: {}}]\n",
            database.relay);
        config = program_file("config.yaml", text, strlen(text));
        free(text);
}

static void stop(void)
{
        free(config);
        test_database_drop(&database);
}

TestSuite(shards_commands, .init = start, .fini = stop);

#define RUN(...) program_run(NULL, __VA_ARGS__, "-c", config, NULL)

/* A relay that has this shard's lock. */
static PGconn *own(const char *lane)
{
        PGconn *owner = database_connect(database.relay);
        char *sql = xasprintf(
            "SELECT pg_advisory_lock(1668248946, lock_id) FROM courier.cursor WHERE lane = %s",
            lane);

        database_exec(owner, sql);
        free(sql);
        return owner;
}

#define N_PASSED "SELECT count(*) FROM shard_event WHERE is_passed"
#define N_STRAY                                                                                    \
        "SELECT count(*) FROM courier.parked"                                                      \
        " WHERE lane <> courier.shard_lane(courier.shard_of(key, 3, outbox_id), 3)"

/* What the fixture is meant to be: a part of 21 to 40 is behind the sink, and no lane. */
Test(shards_commands, have_a_sink_in_the_middle_of_a_division)
{
        expect_value(admin, N_PASSED " AND id <= 20", "20");
        expect_value(admin, N_PASSED " AND id BETWEEN 21 AND 40 AND key = 'k1'", "3");
        expect_value(admin, N_PASSED " AND id BETWEEN 21 AND 40", "11");
        expect_value(admin, N_PASSED " AND id > 40", "0");
        expect_value(admin,
            "SELECT count(DISTINCT lane) || ' ' || min(from_floor) || ' ' || max(from_floor)"
            " FROM courier.cursor",
            "3 20 20");
        expect_value(admin, "SELECT count(DISTINCT lane) FROM shard_event", "3");
}

Test(shards_commands, cursor_list_shows_each_shard)
{
        PGconn *owner = own("-2");
        char *expected =
            xasprintf("SINK LANE SHARD  REACHED BEHIND SETTLED              OWNER%*s"
                      " CONFIG\n"
                      "bus    -1 0 of 3      20     40 2026-01-02T03:04:05Z %*s yes\n"
                      "bus    -2 1 of 3      20     40 2026-01-02T03:04:05Z pid %d yes\n"
                      "bus    -3 2 of 3      20     40 2026-01-02T03:04:05Z %*s yes\n",
                snprintf(NULL, 0, "pid %d", PQbackendPID(owner)) - 5, "",
                snprintf(NULL, 0, "pid %d", PQbackendPID(owner)), "", PQbackendPID(owner),
                snprintf(NULL, 0, "pid %d", PQbackendPID(owner)), "");

        expect_output(RUN("cursor", "list"), expected);
        free(expected);
        PQfinish(owner);
        expect_texts(RUN("cursor", "list", "--json"), 0,
            "\"lane\":-3,\"receiver\":null,\"shard\":2,"
            "\"shards\":3,");
}

Test(shards_commands, status_shows_who_has_which)
{
        PGconn *owner = own("-2");

        database_exec(owner, "SELECT courier.join_relays('north', 'host', '1', 1, '{\"bus\": 2}')");
        expect_texts(RUN("status"), 0, "bus: 3 shards; north: 1; no relay: 0, 2\n",
            "A relay has another number of shards for bus\n",
            "Relay north has shards: 2 in its configuration, 3 are in force.",
            "No relay delivers shards 0, 2 of bus\n");
        PQfinish(owner);
}

Test(shards_commands, cursor_drop_takes_all_shards_or_none)
{
        PGconn *owner = own("-3");

        expect_refusal(RUN("cursor", "drop", "bus", "--force", "--yes"), 75,
            "a running relay owns the lane of sink bus");
        database_exec(owner, "SELECT pg_advisory_unlock_all()");
        PQfinish(owner);
        expect_output(
            RUN("cursor", "drop", "bus", "--force", "--yes"), "3 cursors of sink bus dropped\n");
        expect_value(admin,
            "SELECT count(*) + (SELECT count(*) FROM courier.shard_end) FROM courier.cursor", "0");
        database_exec(admin, "SELECT courier.agree_shards('bus', 1, false, false, 'test')");
        expect_output(RUN("cursor", "drop", "bus", "--lane", "0", "--force", "--yes"),
            "1 cursor of sink bus dropped\n");
}

/* The lock of its shard holds a receiver's lane: that of no other. */
Test(shards_commands, cursor_drop_of_a_receiver_asks_for_the_lock_of_its_shard)
{
        PGconn *owner;

        database_exec(admin,
            "DELETE FROM courier.cursor; DELETE FROM courier.shard_end;"
            "UPDATE courier.sink SET fans_out = true;"
            "SELECT courier.agree_shards('bus', 2, true, false, 'test');"
            "INSERT INTO courier.cursor (sink, lane, system_identifier, from_snapshot, from_floor,"
            " from_xid) SELECT 'bus', lane, system_identifier, '1:1:', 0, '3'"
            " FROM generate_series(4, 5) AS lane, pg_control_system();"
            "INSERT INTO courier.receiver (id, sink, name, url) OVERRIDING SYSTEM VALUE"
            " VALUES (4, 'bus', 'four', 'http://four/'), (5, 'bus', 'five', 'http://five/')");
        owner = own("-1");
        expect_value(admin,
            "SELECT string_agg(lane::text, ' ' ORDER BY lane) FROM courier.lane_owner", "-1 4");
        expect_value(admin,
            "SELECT string_agg(name || ' ' || is_served, ', ' ORDER BY name DESC)"
            " FROM courier.receiver_status",
            "four true, five false");
        expect_refusal(RUN("cursor", "drop", "bus", "--lane", "4", "--force", "--yes"), 75,
            "a running relay owns the lane of sink bus");
        expect_output(RUN("cursor", "drop", "bus", "--lane", "5", "--force", "--yes"),
            "1 cursor of sink bus dropped\n");
        PQfinish(owner);
}

Test(shards_commands, rewind_brings_back_what_any_shard_had)
{
        expect_output(RUN("rewind", "--sink", "bus", "--to", "10", "--yes"),
            "sink bus: 3 of 3 cursors moved back to id 10; up to 31 events are delivered again\n");
        expect_value(admin, N_PASSED, "9");
        expect_value(admin, "SELECT count(*) FROM courier.shard_end", "0");
}

Test(shards_commands, replay_repeats_what_the_sink_has_behind_it)
{
        char *passed = database_value(admin, N_PASSED);
        char *expected = xasprintf("%s events are on their way to sink bus once more\n", passed);

        expect_output(
            RUN("replay", "--sink", "bus", "--from", "1", "--yes", "--rate", "1000/s"), expected);
        expect_value(admin, "SELECT count(*) FROM courier.parked", passed);
        expect_value(admin, N_STRAY, "0");
        expect_value(admin, "SELECT count(DISTINCT lane) FROM courier.parked", "3");
        free(expected);
        free(passed);
        expect_output(RUN("replay", "--sink", "bus", "--from", "21", "--to", "40", "--key", "k1",
                          "--dry-run"),
            "3 events would be delivered to sink bus once more\n");
}

#define DEAD_LETTERS                                                                               \
        "INSERT INTO courier.dead_letter (sink, lane, outbox_id, reason, attempts, error,"         \
        "  event_id, topic, key, payload, created_at) SELECT 'bus', 0, i, 'age', 1, 'no',"         \
        "  gen_random_uuid(), 't', 'k' || i % 7, '{}', now() FROM generate_series(1, 20) AS i"

Test(shards_commands, redriven_dead_letters_are_parked_in_the_lane_of_their_key)
{
        database_exec(admin, DEAD_LETTERS);
        database_exec(admin, DEAD_LETTERS); /* of two of one delivery the first */
        expect_texts(RUN("dead", "redrive", "--all", "--yes"), 75, "20 dead letters redriven");
        expect_value(admin, "SELECT count(*) FROM courier.parked", "20");
        expect_value(admin, N_STRAY, "0");
        expect_value(admin, "SELECT count(*) FROM courier.dead_letter", "20");
        expect_texts(RUN("parked", "list", "--json"), 0, "\"lane\":-3,\"receiver\":null,");
        expect_texts(RUN("parked", "skip", "--all", "--yes"), 0, "20 parked deliveries");
        expect_value(admin, "SELECT count(*) FROM courier.parked WHERE skip", "20");
}

Test(shards_commands, trace_asks_the_lane_of_the_events_key)
{
        static const char state[] = "SELECT t.state || coalesce(': ' || t.reason, '')"
                                    " FROM courier.trace(%d) AS t";
        char sql[160];
        PGconn *owner;
        int64_t id, lane;

        snprintf(sql, sizeof sql, state, 20);
        expect_value(admin, sql, "delivered");
        id = database_integer(
            admin, "SELECT min(id) FROM shard_event WHERE id BETWEEN 21 AND 40 AND is_passed");
        snprintf(sql, sizeof sql, state, (int)id);
        expect_value(admin, sql, "delivered");
        snprintf(sql, sizeof sql, state, 41);
        expect_value(admin, sql, "waiting: no relay is running it");
        lane = database_integer(admin, "SELECT lane FROM shard_event WHERE id = 41");
        snprintf(sql, sizeof sql, "%d", (int)lane);
        owner = own(sql);
        snprintf(sql, sizeof sql, state, 41);
        expect_value(admin, sql, "waiting: earlier events come first");
        database_exec(admin, "DELETE FROM courier.cursor WHERE lane <> "
                             " (SELECT lane FROM shard_event WHERE id = 41)");
        expect_value(admin, sql, "waiting: earlier events come first");
        database_exec(admin,
            "INSERT INTO courier.parked (sink, lane, outbox_id, state, due_at, event_id, topic,"
            " key, created_at, last_error) SELECT 'bus', lane, id, state, now(),"
            " gen_random_uuid(), 't', key, now(), 'no' FROM (VALUES (41, 'retry'),"
            " (48, 'blocked')) AS its (id, state) JOIN shard_event USING (id)");
        expect_value(admin, sql, "retrying: no");
        snprintf(sql, sizeof sql, state, 48);
        expect_value(admin, sql, "waiting: behind event 41 of its key, which is retried");
        database_exec(admin, "TRUNCATE courier.outbox");
        expect_value(admin, sql, "waiting: behind event 41 of its key, which is retried");
        PQfinish(owner);
}

/* All other lanes are at the end of time. */
Test(shards_commands, send_follows_the_event_in_the_lane_of_its_key)
{
        static const char alone[] =
            "UPDATE courier.cursor SET from_snapshot = CASE WHEN (lane = -2) = %s"
            " THEN '4000000000:4000000000:' ELSE '1:1:' END::pg_snapshot";
        char *key = database_value(admin, "SELECT key FROM shard_event WHERE lane = -2 LIMIT 1");
        char sql[300];

        database_exec(admin, "GRANT courier_publisher TO relay");
        snprintf(sql, sizeof sql, alone, "false");
        database_exec(admin, sql);
        expect_texts(RUN("send", "t", "--key", key, "--data", "1"), 75, "waits: no relay ");
        snprintf(sql, sizeof sql, alone, "true");
        database_exec(admin, sql);
        expect_texts(RUN("send", "t", "--key", key, "--data", "1"), 0, "ms: delivered and settled");
        database_exec(admin, "REVOKE courier_publisher FROM relay");
        free(key);
}

Test(shards_commands, what_waits_is_counted_once)
{
        char *waiting = database_value(
            admin, "SELECT count(*) || ' true' FROM shard_event WHERE NOT is_passed");

        database_exec(admin, "SELECT courier.note_sink('bus', false, '{}', '{**}', '{}')");
        expect_value(
            admin, "SELECT events || ' ' || is_exact FROM courier.waiting('bus', 0)", waiting);
        free(waiting);
        expect_value(admin,
            "SELECT bool_and(waiting.events = n) FROM (SELECT lane, count(*) AS n FROM shard_event"
            "  WHERE NOT is_passed GROUP BY lane) AS its, courier.waiting('bus', lane)",
            "t");
        expect_value(admin,
            "SELECT string_agg(h.sink || ' ' || h.lane || ' ' || h.events, ', ') = 'bus 0 '"
            "   || (SELECT count(*) FROM shard_event WHERE NOT is_passed)"
            " FROM courier.outbox_partition AS p, courier.outbox_holders(p, true) AS h"
            " WHERE p.name = 'outbox_p1'",
            "t");
}

static const char keep_sql[] =
    "DROP TABLE IF EXISTS was; CREATE TABLE was AS SELECT * FROM shard_event";
static const char changed_sql[] =
    "SELECT coalesce(string_agg(format('%s in %s: %s', id, now.lane, now.is_passed), ', '), '')"
    " FROM shard_event AS now JOIN was USING (sink, id)"
    " WHERE now.lane IS NULL OR now.is_passed IS DISTINCT FROM was.is_passed";

#define REWRITTEN "the transaction ids of the outbox and its cursors were written anew\n"
#define VALID     "this cluster is past all transaction ids of the outbox: they stay as they are\n"

/* Says this, and how many events wait. */
static void rebase_it(const char *words)
{
        char *dsn = dsn_as_user(database.dsn, "postgres");
        struct program_run run = program_run(NULL, "rebase", "--dsn", dsn, NULL);
        char *waiting = database_value(admin,
            "SELECT E'\nbus: events of all topics not yet passed: ' || count(*) || E'\n'"
            " FROM shard_event WHERE NOT is_passed");

        expect_texts(run, 0, words, waiting);
        free(waiting);
        free(dsn);
}

static void expect_rebase_to_keep_the_places(const char *words)
{
        database_exec(admin, "SELECT shard_go('bus', -2, 33); SELECT shard_go('bus', -3, 50)");
        database_exec(admin, keep_sql);
        rebase_it(words);
        expect_value(admin, changed_sql, "");
        database_exec(admin, "SELECT courier.agree_shards('bus', 4, false, false, 'test')");
        expect_value(admin, changed_sql, "");
        database_exec(admin, "SELECT count(courier.publish('t', '1', 'k' || i))"
                             " FROM generate_series(1, 9) AS i");
        expect_value(admin, N_PASSED " AND id > 60", "0");
}

Test(shards_commands, rebase_keeps_what_each_shard_has_behind_it)
{
        expect_rebase_to_keep_the_places(VALID);
}

Test(shards_commands, rebase_writes_down_anew_what_each_shard_has_behind_it)
{
        database_exec(admin, "INSERT INTO courier.outbox (topic, payload, key, txid)"
                             " VALUES ('t', '1', 'k1', '4000000000')"); /* of the future */
        expect_rebase_to_keep_the_places(REWRITTEN);
        expect_value(admin, "SELECT count(*) FROM courier.shard_end WHERE shards = 2", "0");
}

/* An event that was published after a restore, under an id that a former shard had behind it. */
Test(shards_commands, rebase_looks_at_the_ids_of_former_shards)
{
        database_exec(admin, "INSERT INTO courier.outbox (topic, payload, key, txid)"
                             " SELECT 't', '1', key, txid FROM courier.outbox"
                             " WHERE id = (SELECT max(id) FROM shard_event"
                             "             WHERE is_passed AND id BETWEEN 21 AND 40)");
        expect_value(admin, N_PASSED " AND id = 61", "1");
        rebase_it(REWRITTEN);
        expect_value(admin, N_PASSED " AND id = 61", "0");
}

/* The keys of the shard that was ahead may be another's now. */
Test(shards_commands, rebase_on_another_kind_of_machine_begins_with_the_furthest_behind)
{
        database_exec(admin,
            "SELECT shard_go('bus', -3, 50); UPDATE courier.sink SET hash_check = 1;"
            "INSERT INTO courier.parked (sink, lane, outbox_id, state, due_at, event_id, topic, "
            "key,"
            " created_at) SELECT 'bus', -1 - i % 3, i, 'retry', now(), gen_random_uuid(), 't',"
            " 'k' || i % 7, now() FROM generate_series(1, 20) AS i");
        rebase_it(REWRITTEN);
        expect_value(admin, N_PASSED, "20");
        expect_value(admin, N_PASSED " AND id <= 20", "20");
        expect_value(admin, N_STRAY, "0");
        expect_value(admin,
            "SELECT verdict FROM courier.agree_shards('bus', 3, false, false, 'test')", "ready");
}
