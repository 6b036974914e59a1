/*
 * Jobs with the whole program: a function of PostgreSQL, which writes down what it was called for. The
 * relay is killed at random and at named points, the sessions of the sink are ended, the server
 * crashes; then each committed event has had its effect once, in the order of its key.
 */
#include "base/alloc.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { DEADLINE_MS = 120000, CONCURRENCY = 4 };

static struct relay_fixture fixture;

/* Also for a server that the test crashes. */
static void begin(struct postgres *postgres)
{
        relay_fixture_begin(&fixture, postgres);
        database_make_inbox(fixture.admin);
        database_exec(fixture.admin,
            "CREATE ROLE worker LOGIN IN ROLE courier_consumer;"
            "CREATE SCHEMA app;"
            "CREATE TABLE app.effect (call bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
            " payload text NOT NULL);"
            "CREATE FUNCTION app.run(event courier_inbox.event) RETURNS void LANGUAGE plpgsql AS $$"
            "BEGIN"
            "  INSERT INTO app.effect (payload) VALUES (event.payload);"
            "  PERFORM pg_advisory_xact_lock_shared(1);"
            "END$$;"
            "GRANT USAGE ON SCHEMA app TO worker; GRANT INSERT ON app.effect TO worker");
}

static void end(void)
{
        database_exec(fixture.admin, "SELECT pg_terminate_backend(pid, 10000) FROM "
                                     "pg_stat_activity WHERE usename = 'worker';"
                                     "DROP OWNED BY worker; DROP ROLE worker");
        relay_fixture_end(&fixture);
}

static struct relay_process *start(void)
{
        char *worker = dsn_as_user(fixture.dsn, "worker");
        struct relay_process *relay = relay_start("postgres: {dsn: \"%s\"}\n"
                                                  "relay: {standby: 20ms, drain: 1s}\n"
                                                  "sinks:\n"
                                                  "  - name: jobs\n"
                                                  "    topics: [\"**\"]\n"
                                                  "    start: beginning\n"
                                                  "    concurrency: %d\n"
                                                  "    max_in_flight: 200\n"
                                                  "    postgres: {call: app.run, dsn: \"%s\"}\n",
            fixture.relay, CONCURRENCY, worker);

        free(worker);
        return relay;
}

static void await_more(unsigned n)
{
        char *sql = xasprintf("SELECT count(*) >= %lld FROM app.effect",
            (long long)database_integer(fixture.admin, "SELECT count(*) FROM app.effect") + n);

        await_in_database(fixture.admin, sql, "more effects");
        free(sql);
}

/* Anew each time: transactions do not commit in the order of their calls. */
static struct filter_result judge(void)
{
        PGresult *result = PQexec(fixture.admin, "SELECT payload FROM app.effect ORDER BY call");

        cr_assert_eq(PQresultStatus(result), PGRES_TUPLES_OK);
        fixture.history.n_arrivals = 0;
        for (int row = 0; row < PQntuples(result); row++)
                history_note(&fixture.history, PQgetvalue(result, row, 0));
        PQclear(result);
        return history_judge(&fixture.history, fixture.writers);
}

static bool is_nothing_missing(void *context)
{
        (void)context;
        return judge().n_lost == 0;
}

static void expect_each_once(struct relay_process *relay)
{
        struct filter_result verdict;

        writers_stop(fixture.writers);
        wait_until(is_nothing_missing, NULL, DEADLINE_MS, "an effect of each committed event");
        relay_stop(relay);
        verdict = judge();
        cr_expect_eq(verdict.n_repeated, 0, "%zu events had two effects", verdict.n_repeated);
        cr_expect_eq(verdict.n_misordered, 0, "%s", verdict.first_fault);
        cr_expect_eq(verdict.n_uncommitted, 0, "%s", verdict.first_fault);
        cr_expect_gt(fixture.history.n_arrivals, 100);
        cr_expect_eq(
            database_integer(fixture.admin, "SELECT count(*) FROM courier.dead_letter"), 0);
}

Test(jobs, have_each_effect_once_when_the_relay_is_killed_again_and_again)
{
        struct relay_process *relay;

        begin(postgres_shared());
        relay = start();
        relay_fixture_write(&fixture, 31);
        for (int i = 0; i < 8; i++) {
                await_more(1 + 13 * (unsigned)i);
                relay_kill(relay);
                relay_start_again(relay);
        }
        await_more(50);
        expect_each_once(relay);
        relay_destroy(relay);
        end();
}

#ifdef PGCOURIER_CRASH_POINTS

Test(jobs, have_each_effect_once_when_the_relay_dies_at_the_worst_moments)
{
        static const char *const points[] = {"before_send:40", "after_send:1", "before_settle:1",
            "after_settle_sent:2", "after_settled:3", "after_claim:3"};
        struct relay_process *relay;

        begin(postgres_shared());
        relay = start();
        relay_fixture_write(&fixture, 32);
        await_more(20);
        relay_kill(relay);
        for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
                setenv("PGCOURIER_CRASH_AT", points[i], 1);
                relay_start_again(relay);
                cr_expect_eq(process_wait(&relay->process, 60000), 128 + 9, "at %s", points[i]);
        }
        unsetenv("PGCOURIER_CRASH_AT");
        relay_start_again(relay);
        await_more(50);
        expect_each_once(relay);
        relay_destroy(relay);
        end();
}

#endif

static void end_sessions_of(const char *user)
{
        char *sql = xasprintf(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '%s'", user);

        database_exec(fixture.admin, sql);
        free(sql);
}

Test(jobs, have_each_effect_once_while_sessions_are_ended)
{
        struct relay_process *relay;

        begin(postgres_shared());
        relay = start();
        relay_fixture_write(&fixture, 33);
        for (int i = 0; i < 10; i++) {
                await_more(20);
                end_sessions_of(i % 3 == 2 ? "relay" : "worker");
        }
        await_more(50);
        expect_each_once(relay);
        relay_destroy(relay);
        end();
}

#define WAITING "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"

/* The function has done its work and has not committed. */
Test(jobs, have_each_effect_once_when_the_relay_is_killed_during_calls)
{
        struct relay_process *relay;

        begin(postgres_shared());
        relay = start();
        relay_fixture_write(&fixture, 34);
        for (int i = 0; i < 4; i++) {
                await_more(20);
                database_exec(fixture.admin, "SELECT pg_advisory_lock(1)");
                await_in_database(fixture.admin, WAITING, "a call that waits");
                relay_kill(relay);
                relay_start_again(relay);
                relay_wait_for_log(relay, "event=lane_owned ", 30000);
                database_exec(fixture.admin, "SELECT pg_advisory_unlock(1)");
        }
        await_more(50);
        expect_each_once(relay);
        relay_destroy(relay);
        end();
}

Test(jobs, have_each_effect_once_when_the_server_crashes)
{
        struct postgres *postgres = postgres_start_durable();
        struct relay_process *relay;

        begin(postgres);
        relay = start();
        relay_fixture_write(&fixture, 35);
        for (int i = 0; i < 3; i++) {
                await_more(50);
                PQfinish(fixture.admin);
                postgres_kill(postgres);
                postgres_start_again(postgres);
                fixture.admin = database_connect(fixture.dsn);
        }
        await_more(50);
        expect_each_once(relay);
        relay_destroy(relay);
        end();
}

/* The cursor passes it, which is written down once its delivery is parked, and other jobs go on. No
 * session but its own has a snapshot. */
Test(jobs, hold_up_no_other_event_however_long_they_take)
{
        struct relay_process *relay;

        begin(postgres_shared());
        database_exec(fixture.admin,
            "CREATE OR REPLACE FUNCTION app.run(event courier_inbox.event) RETURNS void"
            " LANGUAGE plpgsql AS $$ BEGIN"
            "  INSERT INTO app.effect (payload) VALUES (event.payload);"
            "  IF event.key = 'long' THEN PERFORM pg_advisory_xact_lock_shared(1); END IF; END $$;"
            "SELECT pg_advisory_lock(1)");
        relay = start();
        publish(fixture.admin, "a", "long", "first");
        await_in_database(fixture.admin, WAITING, "the long call");
        database_exec(fixture.admin,
            "SELECT courier.publish('a', '1', key => 'k' || n) FROM generate_series(1, 500) AS n");
        await_in_database(
            fixture.admin, "SELECT count(*) = 500 FROM app.effect", "the effects of the others");
        await_in_database(fixture.admin,
            "SELECT count(*) = 1 FROM courier.parked WHERE key = 'long'", "the parked delivery");
        await_in_database(fixture.admin,
            "SELECT count(*) = 0 FROM courier.outbox AS o, courier.cursor AS c WHERE c.sink = "
            "'jobs'"
            " AND NOT courier.has_passed(c.from_snapshot, c.until_snapshot, c.last_id, o.id, "
            "o.txid)",
            "the cursor at the end");
        await_in_database(fixture.admin,
            "SELECT count(*) = 0 FROM pg_stat_activity WHERE usename = 'relay'"
            " AND backend_xmin IS NOT NULL",
            "relay's sessions without a snapshot");
        database_exec(fixture.admin, "SELECT pg_advisory_unlock(1)");
        await_in_database(fixture.admin,
            "SELECT count(*) = 501 FROM app.effect WHERE NOT EXISTS (SELECT FROM courier.parked)",
            "the effect of the long call");
        relay_stop(relay);
        relay_destroy(relay);
        end();
}

/* The call that the relay does not wait for ends in the server, and comes again. */
Test(jobs, are_cut_off_when_the_relay_stops_and_come_again)
{
        struct relay_process *relay;

        begin(postgres_shared());
        database_exec(fixture.admin, "SELECT pg_advisory_lock(1)");
        relay = start();
        publish(fixture.admin, "a", NULL, "first");
        await_in_database(fixture.admin, WAITING, "the call");
        relay_stop(relay);
        await_in_database(fixture.admin, "SELECT NOT (" WAITING ")", "the end of the call");
        database_exec(fixture.admin, "SELECT pg_advisory_unlock(1)");
        cr_expect_eq(database_integer(fixture.admin, "SELECT count(*) FROM app.effect"), 0);
        relay_start_again(relay);
        await_in_database(fixture.admin, "SELECT count(*) = 1 FROM app.effect", "its effect");
        relay_stop(relay);
        relay_destroy(relay);
        end();
}

/* With a session each: all are idle when they end, and only one event comes afterwards. */
Test(jobs, go_on_with_the_next_event_when_all_idle_sessions_have_ended)
{
        struct relay_process *relay;

        begin(postgres_shared());
        database_exec(fixture.admin, "SELECT pg_advisory_lock(1)");
        relay = start();
        for (unsigned n = 0; n < CONCURRENCY; n++)
                publish(fixture.admin, "a", NULL, "first");
        await_in_database(fixture.admin,
            "SELECT count(*) = 4 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted",
            "four calls");
        database_exec(fixture.admin, "SELECT pg_advisory_unlock(1)");
        await_in_database(fixture.admin, "SELECT count(*) = 4 FROM app.effect", "four effects");
        end_sessions_of("worker");
        await_in_database(fixture.admin,
            "SELECT count(*) = 0 FROM pg_stat_activity WHERE usename = 'worker'", "their end");
        publish(fixture.admin, "a", NULL, "next");
        await_in_database(fixture.admin, "SELECT count(*) = 5 FROM app.effect", "the next effect");
        relay_stop(relay);
        relay_destroy(relay);
        end();
}
