/*
 * exactly_once with the whole program: relays are killed at random and at named points, connections
 * are cut, two relays fight; in the stream each event stands once, and in order.
 */
#include "base/alloc.h"
#include "support/program_expect.h"
#include "support/relay_fixture.h"

#include <signal.h>
#include <stdlib.h>

#define SETTINGS "    max_in_flight: 200\n"

static struct relay_process *start(const struct relay_fixture *fixture)
{
        return relay_start("postgres: {dsn: \"%s\"}\n"
                           "relay: {standby: 20ms}\n"
                           "sinks:\n"
                           "  - name: bus\n"
                           "    topics: [\"**\"]\n"
                           "    start: beginning\n" SETTINGS "    redis:\n"
                           "      url: unix://%s\n"
                           "      stream: events\n"
                           "      exactly_once: true\n",
            fixture->relay, fixture->redis.socket_path);
}

static bool has_no_marks(void *redis)
{
        return redis_server_count(redis, "EXISTS {events}:delivered:bus") == 0;
}

static void expect_each_once(struct relay_fixture *fixture, struct relay_process *relay)
{
        const struct filter_result verdict = relay_fixture_check(fixture, relay);

        cr_expect_eq(verdict.n_lost, 0, "%zu events are lost", verdict.n_lost);
        cr_expect_eq(verdict.n_repeated, 0, "%zu events came twice", verdict.n_repeated);
        cr_expect_gt(fixture->history.n_arrivals, 100);
}

Test(exactly_once, repeats_and_loses_nothing_when_the_relay_is_killed_again_and_again)
{
        struct relay_fixture fixture;
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        relay = start(&fixture);
        relay_fixture_write(&fixture, 21);
        for (int i = 0; i < 8; i++) {
                relay_fixture_await_more(&fixture, 1 + 13 * i);
                relay_kill(relay);
                relay_start_again(relay);
        }
        relay_fixture_await_more(&fixture, 50);
        expect_each_once(&fixture, relay);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

#ifdef PGCOURIER_CRASH_POINTS

Test(exactly_once, repeats_and_loses_nothing_when_the_relay_dies_at_the_worst_moments)
{
        static const char *const points[] = {"before_send:40", "after_send:1", "before_settle:1",
            "after_settle_sent:2", "after_settled:3", "after_claim:3"};
        struct relay_fixture fixture;
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        relay = start(&fixture);
        relay_fixture_write(&fixture, 22);
        relay_fixture_await_more(&fixture, 20);
        relay_kill(relay);
        for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
                setenv("PGCOURIER_CRASH_AT", points[i], 1);
                relay_start_again(relay);
                cr_expect_eq(process_wait(&relay->process, 60000), 128 + 9, "at %s", points[i]);
        }
        unsetenv("PGCOURIER_CRASH_AT");
        relay_start_again(relay);
        relay_fixture_await_more(&fixture, 50);
        expect_each_once(&fixture, relay);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

#endif

Test(exactly_once, repeats_and_loses_nothing_while_sessions_and_connections_are_cut)
{
        struct relay_fixture fixture;
        struct relay_process *one;
        struct relay_process *two;

        relay_fixture_begin(&fixture, postgres_shared());
        one = start(&fixture);
        relay_wait_for_log(one, "event=lane_owned ", 30000);
        two = start(&fixture);
        relay_fixture_write(&fixture, 23);
        for (int i = 0; i < 10; i++) {
                relay_fixture_await_more(&fixture, 20);
                if (i % 2 == 0)
                        redis_server_do(&fixture.redis, "CLIENT KILL TYPE normal SKIPME yes");
                else
                        database_exec(fixture.admin,
                            "SELECT pg_terminate_backend(pid) FROM pg_locks "
                            "WHERE locktype = 'advisory' AND granted AND database = "
                            "(SELECT oid FROM pg_database WHERE datname = current_database())");
        }
        relay_fixture_await_more(&fixture, 50);
        relay_stop(one);
        expect_each_once(&fixture, two);
        cr_expect(redis_server_count(&fixture.redis, "EXISTS {events}:owner:bus") == 1);
        relay_destroy(one);
        relay_destroy(two);
        relay_fixture_end(&fixture);
}

/* A relay that was suspended sends what it had in its hands only when another has long delivered
 * it. */
Test(exactly_once, lets_a_relay_that_was_suspended_change_nothing)
{
        struct relay_fixture fixture;
        struct relay_process *suspended;
        struct relay_process *second;

        relay_fixture_begin(&fixture, postgres_shared());
        suspended = start(&fixture);
        relay_wait_for_log(suspended, "event=lane_owned ", 30000);
        relay_fixture_write(&fixture, 24);
        for (int i = 0; i < 3; i++) {
                relay_fixture_await_more(&fixture, 30);
                process_signal(&suspended->process, SIGSTOP);
                second = start(&fixture);
                relay_wait_for_log(second, "event=lane_owned_elsewhere", 30000);
                database_exec(fixture.admin,
                    "SELECT pg_terminate_backend(pid) FROM pg_locks "
                    "WHERE locktype = 'advisory' AND granted AND database = "
                    "(SELECT oid FROM pg_database WHERE datname = current_database())");
                relay_fixture_await_more(&fixture, 30);
                process_signal(&suspended->process, SIGCONT);
                relay_wait_for_log(suspended, "event=lane_owned_elsewhere", 30000);
                relay_fixture_await_more(&fixture, 30);
                relay_kill(suspended);
                relay_destroy(suspended);
                suspended = second;
        }
        expect_each_once(&fixture, suspended);
        relay_destroy(suspended);
        relay_fixture_end(&fixture);
}

Test(exactly_once, leaves_no_marks_behind_when_it_is_stopped)
{
        struct relay_fixture fixture;
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        relay = start(&fixture);
        relay_fixture_write(&fixture, 25);
        relay_fixture_await_more(&fixture, 200);
        expect_each_once(&fixture, relay);
        wait_until(has_no_marks, &fixture.redis, 30000, "the marks to go");
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

/* As a relay leaves them that is killed between settling and removing them. */
static void put_marks_back(struct relay_fixture *fixture)
{
        char *members = database_value(
            fixture->admin, "SELECT string_agg(id || ':' || event_id, ' ') FROM courier.outbox");
        char *command = xasprintf("SADD {events}:delivered:bus %s", members);

        redis_server_do(&fixture->redis, command);
        free(command);
        free(members);
}

Test(exactly_once, sends_replayed_events_although_their_marks_were_left_behind)
{
        struct relay_fixture fixture;
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        relay = start(&fixture);
        for (int i = 0; i < 3; i++)
                publish(fixture.admin, "orders", "a", "text");
        relay_fixture_await(&fixture, "events", 3);
        relay_stop(relay);
        put_marks_back(&fixture);
        relay_start_again(relay);
        expect_output(program_run(NULL, "replay", "--sink", "bus", "--from", "1", "--yes", "-c",
                          relay->config_path, NULL),
            "3 events are on their way to sink bus once more\n");
        relay_fixture_await(&fixture, "events", 6);
        wait_until(has_no_marks, &fixture.redis, 30000, "the marks to go");
        relay_stop(relay);
        cr_expect_eq(redis_server_count(&fixture.redis, "XLEN events"), 6);
        cr_expect_eq(database_integer(fixture.admin, "SELECT count(*) FROM courier.parked"), 0);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}
