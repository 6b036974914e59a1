/*
 * courier.publish() with a dedup_key: of each key one event, whichever session publishes again, and when.
 * All callers are told the id of that event.
 */
#include "base/alloc.h"
#include "support/http_receiver.h"
#include "support/postgres_expect.h"
#include "support/program_expect.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEADLINE_MS 60000

static struct test_database database;
static PGconn *app;
static PGconn *other_app;

static void start(void)
{
        database = test_database_make();
        app = database_connect(database.app);
        other_app = database_connect(database.app);
        /* A call that should not wait fails; those that should are given their time. */
        database_exec(app, "SET lock_timeout = '30s'");
        database_exec(other_app, "SET lock_timeout = '30s'");
}

static void stop(void)
{
        PQfinish(app);
        PQfinish(other_app);
        test_database_drop(&database);
}

TestSuite(publish_once, .init = start, .fini = stop);

#define PUBLISH(key, payload) "SELECT courier.publish('t', '" payload "', dedup_key => '" key "')"

#define N_EVENTS "SELECT count(*) FROM courier.outbox"

/* The key's retention is over. */
static void expire(const char *key)
{
        char *sql = xasprintf("UPDATE courier.dedup SET published_at = published_at - interval "
                              "'7 days 1 second' WHERE key LIKE '%s'",
            key);

        database_exec(database.admin, sql);
        free(sql);
}

static void expect_same(const char *id, const char *other)
{
        cr_expect_str_eq(id, other, "%s is not %s", id, other);
}

/* ---- in turn ------------------------------------------------------------------------------ */

Test(publish_once, publishes_the_first_event_of_a_key_and_tells_its_id_to_the_second)
{
        char *first = database_value(app, PUBLISH("k", "1"));
        char *second = database_value(other_app, PUBLISH("k", "2"));

        expect_same(second, first);
        expect_value(
            database.admin, "SELECT string_agg(payload::text, ',') FROM courier.outbox", "1");
        expect_value(database.admin, "SELECT event_id FROM courier.outbox", first);
        free(first);
        free(second);
}

Test(publish_once, publishes_once_in_one_transaction)
{
        char *first, *second;

        database_exec(app, "BEGIN");
        first = database_value(app, PUBLISH("k", "1"));
        second = database_value(app, PUBLISH("k", "2"));
        database_exec(app, "COMMIT");
        expect_same(second, first);
        expect_value(app,
            "SELECT count(DISTINCT id) FROM (SELECT courier.publish('t', '3',"
            " dedup_key => 'one statement') AS id FROM generate_series(1, 9)) AS all_of_it",
            "1");
        expect_value(database.admin, N_EVENTS, "2");
        free(first);
        free(second);
}

Test(publish_once, publishes_events_of_different_keys_and_of_none)
{
        database_exec(app, PUBLISH("a", "1"));
        database_exec(app, PUBLISH("A", "1"));
        database_exec(app, PUBLISH("a ", "1"));
        database_exec(app, "SELECT courier.publish('t', '1'), courier.publish('t', '1')");
        expect_value(database.admin, N_EVENTS, "5");
        expect_value(database.admin, "SELECT count(*) FROM courier.dedup", "3");
}

Test(publish_once, takes_the_first_event_as_it_was_given)
{
        static const char given[] =
            "SELECT courier.publish('t', '1', key => 'k', event_id => '%s',"
            " deliver_at => now() + interval '%s', headers => '%s', dedup_key => 'order-17:v1')";
        static const char first[] = "00000000-0000-4000-8000-000000000001";
        char *sql = xasprintf(given, first, "1 hour", "{\"region\": \"eu\"}");
        char *again = xasprintf(given, "00000000-0000-4000-8000-000000000002", "2 hours", "{}");

        expect_value(app, sql, first);
        expect_value(app, again, first);
        expect_value(database.admin,
            "SELECT event_id || ' ' || headers || (deliver_at < now() + interval '90 min')"
            " FROM courier.outbox",
            "00000000-0000-4000-8000-000000000001"
            " {\"region\": \"eu\", \"dedup-key\": \"order-17:v1\"}true");
        free(sql);
        free(again);
}

Test(publish_once, tells_the_id_of_an_event_whose_row_is_gone)
{
        char *first = database_value(app, PUBLISH("k", "1"));

        database_exec(database.admin, "TRUNCATE courier.outbox");
        expect_value(app, PUBLISH("k", "2"), first);
        expect_value(database.admin, N_EVENTS, "0");
        free(first);
}

/* Nothing to roll back, nothing for vacuum, no relay to wake. */
Test(publish_once, writes_nothing_when_it_repeats)
{
        database_exec(app, PUBLISH("k", "1"));
        database_exec(app, "BEGIN");
        database_exec(app, PUBLISH("k", "2"));
        expect_value(
            app, "SELECT coalesce(pg_current_xact_id_if_assigned()::text, 'none')", "none");
        database_exec(app, "COMMIT");
}

Test(publish_once, looks_at_no_plain_insert_and_at_no_header)
{
        for (int i = 0; i < 2; i++) {
                database_exec(app, "INSERT INTO courier.outbox (topic, payload, headers)"
                                   " VALUES ('t', '1', '{\"dedup-key\": \"k\"}')");
                database_exec(
                    app, "SELECT courier.publish('t', '1', headers => '{\"dedup-key\": \"k\"}')");
        }
        expect_value(database.admin, N_EVENTS, "4");
        expect_value(database.admin, "SELECT count(*) FROM courier.dedup", "0");
}

/* ---- at the same time --------------------------------------------------------------------- */

/* `connection` is sent a statement that waits for another session. */
static void begin_to_wait(PGconn *connection, const char *sql)
{
        char *waits =
            xasprintf("SELECT cardinality(pg_blocking_pids(%d)) > 0", PQbackendPID(connection));

        cr_assert(PQsendQuery(connection, sql));
        await_in_database(database.admin, waits, "it waits");
        free(waits);
}

/* What it answers in the end. */
static char *end_of_wait(PGconn *connection)
{
        PGresult *result = PQgetResult(connection);
        char *value;

        cr_assert_eq(PQresultStatus(result), PGRES_TUPLES_OK, "%s", PQresultErrorMessage(result));
        value = xstrdup(PQgetvalue(result, 0, 0));
        PQclear(result);
        cr_assert_null(PQgetResult(connection));
        return value;
}

Test(publish_once, waits_for_a_first_one_and_tells_its_id_when_that_commits)
{
        char *first, *second;

        database_exec(app, "BEGIN");
        first = database_value(app, PUBLISH("k", "1"));
        begin_to_wait(other_app, PUBLISH("k", "2"));
        database_exec(app, "COMMIT");
        second = end_of_wait(other_app);
        expect_same(second, first);
        expect_value(database.admin, N_EVENTS, "1");
        free(first);
        free(second);
}

Test(publish_once, publishes_when_the_first_one_rolls_back)
{
        char *second;

        database_exec(app, "BEGIN");
        database_exec(app, PUBLISH("k", "1"));
        begin_to_wait(other_app, PUBLISH("k", "2"));
        database_exec(app, "ROLLBACK");
        second = end_of_wait(other_app);
        expect_value(database.admin,
            "SELECT event_id FROM courier.outbox WHERE payload::text = '2'", second);
        expect_value(app, PUBLISH("k", "3"), second);
        free(second);
}

Test(publish_once, publishes_when_the_first_one_rolls_back_to_a_savepoint)
{
        char *second;

        database_exec(app, "BEGIN; SAVEPOINT before");
        database_exec(app, PUBLISH("k", "1"));
        begin_to_wait(other_app, PUBLISH("k", "2"));
        database_exec(app, "ROLLBACK TO SAVEPOINT before");
        second = end_of_wait(other_app);
        expect_value(app, PUBLISH("k", "3"), second);
        database_exec(app, "COMMIT");
        expect_value(
            database.admin, "SELECT string_agg(payload::text, ',') FROM courier.outbox", "2");
        free(second);
}

Test(publish_once, does_not_wait_for_one_that_only_repeats)
{
        database_exec(app, PUBLISH("a", "1"));
        database_exec(app, PUBLISH("b", "1"));
        database_exec(app, "BEGIN");
        database_exec(other_app, "SET lock_timeout = '1ms'; BEGIN");
        database_exec(app, PUBLISH("a", "2"));
        database_exec(other_app, PUBLISH("b", "2"));
        database_exec(app, PUBLISH("b", "2"));
        database_exec(other_app, PUBLISH("a", "2"));
        database_exec(app, "COMMIT");
        database_exec(other_app, "COMMIT");
        expect_value(database.admin, N_EVENTS, "2");
}

static void expect_serialization_failure(const char *begin)
{
        char *key = xasprintf("SELECT courier.publish('t', '1', dedup_key => '%s')", begin);
        char *first;

        database_exec(app, begin);
        database_exec(app, "SELECT 1");
        first = database_value(other_app, key);
        expect_error(app, key, "40001", "could not serialize access due to concurrent update");
        database_exec(app, "ROLLBACK");
        database_exec(app, begin);
        expect_value(app, key, first);
        database_exec(app, "COMMIT");
        free(first);
        free(key);
}

Test(publish_once, fails_to_serialize_behind_a_key_that_its_snapshot_does_not_show)
{
        expect_serialization_failure("BEGIN ISOLATION LEVEL REPEATABLE READ");
        expect_serialization_failure("BEGIN ISOLATION LEVEL SERIALIZABLE");
        expect_value(database.admin, N_EVENTS, "2");
}

enum { N_WRITERS = 8, N_KEYS = 200 };

struct writer {
        pthread_t thread;
        const char *dsn;
        unsigned number;
        char *ids[N_KEYS]; /* that it was told, and committed; NULL: it rolled back */
};

/* All in the same order, so that they meet. A quarter of each key's writers roll back. */
static void *publish_all_keys(void *argument)
{
        struct writer *writer = argument;
        PGconn *connection = database_connect(writer->dsn);

        for (unsigned i = 0; i < N_KEYS; i++) {
                bool is_kept = (writer->number + i) % 4 != 0;
                char *sql = xasprintf(
                    "SELECT courier.publish('t', '%u', dedup_key => 'key-%u')", writer->number, i);
                char *id;
                database_exec(connection, "BEGIN");
                id = database_value(connection, sql);
                database_exec(connection, is_kept ? "COMMIT" : "ROLLBACK");
                if (is_kept)
                        writer->ids[i] = id;
                else
                        free(id);
                free(sql);
        }
        PQfinish(connection);
        return NULL;
}

static void expect_one_event_of_each_key_of_eight_writers(void)
{
        struct writer writers[N_WRITERS];
        unsigned n_wrong = 0;

        for (unsigned i = 0; i < N_WRITERS; i++) {
                writers[i] = (struct writer){.dsn = database.app, .number = i};
                pthread_create(&writers[i].thread, NULL, publish_all_keys, &writers[i]);
        }
        for (unsigned i = 0; i < N_WRITERS; i++)
                pthread_join(writers[i].thread, NULL);

        expect_value(database.admin,
            "SELECT count(*) || ' events of ' || count(DISTINCT headers ->> 'dedup-key') || ' keys'"
            " FROM courier.outbox",
            "200 events of 200 keys");
        for (unsigned key = 0; key < N_KEYS; key++) {
                char *sql = xasprintf("SELECT event_id FROM courier.outbox"
                                      " WHERE headers ->> 'dedup-key' = 'key-%u'",
                    key);
                char *id = database_value(database.admin, sql);
                for (unsigned i = 0; i < N_WRITERS; i++) {
                        const char *told = writers[i].ids[key];
                        n_wrong += told != NULL && strcmp(told, id) != 0;
                        free(writers[i].ids[key]);
                }
                free(id);
                free(sql);
        }
        cr_expect_eq(n_wrong, 0, "%u callers were told another id", n_wrong);
}

Test(publish_once, publishes_one_event_of_each_key_of_eight_writers)
{
        expect_one_event_of_each_key_of_eight_writers();
}

Test(publish_once, publishes_one_more_event_of_each_expired_key_of_eight_writers)
{
        database_exec(app, "SELECT courier.publish('t', 'null', dedup_key => 'key-' || i)"
                           " FROM generate_series(0, 199) AS i");
        database_exec(database.admin, "TRUNCATE courier.outbox");
        expire("key-%");
        expect_one_event_of_each_key_of_eight_writers();
}

static atomic_bool is_over;

static void *forget_all_the_time(void *dsn)
{
        PGconn *connection = database_connect(dsn);

        while (!is_over)
                database_exec(connection, "SELECT courier.forget_dedup_keys(at_most => 7)");
        PQfinish(connection);
        return NULL;
}

Test(publish_once, publishes_one_more_event_of_each_key_while_expired_ones_are_removed)
{
        pthread_t thread;

        database_exec(app, "SELECT courier.publish('t', 'null', dedup_key => 'key-' || i)"
                           " FROM generate_series(0, 199) AS i");
        database_exec(database.admin, "TRUNCATE courier.outbox");
        expire("key-%");
        pthread_create(&thread, NULL, forget_all_the_time, database.relay);
        expect_one_event_of_each_key_of_eight_writers();
        is_over = true;
        pthread_join(thread, NULL);
}

/* ---- retention ---------------------------------------------------------------------------- */

Test(publish_once, publishes_again_when_the_retention_is_over)
{
        char *first = database_value(app, PUBLISH("k", "1"));
        char *second;

        database_exec(database.admin,
            "UPDATE courier.dedup SET published_at = now() - interval '6 days 23 hours'");
        expect_value(app, PUBLISH("k", "2"), first);
        expire("k");
        second = database_value(app, PUBLISH("k", "3"));
        cr_expect_str_neq(second, first);
        expect_value(app, PUBLISH("k", "4"), second);
        expect_value(database.admin,
            "SELECT string_agg(payload::text, ',' ORDER BY id) FROM courier.outbox", "1,3");
        free(first);
        free(second);
}

Test(publish_once, keeps_its_retention_until_another_is_given)
{
        database_exec(database.admin, "SELECT courier.forget_dedup_keys('1 hour')");
        database_exec(database.admin, "SELECT courier.forget_dedup_keys()");
        database_exec(app, PUBLISH("k", "1"));
        database_exec(
            database.admin, "UPDATE courier.dedup SET published_at = now() - interval '61 min'");
        database_exec(app, PUBLISH("k", "2"));
        expect_value(database.admin, N_EVENTS, "2");
        expect_error(database.admin, "SELECT courier.forget_dedup_keys('59 s')", "22023",
            "It must be at least 1 minute");
        expect_error(database.admin, "SELECT courier.forget_dedup_keys(at_most => 0)", "22023",
            "at_most must be from 1 to 1000000");
        expect_value(database.admin, "SELECT retention FROM courier.dedup_retention", "01:00:00");
}

Test(publish_once, forgets_expired_keys_the_oldest_first_and_no_others)
{
        database_exec(app, "SELECT courier.publish('t', '1', dedup_key => 'key-' || i)"
                           " FROM generate_series(1, 9) AS i");
        expire("key-5");
        expire("key-7");
        expire("key-3");
        expect_value(database.admin,
            "SELECT f.keys || ' ' || (f.until = (SELECT published_at FROM courier.dedup"
            " WHERE key = 'key-5')) FROM courier.forget_dedup_keys(at_most => 2) AS f",
            "2 true");
        expect_value(database.admin,
            "SELECT string_agg(key, ' ' ORDER BY key) FROM courier.dedup WHERE published_at <"
            " now() - interval '1 day'",
            "key-7");
        expect_value(database.admin, "SELECT keys FROM courier.forget_dedup_keys()", "1");
        expect_value(database.admin, "SELECT count(*) FROM courier.dedup", "6");
        expect_value(database.admin, "SELECT keys FROM courier.forget_dedup_keys()", "0");
}

Test(publish_once, forgets_no_key_that_is_just_taken_anew_and_does_not_wait_for_it)
{
        PGconn *relay = database_connect(database.relay);

        database_exec(app, PUBLISH("k", "1"));
        database_exec(app, PUBLISH("l", "1"));
        expire("_");
        database_exec(app, "BEGIN");
        database_exec(app, PUBLISH("k", "2"));
        database_exec(relay, "SET lock_timeout = '1ms'");
        expect_value(relay, "SELECT keys FROM courier.forget_dedup_keys()", "1");
        database_exec(app, "COMMIT");
        expect_value(relay, "SELECT keys FROM courier.forget_dedup_keys()", "0");
        expect_value(database.admin, "SELECT string_agg(key, ',') FROM courier.dedup", "k");
        PQfinish(relay);
}

/* The call has found the key taken, and reads for how long; then its row goes. */
Test(publish_once, keeps_a_key_that_is_removed_while_it_is_looked_up)
{
        char *id;

        database_exec(app, PUBLISH("k", "1"));
        expire("k");
        database_exec(
            database.admin, "BEGIN; LOCK TABLE courier.dedup_retention IN ACCESS EXCLUSIVE MODE");
        cr_assert(PQsendQuery(app, PUBLISH("k", "2")));
        await_in_database(database.admin,
            "SELECT count(*) = 1 FROM pg_locks WHERE NOT granted"
            " AND relation = 'courier.dedup_retention'::regclass",
            "it reads the retention");
        database_exec(database.admin, "DELETE FROM courier.dedup; COMMIT");
        id = end_of_wait(app);
        expect_value(database.admin, "SELECT event_id FROM courier.dedup", id);
        expect_value(other_app, PUBLISH("k", "3"), id);
        free(id);
}

#define RELAY "postgres: {dsn: \"%s\"}\nsinks:\n  - {name: out, topics: [\"**\"], stdout: {}}\n"

/* More than one batch of 10000. */
Test(publish_once, is_forgotten_by_the_relay_as_its_configuration_says)
{
        struct relay_process *relay;

        database_exec(database.admin,
            "INSERT INTO courier.dedup (key, event_id, published_at) SELECT i, gen_random_uuid(),"
            " now() - interval '1 hour' - i * interval '1 ms' FROM generate_series(1, 25000) AS i;"
            "INSERT INTO courier.dedup (key, event_id) VALUES ('young', gen_random_uuid())");
        relay = relay_start(
            RELAY "outbox: {dedup_retention: 1d}\nlog: {level: debug}\n", database.relay);
        await_in_database(database.admin, "SELECT retention = '1 day' FROM courier.dedup_retention",
            "the retention is told");
        relay_wait_for_log(relay, "connection=maintenance from=greeting to=closed", DEADLINE_MS);
        relay_reload(
            relay, RELAY "outbox: {dedup_retention: 30m}\nlog: {level: debug}\n", database.relay);
        relay_wait_for_log(relay, "event=dedup_keys_forgotten keys=25000", DEADLINE_MS);
        expect_value(database.admin, "SELECT string_agg(key, ',') FROM courier.dedup", "young");
        expect_value(database.admin, "SELECT retention FROM courier.dedup_retention", "00:30:00");
        relay_stop(relay);
        relay_destroy(relay);
}

Test(publish_once, is_forgotten_by_the_command_maintain)
{
        database_exec(app, "SELECT courier.publish('t', '1', dedup_key => 'key-' || i)"
                           " FROM generate_series(1, 3) AS i");
        expire("key-2");
        expect_texts(program_run(NULL, "maintain", "--dsn", database.dsn, NULL), 0,
            "removed expired dedup keys: 1\n");
        expect_output(
            program_run(NULL, "maintain", "--dsn", database.dsn, NULL), "nothing to do\n");
        database_exec(
            database.admin, "UPDATE courier.dedup SET published_at = now() - interval '2 hours'");
        expect_output(
            program_run(NULL, "maintain", "--dsn", database.dsn, "--dedup-retention", "1h", NULL),
            "removed expired dedup keys: 2\n");
        expect_value(database.admin, "SELECT retention FROM courier.dedup_retention", "01:00:00");
        expect_refusal(
            program_run(NULL, "maintain", "--dsn", database.dsn, "--dedup-retention", "59s", NULL),
            2, "--dedup-retention: \"59s\" is shorter than 1m, the least that is allowed");
}

/* ---- refusals and rights ------------------------------------------------------------------ */

Test(publish_once, names_every_rule_that_a_key_breaks)
{
        expect_error(app, PUBLISH("", "1"), "23514", "dedup_key_must_not_be_empty");
        expect_error(app, "SELECT courier.publish('t', '1', dedup_key => repeat('ü', 128))",
            "23514", "dedup_key_must_be_at_most_255_bytes");
        expect_error(app, "SELECT courier.publish('t', '1', dedup_key => E'a\\nb')", "23514",
            "dedup_key_must_not_contain_control_characters");
        expect_error(app,
            "SELECT courier.publish('t', '1', headers => '{\"dedup-key\": \"l\"}', dedup_key => "
            "'k')",
            "23514", "headers_must_not_have_another_dedup_key");
        expect_error(app, "SELECT courier.publish('t', '1', headers => '[]', dedup_key => 'k')",
            "23514", "headers_must_be_an_object");
        database_exec(app, "SELECT courier.publish('t', '1', headers => '{\"dedup-key\": \"k\"}',"
                           " dedup_key => 'k')");
        database_exec(app, "SELECT courier.publish('t', '1', dedup_key => repeat('x', 255))");
        expect_value(database.admin, N_EVENTS, "2");
}

Test(publish_once, keeps_no_key_of_an_event_that_is_refused)
{
        expect_error(app, "SELECT courier.publish('', '1', dedup_key => 'k')", "23514",
            "topic_must_not_be_empty");
        expect_value(database.admin, "SELECT count(*) FROM courier.dedup", "0");
}

Test(publish_once, shows_a_publisher_no_key)
{
        expect_error(app, "SELECT key FROM courier.dedup", "42501", "permission denied");
        expect_error(app,
            "INSERT INTO courier.dedup (key, event_id) VALUES ('k', gen_random_uuid())", "42501",
            "permission denied");
        expect_error(app, "DELETE FROM courier.dedup", "42501", "permission denied");
        expect_error(app, "UPDATE courier.dedup_retention SET retention = '1 min'", "42501",
            "permission denied");
        expect_error(
            app, "SELECT courier.forget_dedup_keys('1 min')", "42501", "permission denied");
}

/* ---- on the way --------------------------------------------------------------------------- */

Test(publish_once, carries_the_key_as_a_header)
{
        struct relay_fixture fixture;
        struct http_receiver *http = http_receiver_start(NULL, NULL);
        struct relay_process *relay;
        PGconn *writer;
        char *value;

        relay_fixture_begin(&fixture, postgres_shared());
        relay = relay_start("postgres: {dsn: \"%s\"}\n"
                            "sinks:\n"
                            "  - {name: bus, topics: [\"**\"], start: beginning,\n"
                            "     redis: {url: \"unix://%s\", stream: events}}\n"
                            "  - {name: hook, topics: [\"**\"], start: beginning,\n"
                            "     http: {url: \"http://127.0.0.1:%u/\", headers: [dedup-key]}}\n",
            fixture.relay, fixture.redis.socket_path, http_receiver_port(http));
        writer = database_connect(fixture.app);
        database_exec(writer, PUBLISH("order-17:v1", "1"));
        relay_fixture_await(&fixture, "events", 1);
        http_receiver_wait(http, 1, DEADLINE_MS);
        database_exec(writer, PUBLISH("order-17:v1", "2"));
        database_exec(writer, "SELECT courier.publish('t', '3')");
        relay_fixture_await(&fixture, "events", 2);
        relay_fixture_expect_field(&fixture, "events", 0, "header:dedup-key", "order-17:v1");
        relay_fixture_expect_field(&fixture, "events", 1, "payload", "3");
        value = http_request_header(http_receiver_request(http, 0), "dedup-key");
        cr_expect(value != NULL && strcmp(value, "order-17:v1") == 0, "the header is %s",
            value != NULL ? value : "missing");
        free(value);
        PQfinish(writer);
        relay_stop(relay);
        relay_destroy(relay);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
}

Test(publish_once, is_told_by_the_command_publish)
{
        struct program_run run = program_run(NULL, "publish", "t", "--payload", "1", "--dedup-key",
            "k", "--dsn", database.app, NULL);
        char *id = database_value(database.admin, "SELECT event_id FROM courier.outbox");
        char *published = xasprintf("%s published\n", id);
        char *before = xasprintf("%s published before\n", id);

        expect_output(run, published);
        expect_output(program_run(NULL, "publish", "t", "--payload", "2", "--dedup-key", "k",
                          "--dsn", database.app, NULL),
            before);
        expect_value(database.admin, N_EVENTS, "1");
        expect_refusal(program_run(NULL, "publish", "t", "--payload", "2", "--dedup-key", "",
                           "--dsn", database.app, NULL),
            2, "pgcourier: dedup key must not be empty\n");
        expect_refusal(program_run(NULL, "publish", "t", "--payload", "2", "--dedup-key", "k2",
                           "--header", "dedup-key=k3", "--dsn", database.app, NULL),
            2, "pgcourier: headers must not have another dedup key\n");
        free(id);
        free(published);
        free(before);
}
