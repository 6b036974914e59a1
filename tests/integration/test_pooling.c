/* Behind a real PgBouncer in each of its modes: sessions that stay are all that is needed, and
 * without them nothing is delivered, which is said. */
#include "base/alloc.h"
#include "base/clock.h"
#include "support/pgbouncer.h"
#include "support/program.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEADLINE_MS = 30000 };

static struct relay_fixture fixture;
static struct pgbouncer pgbouncer;
static char *dsn;

static void prepare(void)
{
        relay_fixture_begin(&fixture, postgres_shared());
}

static void start_pgbouncer(const char *mode, const char *settings)
{
        char *database = database_value(fixture.admin, "SELECT current_database()");
        char *text = xasprintf("pool_mode = %s\n%s", mode, settings);

        pgbouncer_start(&pgbouncer, postgres_shared(), "127.0.0.1", text);
        dsn = xasprintf("host=127.0.0.1 port=%u user=relay dbname=%s", pgbouncer.port, database);
        free(text);
        free(database);
}

static void clean_up(void)
{
        process_stop(&pgbouncer.process);
        relay_fixture_end(&fixture);
        free(dsn);
}

TestSuite(pooling, .init = prepare, .fini = clean_up, .timeout = 120);

static struct relay_process *start_relay(void)
{
        return relay_start("postgres: {dsn: \"%s\"}\nsinks:\n"
                           "  - {name: bus, topics: [\"**\"], start: beginning,\n"
                           "     redis: {url: \"unix://%s\", stream: events}}\n",
            dsn, fixture.redis.socket_path);
}

static void expect_finding(const char *command, const char *path, const char *finding)
{
        struct program_run run = strcmp(command, "check") == 0
                                     ? program_run(NULL, "check", "--connect", "-c", path, NULL)
                                     : program_run(NULL, command, "-c", path, NULL);

        cr_expect(program_says(run.out, finding), "%s: %s%s", command, run.out, run.err);
        program_run_free(&run);
}

#define REFUSAL                                                                                    \
        "a connection pooler in between shares server connections between transactions or "        \
        "statements, so a lane would lose its owner. Connect to PostgreSQL itself, or set "        \
        "pool_mode = session for this database or user in the pooler"

/* Once, and then again: what the first one left in the pooler's connections changes nothing. */
static void expect_refusal(void)
{
        struct relay_process *relay;
        char *log;

        publish(fixture.admin, "a", NULL, "1");
        relay = start_relay();
        for (int i = 0; i < 2; i++) {
                cr_expect_eq(relay_wait(relay, DEADLINE_MS), 3);
                log = read_file(relay->log_path);
                cr_expect_not_null(strstr(log, REFUSAL), "%s", log);
                cr_expect_null(strstr(log, "event=outbox_connection_lost"), "%s", log);
                free(log);
                if (i == 0)
                        relay_start_again(relay);
        }
        expect_finding("check", relay->config_path, "fail  session: " REFUSAL);
        expect_finding("doctor", relay->config_path, "fail  session: " REFUSAL);
        cr_expect_eq(
            redis_server_count(&fixture.redis, "EXISTS events"), 0, "nothing is delivered");
        cr_expect_eq(database_integer(fixture.admin,
                         "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
                         " AND database = (SELECT oid FROM pg_database"
                         "                 WHERE datname = current_database())"),
            0, "no lock is left behind");
        relay_destroy(relay);
}

Test(pooling, of_sessions_is_as_good_as_none)
{
        struct relay_process *relay;

        start_pgbouncer("session", "");
        relay = start_relay();
        publish(fixture.admin, "a", NULL, "1");
        relay_fixture_await(&fixture, "events", 1);
        expect_finding("check", relay->config_path, "ok    session: a connection pooler");
        expect_finding("doctor", relay->config_path, "ok    session: a connection pooler");
        relay_stop(relay);
        relay_destroy(relay);
}

/* The server process of the session that holds the lane. */
static int64_t lane_holder(void)
{
        return database_integer(fixture.admin,
            "SELECT pid FROM pg_locks JOIN courier.cursor ON objid = lock_id"
            " WHERE locktype = 'advisory' AND classid = 1668248946 AND granted"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())");
}

static void await_freed(int64_t holder)
{
        char *sql = xasprintf("SELECT NOT EXISTS (SELECT FROM pg_locks WHERE pid = %lld AND"
                              " locktype = 'advisory' AND classid = 1668248946)",
            (long long)holder);

        await_in_database(fixture.admin, sql, "PgBouncer gives back the lock");
        free(sql);
}

static void await_settled(void)
{
        await_in_database(
            fixture.admin, "SELECT " ALL_IS_SETTLED, "the event is delivered and settled");
}

/* PgBouncer keeps the killed relay's connections to the server, and gives back their locks. */
Test(pooling, of_sessions_keeps_one_owner_and_frees_its_lanes_when_it_is_killed)
{
        struct relay_process *owner, *standby, *former;
        int64_t holder, began_us;

        start_pgbouncer("session", "");
        owner = start_relay();
        relay_wait_for_log(owner, "event=lane_owned ", DEADLINE_MS);
        standby = start_relay();
        relay_wait_for_log(standby, "event=lane_owned_elsewhere", DEADLINE_MS);
        holder = lane_holder();
        for (int i = 0; i < 3; i++) {
                publish(fixture.admin, "a", NULL, "1");
                await_settled();
                cr_expect_eq(lane_holder(), holder, "the lane changed its owner");
                began_us = clock_monotonic_us();
                relay_kill(owner);
                await_freed(holder);
                fprintf(stderr, "the lane is free after %.3f s\n",
                    (double)(clock_monotonic_us() - began_us) / 1e6);
                relay_wait_for_log(standby, "event=lane_owned ", DEADLINE_MS);
                former = owner;
                owner = standby;
                standby = former;
                relay_start_again(standby);
                relay_wait_for_log(standby, "event=lane_owned_elsewhere", DEADLINE_MS);
                holder = lane_holder();
        }
        publish(fixture.admin, "a", NULL, "1");
        await_settled();
        relay_stop(owner);
        relay_wait_for_log(standby, "event=lane_owned ", DEADLINE_MS);
        relay_stop(standby);
        cr_expect_eq(redis_server_count(&fixture.redis, "XLEN events"), 4);
        relay_destroy(owner);
        relay_destroy(standby);
}

Test(pooling, of_transactions_is_refused)
{
        start_pgbouncer("transaction", "");
        expect_refusal();
}

/* One server connection for all: each client gets the same one. */
Test(pooling, of_transactions_over_one_connection_is_refused)
{
        start_pgbouncer("transaction", "default_pool_size = 1\n");
        expect_refusal();
}

Test(pooling, of_transactions_in_turn_is_refused)
{
        start_pgbouncer("transaction", "server_round_robin = 1\nmin_pool_size = 5\n");
        expect_refusal();
}

Test(pooling, of_statements_is_refused)
{
        start_pgbouncer("statement", "");
        expect_refusal();
}
