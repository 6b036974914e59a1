/* The whole program doing its work: by topic, woken in every way, ended politely. */
#include "base/alloc.h"
#include "support/program.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Test(relay_delivery, routes_by_topic)
{
        struct relay_fixture fixture;
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        relay =
            relay_start("postgres: {dsn: \"%s\"}\n"
                        "sinks:\n"
                        "  - {name: one, topics: [\"orders.*\"], start: beginning,\n"
                        "     redis: {url: \"unix://%s\", stream: one}}\n"
                        "  - {name: two, topics: [\"users.*\", orders.paid], start: beginning,\n"
                        "     redis: {url: \"unix://%s\", stream: two}}\n"
                        "  - {name: all, topics: [\"**\"], start: beginning,\n"
                        "     redis: {url: \"unix://%s\", stream: all}}\n",
                fixture.relay, fixture.redis.socket_path, fixture.redis.socket_path,
                fixture.redis.socket_path);
        publish(fixture.admin, "orders.made", "k", "1");
        publish(fixture.admin, "orders.paid", "k", "2");
        publish(fixture.admin, "users.left", "k", "3");
        publish(fixture.admin, "orders", "k", "4");
        relay_fixture_await(&fixture, "one", 2);
        relay_fixture_await(&fixture, "two", 2);
        relay_fixture_await(&fixture, "all", 4);
        relay_stop(relay);

        relay_fixture_expect_field(&fixture, "one", 0, "payload", "\"1\"");
        relay_fixture_expect_field(&fixture, "one", 1, "payload", "\"2\"");
        relay_fixture_expect_field(&fixture, "two", 0, "payload", "\"2\"");
        relay_fixture_expect_field(&fixture, "two", 1, "payload", "\"3\"");
        relay_fixture_expect_field(&fixture, "all", 3, "payload", "\"4\"");
        cr_expect_eq(redis_server_count(&fixture.redis, "XLEN one"), 2);
        cr_expect_eq(redis_server_count(&fixture.redis, "XLEN two"), 2);
        cr_expect_eq(redis_server_count(&fixture.redis, "XLEN all"), 4);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

/* ---- what wakes it ------------------------------------------------------------------------- */

static struct relay_process *start_with(struct relay_fixture *fixture, const char *relay_block)
{
        return relay_start("postgres: {dsn: \"%s\"}\n"
                           "relay: {%s}\n"
                           "sinks:\n"
                           "  - {name: bus, topics: [\"**\"], start: beginning,\n"
                           "     redis: {url: \"unix://%s\", stream: events}}\n",
            fixture->relay, relay_block, fixture->redis.socket_path);
}

/* One after another, each awaited: the relay had nothing to do before each but the first. */
static void publish_and_await(struct relay_fixture *fixture, int n_events)
{
        for (int n = 1; n <= n_events; n++) {
                publish(fixture->admin, "t", "k", "x");
                relay_fixture_await(fixture, "events", n);
        }
}

Test(relay_delivery, wakes_when_notified)
{
        struct relay_fixture fixture;
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        relay = start_with(&fixture, "sweep: 1h");
        relay_wait_for_log(relay, "event=listening", 30000);
        relay_wait_for_log(relay, "event=lane_owned ", 30000);
        publish_and_await(&fixture, 5);
        relay_stop(relay);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

Test(relay_delivery, sweeps_when_no_writer_rings)
{
        struct relay_fixture fixture;
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        database_exec(fixture.admin,
            "ALTER TABLE courier.outbox ALTER txid SET DEFAULT pg_current_xact_id()");
        relay = start_with(&fixture, "sweep: 50ms");
        publish_and_await(&fixture, 5);
        relay_stop(relay);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

Test(relay_delivery, polls_without_listening)
{
        struct relay_fixture fixture;
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        relay = start_with(&fixture, "wakeup: poll, poll_interval: 20ms, sweep: 1h");
        publish_and_await(&fixture, 5);

        cr_expect_eq(relay_count_in_log(relay, "event=listening"), 0);
        await_in_database(fixture.admin,
            "SELECT count(*) = 1 FROM pg_stat_activity WHERE usename = 'relay' AND"
            " datname = current_database()",
            "only the work session stays: the one for maintenance ends");
        relay_stop(relay);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

/* ---- how it ends --------------------------------------------------------------------------- */

static void expect_no_duplicate_after(int signal, unsigned seed)
{
        struct relay_fixture fixture;
        struct relay_process *relay;
        struct filter_result verdict;

        relay_fixture_begin(&fixture, postgres_shared());
        relay = relay_fixture_start(&fixture, "");
        relay_fixture_write(&fixture, seed);
        for (int i = 0; i < 4; i++) {
                relay_fixture_await_more(&fixture, 200);
                process_signal(&relay->process, signal);
                cr_expect_eq(relay_wait(relay, 30000), 0);
                relay_start_again(relay);
        }
        verdict = relay_fixture_check(&fixture, relay);

        cr_expect_eq(verdict.n_repeated, 0, "%zu events came twice", verdict.n_repeated);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

Test(relay_delivery, repeats_nothing_after_sigterm_under_load)
{
        expect_no_duplicate_after(SIGTERM, 31);
}

Test(relay_delivery, repeats_nothing_after_sigint_under_load)
{
        expect_no_duplicate_after(SIGINT, 32);
}

/* Runs `run --once` with a config that carries everything of the database to standard output. */
static struct program_run run_once(const char *dsn, const char *more)
{
        char *text = xasprintf("postgres: {dsn: \"%s\", connect_timeout: 2s}\n"
                               "sinks:\n"
                               "  - {name: bus, topics: [\"**\"], start: beginning, stdout: {}}\n"
                               "%s",
            dsn, more);
        char *path = program_file("once.yaml", text, strlen(text));
        struct program_run run = program_run(NULL, "run", "--once", "-c", path, NULL);

        free(text);
        free(path);
        return run;
}

static void expect_end(struct program_run run, int code, const char *words)
{
        cr_expect_eq(run.code, code, "exit code %d:\n%s", run.code, run.err);
        cr_expect_not_null(strstr(run.err, words), "no '%s' in:\n%s", words, run.err);
        program_run_free(&run);
}

static unsigned count_lines(const char *text)
{
        unsigned n = 0;

        for (; *text != '\0'; text++)
                n += *text == '\n';
        return n;
}

Test(relay_once, delivers_all_events_and_ends)
{
        char *dsn = postgres_new_database(postgres_shared());
        char *relay = dsn_as_user(dsn, "relay");
        PGconn *admin = database_connect(dsn);
        struct program_run run;

        database_exec(admin, "SELECT count(courier.publish('t', to_json(i), key => 'k')) "
                             "FROM generate_series(1, 5000) AS i");
        run = run_once(relay, "");
        cr_expect_eq(run.code, 0, "%s", run.err);
        cr_expect_eq(count_lines(run.out), 5000);
        program_run_free(&run);
        publish(admin, "t", "k", "later");
        run = run_once(relay, "");

        cr_expect_eq(run.code, 0, "%s", run.err);
        cr_expect_eq(count_lines(run.out), 1);
        cr_expect_not_null(strstr(run.out, "\"later\""));
        program_run_free(&run);
        PQfinish(admin);
        free(relay);
        free(dsn);
}

Test(relay_once, ends_with_75_while_another_relay_owns_the_lane)
{
        struct relay_fixture fixture;
        struct relay_process *owner;

        relay_fixture_begin(&fixture, postgres_shared());
        owner = relay_fixture_start(&fixture, "");
        relay_wait_for_log(owner, "event=lane_owned ", 30000);

        expect_end(run_once(fixture.relay, ""), 75, "another relay owns a lane");
        relay_stop(owner);
        relay_destroy(owner);
        relay_fixture_end(&fixture);
}

Test(relay_once, ends_with_4_when_the_database_cannot_be_reached)
{
        char *dsn = xasprintf("host=127.0.0.1 port=%u dbname=x user=x", free_port());

        expect_end(run_once(dsn, ""), 4, "refused");
        free(dsn);
}

Test(relay_once, ends_with_6_without_the_schema_or_with_a_newer_one)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        PGconn *admin;

        expect_end(run_once(dsn, ""), 6, "pgcourier migrate");
        free(dsn);
        dsn = postgres_new_database(postgres_shared());
        admin = database_connect(dsn);
        database_exec(
            admin, "INSERT INTO courier.schema_version (version, name) VALUES (999, 'x')");
        expect_end(run_once(dsn, ""), 6, "999");
        PQfinish(admin);
        free(dsn);
}

Test(relay_once, names_the_role_that_lacks_rights)
{
        char *dsn = postgres_new_database(postgres_shared());
        char *stranger = dsn_as_user(dsn, "'a stranger'");
        PGconn *admin = database_connect(dsn);

        database_exec(admin, "CREATE ROLE \"a stranger\" LOGIN");
        expect_end(run_once(stranger, ""), 7, "GRANT courier_relay TO \"a stranger\"; `pgcourier");
        PQfinish(admin);
        free(stranger);
        free(dsn);
}

Test(relay_once, ends_with_3_on_a_bad_configuration)
{
        expect_end(run_once("host=/nowhere", "relay: {sweeep: 1s}\n"), 3, "sweeep");
}
