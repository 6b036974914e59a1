/* The doorbell between writers and relays. No relay here sweeps: what is delivered was rung for, or
 * looked for. */
#include "base/alloc.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The lock, in this database. */
#define LOCK                                                                                       \
        "FROM pg_locks WHERE locktype = 'advisory' AND classid = 1668248946 AND objid = 0 AND "    \
        "database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
#define IS_HELD    "SELECT EXISTS (SELECT " LOCK "AND granted AND mode = 'ExclusiveLock')"
#define IS_AWAITED "SELECT EXISTS (SELECT " LOCK "AND NOT granted)"
#define IS_UNUSED  "SELECT NOT EXISTS (SELECT " LOCK ")"

#define N_IN(stream, fixture) redis_server_count(&(fixture)->redis, "XLEN " stream)

static struct relay_process *start_sink(
    const struct relay_fixture *fixture, const char *stream, const char *wakeup)
{
        return relay_start("postgres: {dsn: \"%s\"}\n"
                           "relay: {sweep: 1h, standby: 50ms, wakeup: %s}\n"
                           "sinks:\n"
                           "  - {name: %s, topics: [\"**\"], start: beginning,\n"
                           "     redis: {url: \"unix://%s\", stream: %s}}\n",
            fixture->relay, wakeup, stream, fixture->redis.socket_path, stream);
}

static void await_sleep(const struct relay_fixture *fixture)
{
        await_in_database(fixture->admin, IS_HELD, "a relay sleeps");
}

static struct relay_process *begin(struct relay_fixture *fixture)
{
        struct relay_process *relay;

        relay_fixture_begin(fixture, postgres_shared());
        relay = start_sink(fixture, "events", "notify");
        await_sleep(fixture);
        return relay;
}

static void end(struct relay_fixture *fixture, struct relay_process *relay)
{
        relay_stop(relay);
        relay_destroy(relay);
        relay_fixture_end(fixture);
}

/* One after the other, each awaited. */
static void publish_and_await(struct relay_fixture *fixture, int n_events)
{
        long long n = N_IN("events", fixture);

        for (int i = 1; i <= n_events; i++) {
                publish(fixture->admin, "t", "k", "x");
                relay_fixture_await(fixture, "events", n + i);
        }
}

/* So many transactions, as fast as the server can. */
static void burst(PGconn *connection, int n_transactions)
{
        char sql[160];

        snprintf(sql, sizeof sql,
            "DO $$ BEGIN FOR i IN 1..%d LOOP PERFORM courier.publish('t', '1'); COMMIT; END LOOP; "
            "END $$",
            n_transactions);
        database_exec(connection, sql);
}

static PGconn *listen_to_writers(const struct relay_fixture *fixture)
{
        PGconn *spectator = database_connect(fixture->dsn);

        database_exec(spectator, "LISTEN courier");
        return spectator;
}

/* A statement brings along all that was sent before. */
static int count_rings(PGconn *spectator)
{
        PGnotify *notification;
        int n = 0;

        database_exec(spectator, "SELECT");
        while ((notification = PQnotifies(spectator)) != NULL) {
                PQfreemem(notification);
                n++;
        }
        return n;
}

/* ---- writers --------------------------------------------------------------------------------- */

Test(doorbell_writer, rings_only_while_the_lock_is_held_or_awaited)
{
        struct relay_fixture fixture;
        PGconn *spectator, *sleeper, *skipper;

        relay_fixture_begin(&fixture, postgres_shared());
        spectator = listen_to_writers(&fixture);
        sleeper = database_connect(fixture.dsn);
        skipper = database_connect(fixture.dsn);

        burst(fixture.admin, 10);
        cr_expect_eq(count_rings(spectator), 0, "no relay sleeps");

        database_exec(sleeper, "SELECT courier.await_quiet(1000)");
        burst(fixture.admin, 10);
        cr_expect_eq(count_rings(spectator), 10, "a relay sleeps");
        database_exec(sleeper, "SELECT pg_advisory_unlock_all()");
        burst(fixture.admin, 10);
        cr_expect_eq(count_rings(spectator), 0);

        database_exec(skipper, "BEGIN; SELECT courier.publish('t', '1')");
        cr_assert(PQsendQuery(sleeper, "SELECT courier.await_quiet(60000)"));
        await_in_database(fixture.admin, IS_AWAITED, "it waits for the one who skipped the bell");
        burst(fixture.admin, 10);
        cr_expect_eq(count_rings(spectator), 10, "a relay waits");
        database_exec(skipper, "SELECT courier.publish('t', '2'); COMMIT");
        await_in_database(fixture.admin, IS_HELD, "the wait ends");
        cr_expect_eq(count_rings(spectator), 0, "it had the lock, and has skipped the bell twice");
        PQfinish(sleeper);
        PQfinish(skipper);
        PQfinish(spectator);
        relay_fixture_end(&fixture);
}

Test(doorbell_writer, lets_a_wait_end_without_the_lock)
{
        struct relay_fixture fixture;
        PGconn *sleeper;
        char *granted;

        relay_fixture_begin(&fixture, postgres_shared());
        sleeper = database_connect(fixture.dsn);
        database_exec(fixture.admin, "BEGIN; SELECT courier.publish('t', '1')");
        granted = database_value(sleeper, "SELECT courier.await_quiet(1)");
        cr_expect_str_eq(granted, "f");
        database_exec(fixture.admin, "COMMIT");
        cr_expect_eq(database_integer(fixture.admin, "SELECT count(*) " LOCK), 0);
        free(granted);
        PQfinish(sleeper);
        relay_fixture_end(&fixture);
}

/* PostgreSQL gives back all locks of a cursor that fails within a savepoint, its rows from
 * before stay. */
Test(doorbell_writer, leaves_a_cursor_that_fails_in_a_savepoint_to_the_sweep)
{
        struct relay_fixture fixture;
        struct relay_process *relay;
        PGconn *spectator, *app;

        relay_fixture_begin(&fixture, postgres_shared());
        app = database_connect(fixture.app);
        database_exec(app,
            "BEGIN; DECLARE c CURSOR FOR SELECT CASE n WHEN 2 THEN (1 / (n - 2))::text"
            "  ELSE courier.publish('t', '1')::text END FROM generate_series(1, 2) AS n;"
            "FETCH c; SAVEPOINT s");
        cr_expect_eq(database_integer(fixture.admin, "SELECT count(*) " LOCK), 1);
        PQclear(PQexec(app, "FETCH c"));
        database_exec(app, "ROLLBACK TO s");
        cr_expect_eq(database_integer(fixture.admin, "SELECT count(*) " LOCK), 0);

        relay = relay_start("postgres: {dsn: \"%s\"}\n"
                            "relay: {sweep: 200ms}\n"
                            "sinks:\n"
                            "  - {name: events, topics: [\"**\"], start: beginning,\n"
                            "     redis: {url: \"unix://%s\", stream: events}}\n",
            fixture.relay, fixture.redis.socket_path);
        await_sleep(&fixture);
        spectator = listen_to_writers(&fixture);
        database_exec(app, "COMMIT");
        relay_fixture_await(&fixture, "events", 1);
        cr_expect_eq(count_rings(spectator), 0);
        PQfinish(spectator);
        PQfinish(app);
        end(&fixture, relay);
}

/* What a savepoint takes back does not silence what comes after. */
Test(doorbell_writer, rings_anew_after_a_rollback)
{
        static const char *const ways[] = {
            "BEGIN; SAVEPOINT s; SELECT courier.publish('t', '1'); ROLLBACK TO s;"
            "SELECT courier.publish('t', '2'); COMMIT",
            "BEGIN; SELECT courier.publish('t', '1'); ROLLBACK",
            "BEGIN; SELECT courier.publish('t', '1'); COMMIT",
            "BEGIN; SAVEPOINT s; SELECT courier.publish('t', '1'); RELEASE s;"
            "SELECT courier.publish('t', '2'); COMMIT",
            "INSERT INTO courier.outbox (topic, payload) SELECT 't', '1' FROM generate_series(1, "
            "9)",
        };
        static const int expected[] = {1, 0, 1, 1, 1};
        struct relay_fixture fixture;
        PGconn *spectator, *sleeper;

        relay_fixture_begin(&fixture, postgres_shared());
        spectator = listen_to_writers(&fixture);
        sleeper = database_connect(fixture.dsn);
        database_exec(sleeper, "SELECT courier.await_quiet(1000)");
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
                database_exec(fixture.admin, ways[i]);
                cr_expect_eq(count_rings(spectator), expected[i], "%s", ways[i]);
        }
        PQfinish(sleeper);
        PQfinish(spectator);
        relay_fixture_end(&fixture);
}

/* As pg_dump writes it down and psql reads it; partitions are made with it. */
Test(doorbell_writer, survives_a_dump)
{
        struct relay_fixture fixture;
        PGconn *spectator, *sleeper;

        relay_fixture_begin(&fixture, postgres_shared());
        database_exec(fixture.admin,
            "SELECT set_config('search_path', '', false);"
            "DO $$ DECLARE words text := pg_get_expr(adbin, adrelid) FROM pg_attrdef"
            " WHERE adrelid = 'courier.outbox'::regclass AND adnum = 1;"
            "BEGIN EXECUTE 'ALTER TABLE courier.outbox ALTER txid SET DEFAULT ' || words; END $$");
        spectator = listen_to_writers(&fixture);
        sleeper = database_connect(fixture.dsn);
        burst(fixture.admin, 1);
        cr_expect_eq(count_rings(spectator), 0);
        database_exec(sleeper, "SELECT courier.await_quiet(1000)");
        burst(fixture.admin, 1);
        cr_expect_eq(count_rings(spectator), 1);
        PQfinish(sleeper);
        PQfinish(spectator);
        relay_fixture_end(&fixture);
}

Test(doorbell_writer, is_quietened_by_relays_only)
{
        struct relay_fixture fixture;

        relay_fixture_begin(&fixture, postgres_shared());
        cr_expect_eq(
            database_integer(fixture.admin,
                "SELECT count(*) FROM unnest(ARRAY['courier_relay', 'courier_publisher']) r "
                "WHERE has_function_privilege(r, 'courier.await_quiet(integer)', 'EXECUTE')"),
            1);
        relay_fixture_end(&fixture);
}

/* ---- a relay --------------------------------------------------------------------------------- */

Test(doorbell, wakes_a_relay_that_sleeps)
{
        struct relay_fixture fixture;
        struct relay_process *relay = begin(&fixture);

        publish_and_await(&fixture, 5);
        cr_expect_eq(database_integer(fixture.admin, "SELECT count(*) " LOCK), 1, "it sleeps on");
        end(&fixture, relay);
}

Test(doorbell, is_skipped_while_the_relay_is_awake)
{
        struct relay_fixture fixture;
        struct relay_process *relay = begin(&fixture);
        PGconn *spectator = listen_to_writers(&fixture);
        int n_events = 0, n_rings = 0;

        do {
                burst(fixture.admin, 1000);
                n_events += 1000;
                n_rings = count_rings(spectator);
                cr_assert_leq(n_events, 100000, "of 1000 events %d are rung for", n_rings);
        } while (n_rings > 500);
        relay_fixture_await(&fixture, "events", n_events);

        await_sleep(&fixture);
        publish_and_await(&fixture, 2);
        PQfinish(spectator);
        end(&fixture, relay);
}

/* Where commits are slow, those who ring wait for each other: few rings arrive, and many want
 * to. */
Test(doorbell, is_skipped_when_writers_wait_for_each_other)
{
        struct postgres *postgres = postgres_start_durable();
        struct relay_fixture fixture;
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres);
        database_exec(fixture.admin, "ALTER SYSTEM SET commit_delay = 100000");
        database_exec(fixture.admin, "ALTER SYSTEM SET commit_siblings = 0");
        database_exec(fixture.admin, "SELECT pg_reload_conf()");
        relay = start_sink(&fixture, "events", "notify");
        await_sleep(&fixture);
        relay_fixture_write(&fixture, 1);
        await_in_database(fixture.admin,
            "SELECT NOT EXISTS (SELECT " LOCK "AND mode = 'ExclusiveLock')", "the relay is awake");
        writers_stop(fixture.writers);
        end(&fixture, relay);
        postgres_stop(postgres);
}

/* Before it asked for the lock, or while it was awake, all the same. */
Test(doorbell, needs_no_ring_of_a_long_transaction_that_skipped_it)
{
        struct relay_fixture fixture;
        struct relay_process *relay;
        PGconn *skipper;

        relay_fixture_begin(&fixture, postgres_shared());
        skipper = database_connect(fixture.dsn);
        database_exec(skipper, "BEGIN; SELECT courier.publish('t', '1')");
        relay = start_sink(&fixture, "events", "notify");
        await_in_database(fixture.admin, IS_AWAITED, "the relay waits for it");
        publish_and_await(&fixture, 3);

        database_exec(skipper, "COMMIT");
        relay_fixture_await(&fixture, "events", 4);
        await_sleep(&fixture);
        PQfinish(skipper);
        end(&fixture, relay);
}

Test(doorbell, needs_no_ring_of_a_prepared_transaction_even_across_a_crash)
{
        struct postgres *postgres = postgres_start();
        struct relay_fixture fixture;
        struct relay_process *relay;
        PGresult *refused;

        relay_fixture_begin(&fixture, postgres);
        database_exec(
            fixture.admin, "BEGIN; SELECT courier.publish('t', '1'); PREPARE TRANSACTION 'held'");
        relay = start_sink(&fixture, "events", "notify");
        await_in_database(fixture.admin, IS_AWAITED, "the relay waits for it");

        postgres_stop_immediate(postgres);
        postgres_start_again(postgres);
        PQfinish(fixture.admin);
        fixture.admin = database_connect(fixture.dsn);
        await_in_database(fixture.admin, IS_AWAITED, "the relay waits for it again");
        publish_and_await(&fixture, 1);
        database_exec(fixture.admin, "COMMIT PREPARED 'held'");
        relay_fixture_await(&fixture, "events", 2);

        await_sleep(&fixture);
        refused = PQexec(fixture.admin,
            "BEGIN; SELECT courier.publish('t', '1'); PREPARE TRANSACTION 'refused'");
        cr_expect_not_null(strstr(PQresultErrorMessage(refused), "NOTIFY"));
        PQclear(refused);
        end(&fixture, relay);
        postgres_stop(postgres);
}

Test(doorbell, is_kept_without_the_lock_by_relays_that_poll)
{
        struct relay_fixture fixture;
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        relay = start_sink(&fixture, "events", "poll, poll_interval: 20ms");
        publish_and_await(&fixture, 3);
        await_in_database(fixture.admin, IS_UNUSED, "no session holds it");
        end(&fixture, relay);
}

/* ---- several relays -------------------------------------------------------------------------- */

Test(doorbell_of_many, wakes_all_that_sleep)
{
        struct relay_fixture fixture;
        struct relay_process *relay = begin(&fixture);
        struct relay_process *other = start_sink(&fixture, "other", "notify");

        await_in_database(fixture.admin, IS_AWAITED, "the second one waits for the first");
        for (int n = 1; n <= 5; n++) {
                publish(fixture.admin, "t", "k", "x");
                relay_fixture_await(&fixture, "events", n);
                relay_fixture_await(&fixture, "other", n);
        }
        burst(fixture.admin, 500);
        relay_fixture_await(&fixture, "events", 505);
        relay_fixture_await(&fixture, "other", 505);
        await_sleep(&fixture);

        /* Whichever held it, the other takes it up. */
        relay_kill(relay);
        await_sleep(&fixture);
        publish(fixture.admin, "t", "k", "x");
        relay_fixture_await(&fixture, "other", 506);
        relay_start_again(relay);
        relay_fixture_await(&fixture, "events", 506);
        relay_kill(other);
        await_sleep(&fixture);
        publish_and_await(&fixture, 2);
        relay_destroy(other);
        end(&fixture, relay);
}

Test(doorbell_of_many, is_left_alone_by_a_relay_that_stands_by)
{
        struct relay_fixture fixture;
        struct relay_process *relay = begin(&fixture);
        struct relay_process *standby = start_sink(&fixture, "events", "notify");

        relay_wait_for_log(standby, "event=lane_owned_elsewhere", 30000);
        relay_wait_for_log(standby, "event=listening", 30000);
        publish_and_await(&fixture, 3);
        cr_expect_eq(database_integer(fixture.admin, "SELECT count(*) " LOCK), 1);

        relay_kill(relay);
        relay_wait_for_log(standby, "event=lane_owned ", 30000);
        publish_and_await(&fixture, 3);
        await_sleep(&fixture);
        publish_and_await(&fixture, 3);
        relay_destroy(relay);
        end(&fixture, standby);
}

/* ---- lost connections ------------------------------------------------------------------------ */

/* Which of the relay's sessions it is. The one that owns lanes is `work`. */
#define DOORBELL "query ~ 'await_quiet|unlock_all|pg_locks'"
#define WORK                                                                                       \
        "pid IN (SELECT l.pid FROM pg_locks AS l JOIN courier.cursor AS c ON c.lock_id = l.objid"  \
        " WHERE l.locktype = 'advisory' AND l.classid = 1668248946 AND l.granted)"

static void terminate(const struct relay_fixture *fixture, const char *which)
{
        /* Until it has gone it holds its locks. */
        char *sql = xasprintf("SELECT count(pg_terminate_backend(pid, 30000)) FROM pg_stat_activity"
                              " WHERE usename = 'relay' AND datname = current_database() AND %s",
            which);

        cr_assert_eq(database_integer(fixture->admin, sql), 1);
        free(sql);
}

Test(doorbell_lost, is_taken_up_again)
{
        struct relay_fixture fixture;
        struct relay_process *relay = begin(&fixture);

        for (int i = 0; i < 5; i++) {
                terminate(&fixture, DOORBELL);
                publish_and_await(&fixture, 2);
                await_sleep(&fixture);
                publish_and_await(&fixture, 2);
        }
        cr_expect_eq(relay_count_in_log(relay, "event=doorbell_connection_lost"), 5);
        cr_expect_eq(relay_count_in_log(relay, "event=outbox_connection_lost"), 0);
        end(&fixture, relay);
}

Test(doorbell_lost, is_taken_up_again_while_it_is_waited_for)
{
        struct relay_fixture fixture;
        struct relay_process *relay;
        PGconn *skipper;

        relay_fixture_begin(&fixture, postgres_shared());
        skipper = database_connect(fixture.dsn);
        database_exec(skipper, "BEGIN; SELECT courier.publish('t', '1')");
        relay = start_sink(&fixture, "events", "notify");
        await_in_database(
            fixture.admin, IS_AWAITED, "the relay waits for the one who skipped the bell");
        terminate(&fixture, DOORBELL);
        publish_and_await(&fixture, 2);
        await_in_database(fixture.admin, IS_AWAITED, "it waits again");
        database_exec(skipper, "COMMIT");
        relay_fixture_await(&fixture, "events", 3);
        PQfinish(skipper);
        end(&fixture, relay);
}

Test(doorbell_lost, is_heard_again_after_the_work_connection_was_lost)
{
        struct relay_fixture fixture;
        struct relay_process *relay = begin(&fixture);
        char is_owned[64];

        for (int i = 0; i < 5; i++) {
                terminate(&fixture, WORK);
                publish_and_await(&fixture, 2);
                snprintf(is_owned, sizeof is_owned, "SELECT epoch = %d FROM courier.cursor", i + 2);
                await_in_database(fixture.admin, is_owned, "the relay owns its lane again");
                await_sleep(&fixture);
                publish_and_await(&fixture, 2);
        }
        end(&fixture, relay);
}
