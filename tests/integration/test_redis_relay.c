/* The whole program and a real Redis, where brokers' sinks are known to lose events: commits
 * that are not in the order of their ids, and errors of single commands. */
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static struct relay_process *start(const struct relay_fixture *fixture, const char *options)
{
        return relay_start("postgres: {dsn: \"%s\"}\n"
                           "relay: {standby: 50ms}\n"
                           "sinks:\n"
                           "  - name: bus\n"
                           "    topics: [\"**\"]\n"
                           "    start: beginning\n"
                           "    redis: {url: \"unix://%s\", stream: events%s}\n",
            fixture->relay, fixture->redis.socket_path, options);
}

/* The event with the smaller id becomes visible after the other one was published. */
static void deliver_a_late_commit(const char *options)
{
        struct relay_fixture fixture;
        struct relay_process *relay;
        PGconn *late;

        relay_fixture_begin(&fixture, postgres_shared());
        late = database_connect(fixture.dsn);
        relay = start(&fixture, options);
        relay_wait_for_log(relay, "event=lane_owned ", 30000);
        database_exec(late, "BEGIN");
        publish(late, "t", NULL, "first id");
        publish(fixture.admin, "t", NULL, "second id");
        relay_fixture_await(&fixture, "events", 1);
        database_exec(late, "COMMIT");
        relay_fixture_await(&fixture, "events", 2);

        relay_fixture_expect_field(&fixture, "events", 0, "payload", "\"second id\"");
        relay_fixture_expect_field(&fixture, "events", 1, "payload", "\"first id\"");
        relay_stop(relay);
        cr_expect_eq(redis_server_count(&fixture.redis, "XLEN events"), 2);
        relay_destroy(relay);
        PQfinish(late);
        relay_fixture_end(&fixture);
}

Test(redis_relay, delivers_a_smaller_id_that_commits_later)
{
        deliver_a_late_commit("");
}

Test(redis_relay, delivers_a_smaller_id_that_commits_later_exactly_once)
{
        deliver_a_late_commit(", exactly_once: true");
}

static void lose_nothing_when_memory_runs_out(const char *options)
{
        struct relay_fixture fixture;
        struct relay_process *relay;
        struct filter_result verdict;

        relay_fixture_begin(&fixture, postgres_shared());
        relay = start(&fixture, options);
        relay_fixture_write(&fixture, 31);
        for (int i = 0; i < 3; i++) {
                relay_fixture_await_more(&fixture, 100);
                redis_server_do(&fixture.redis, "CONFIG SET maxmemory 1");
                relay_wait_for_log(relay, "OOM", 30000);
                redis_server_do(&fixture.redis, "CONFIG SET maxmemory 0");
        }
        relay_fixture_await_more(&fixture, 100);
        verdict = relay_fixture_check(&fixture, relay); /* aborts on a wrong order */

        cr_expect_eq(verdict.n_lost, 0);
        cr_expect_eq(verdict.n_repeated, 0, "%zu came twice", verdict.n_repeated);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

Test(redis_relay, loses_nothing_and_keeps_the_order_when_memory_runs_out)
{
        lose_nothing_when_memory_runs_out("");
}

Test(redis_relay, loses_nothing_and_keeps_the_order_exactly_once_when_memory_runs_out)
{
        lose_nothing_when_memory_runs_out(", exactly_once: true");
}

static void take_no_error_for_success(const char *options)
{
        struct relay_fixture fixture;
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        redis_server_do(&fixture.redis, "SET events x");
        relay = start(&fixture, options);
        for (int i = 0; i < 20; i++)
                publish(fixture.admin, "t", i % 2 == 0 ? "k" : NULL, "x");
        relay_wait_for_log(relay, "WRONGTYPE", 30000);
        relay_kill(relay);
        await_in_database(fixture.admin, "SELECT count(*) = 0 FROM courier.dead_letter",
            "there is no dead letter");
        redis_server_do(&fixture.redis, "DEL events");
        relay_start_again(relay);
        relay_fixture_await(&fixture, "events", 20);
        relay_stop(relay);

        cr_expect_eq(redis_server_count(&fixture.redis, "XLEN events"), 20);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

Test(redis_relay, takes_no_error_of_a_command_for_success)
{
        take_no_error_for_success("");
}

Test(redis_relay, marks_nothing_that_was_refused)
{
        take_no_error_for_success(", exactly_once: true");
}
