/*
 * Several servers after a fail-over: an old primary that comes back and accepts writes, and one that
 * accepts none. Which of them does a relay use?
 */
#include "base/alloc.h"
#include "failover_rig.h"
#include "support/program_expect.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* ---- an old primary that comes back ---------------------------------------------------------- */

#define SESSIONS_OF_RELAY                                                                          \
        "FROM pg_stat_activity WHERE usename = 'relay' AND datname = current_database()"

static unsigned count_arrivals(struct relay_fixture *fixture, const char *text)
{
        redisReply *entries = redis_server_run(&fixture->redis, "XRANGE events - +");
        char *payload = xasprintf("\"%s\"", text);
        unsigned count = 0;

        for (size_t i = 0; i < entries->elements; i++) {
                const redisReply *fields = entries->element[i]->element[1];
                for (size_t f = 0; f < fields->elements; f++)
                        count += strcmp(fields->element[f]->str, payload) == 0;
        }
        free(payload);
        freeReplyObject(entries);
        return count;
}

/* The relay stays where it is as long as its session lasts. What the old primary accepts then is in
 * no log that anybody goes on with. */
Test(failover_servers, stays_with_the_new_primary_when_the_old_one_accepts_writes_again)
{
        struct stage stage;
        struct relay_fixture *fixture = &stage.fixture;
        struct relay_process *relay;
        PGconn *old;

        stage_begin(&stage, false);
        relay = stage_start_relay(&stage, "");
        publish(fixture->admin, "t", "k", "first");
        relay_fixture_await(fixture, "events", 1);
        stage_fail_over(&stage);
        publish(fixture->admin, "t", "k", "second");
        relay_fixture_await(fixture, "events", 2);

        postgres_start_again(stage.standby);
        old = stage_connect(&stage, stage.standby);
        publish(old, "t", "k", "on the old primary");
        for (int n = 3; n <= 10; n++) {
                publish(fixture->admin, "t", "k", "on the new primary");
                relay_fixture_await(fixture, "events", n);
        }
        cr_expect_eq(database_integer(old, "SELECT count(*) " SESSIONS_OF_RELAY), 0);
        PQfinish(old);

        postgres_rewind(stage.standby, stage.primary);
        old = stage_connect(&stage, stage.standby);
        cr_expect_eq(
            database_integer(
                old, "SELECT count(*) FROM courier.outbox WHERE payload #>> '{}' ~ 'old primary'"),
            0);
        PQfinish(old);
        stage_fail_over(&stage);
        publish(fixture->admin, "t", "k", "last");
        relay_fixture_await(fixture, "events", 11);
        cr_expect_eq(count_arrivals(fixture, "on the old primary"), 0);
        relay_stop(relay);
        stage_end(&stage, relay);
}

/* The doorbell's connection is lost, and the old primary is the first host that accepts writes:
 * there its lock would make nobody ring. */
Test(failover_servers, takes_the_doorbell_where_it_reads)
{
        struct stage stage;
        struct relay_fixture *fixture = &stage.fixture;
        struct relay_process *relay;

        stage_begin(&stage, false);
        relay = stage_start_relay(&stage, "");
        relay_wait_for_log(relay, "event=lane_owned ", 30000);
        stage_fail_over(&stage);
        await_in_database(fixture->admin,
            "SELECT EXISTS (SELECT FROM courier.relay_lock WHERE lock_id = 0 AND is_exclusive)",
            "the relay sleeps");
        postgres_start_again(stage.standby);
        database_exec(fixture->admin,
            "SELECT pg_terminate_backend(pid, 30000) FROM courier.relay_lock WHERE lock_id = 0");
        relay_wait_for_log(
            relay, "it reached another server than the connection that reads events", 30000);
        for (int n = 1; n <= 3; n++) {
                publish(fixture->admin, "t", "k", "rung for, or looked for");
                relay_fixture_await(fixture, "events", n);
        }
        relay_stop(relay);
        stage_end(&stage, relay);
}

/* Two servers accept writes, and the relay is with the old one: it delivers what it finds there,
 * and comes to the new primary when that session ends. */
Test(failover_servers, goes_on_where_the_new_primarys_cursor_is_when_it_leaves_the_old_one)
{
        struct stage stage;
        struct relay_fixture *fixture = &stage.fixture;
        struct relay_process *relay;
        PGconn *new;

        stage_begin(&stage, false);
        relay = stage_start_relay(&stage, "");
        publish(fixture->admin, "t", "k", "on both");
        relay_fixture_await(fixture, "events", 1);
        new = stage_connect(&stage, stage.standby);
        stage_await_settled(new, 1);
        postgres_promote(stage.standby);
        for (int n = 1; n <= 50; n++) {
                publish(fixture->admin, "t", "k", "on the old primary");
                publish(new, "t", "k", "on the new primary");
        }
        relay_fixture_await(fixture, "events", 51);
        cr_expect_eq(count_arrivals(fixture, "on the new primary"), 0);

        postgres_stop(stage.primary);
        relay_fixture_await(fixture, "events", 101);
        relay_stop(relay);
        cr_expect_eq(count_arrivals(fixture, "on both"), 1);
        cr_expect_eq(count_arrivals(fixture, "on the old primary"), 50);
        cr_expect_eq(count_arrivals(fixture, "on the new primary"), 50);
        PQfinish(new);
        stage_end(&stage, relay);
}

static void lose_session(struct relay_fixture *fixture, int epoch)
{
        char *is_owned_again =
            xasprintf("SELECT epoch = %d FROM courier.cursor WHERE sink = 'bus'", epoch);

        database_exec(fixture->admin,
            "SELECT pg_terminate_backend(pid, 30000) FROM courier.relay_lock WHERE lock_id > 0");
        await_in_database(fixture->admin, is_owned_again, "the relay owns its lane again");
        free(is_owned_again);
}

/* Redis remembers a later owner than the new primary does, and cannot know who that was. */
Test(failover_servers, asks_a_person_when_redis_remembers_an_owner_that_the_new_primary_does_not)
{
        struct stage stage;
        struct relay_fixture *fixture = &stage.fixture;
        struct relay_process *relay;
        PGconn *standby;

        stage_begin(&stage, false);
        relay = stage_start_relay(&stage, ", exactly_once: true");
        publish(fixture->admin, "t", "k", "first");
        relay_fixture_await(fixture, "events", 1);
        standby = stage_connect(&stage, stage.standby);
        stage_await_settled(standby, 1);
        PQfinish(standby);
        postgres_stop_receiving(stage.standby);
        lose_session(fixture, 2);
        lose_session(fixture, 3);
        publish(fixture->admin, "t", "k", "never on the new primary");
        relay_fixture_await(fixture, "events", 2);
        stage_fail_over(&stage);
        publish(fixture->admin, "t", "k", "second");
        relay_wait_for_log(relay,
            "restored or failed over, and no other relay runs, delete the key {events}:owner:bus",
            30000);
        cr_expect_eq(redis_server_count(&fixture->redis, "XLEN events"), 2);

        redis_server_do(&fixture->redis, "DEL {events}:owner:bus");
        await_in_database(fixture->admin, "SELECT count(*) = 1 FROM courier.pause", "a pause");
        database_exec(fixture->admin, "DELETE FROM courier.pause");
        relay_fixture_await(fixture, "events", 3);
        relay_stop(relay);
        stage_end(&stage, relay);
}

/* ---- a server that accepts no writes --------------------------------------------------------- */

static void wait_at_a_standby(const char *option, const char *wakeup)
{
        struct stage stage;
        struct relay_process *relay;
        char *dsn;

        stage_begin(&stage, true);
        publish(stage.fixture.admin, "t", "k", "before");
        dsn = postgres_dsn(stage.standby, stage.database, "relay");
        relay = relay_start("postgres: {dsn: \"%s%s\"}\n"
                            "relay: {wakeup: %s}\n"
                            "sinks:\n"
                            "  - {name: bus, topics: [\"**\"], start: beginning,\n"
                            "     redis: {url: \"unix://%s\", stream: events}}\n",
            dsn, option, wakeup, stage.fixture.redis.socket_path);
        relay_wait_for_log(relay,
            "session is read-only. A server that accepts writes is needed: this one is a standby",
            30000);
        stage_fail_over(&stage);
        cr_expect_eq(relay_count_in_log(relay, "cannot execute"), 0);
        relay_fixture_await(&stage.fixture, "events", 1);
        cr_expect_eq(relay_count_in_log(relay, "event=outbox_connected"), 1);
        relay_stop(relay);
        free(dsn);
        stage_end(&stage, relay);
}

Test(failover_servers, waits_at_a_standby_until_it_is_promoted)
{
        wait_at_a_standby("", "notify");
}

/* It would claim the lane, fail, and connect again at once. */
Test(failover_servers, waits_at_a_standby_even_if_the_dsn_takes_any_server)
{
        wait_at_a_standby(" target_session_attrs=any", "poll");
}

Test(failover_servers, lets_commands_find_the_server_that_accepts_writes)
{
        struct stage stage;
        char *dsn;

        stage_begin(&stage, false);
        dsn = xasprintf("host=%s,%s port=%u,%u dbname=%s user=relay", stage.standby->folder,
            stage.primary->folder, stage.standby->port, stage.primary->port, stage.database);
        expect_output(
            program_run(NULL, "pause", "bus", "--force", "--dsn", dsn, NULL), "bus is paused\n");
        free(dsn);
        stage_end(&stage, NULL);
}
