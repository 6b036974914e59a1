/* Recurring events with real relays: they arrive, once, and none is lost to a stop. */
#include "base/alloc.h"
#include "support/http_receiver.h"
#include "support/postgres_expect.h"
#include "support/program.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* The ticks that were published of a schedule, in order. */
#define TICKS(name)                                                                                \
        "(SELECT id, (headers->>'scheduled_for')::timestamptz AS tick FROM courier.outbox"         \
        " WHERE headers->>'schedule' = '" name "') AS ticks"

/* With a setting of the relay's: how it learns of changes. */
static struct relay_process *start_with(struct relay_fixture *fixture, const char *setting)
{
        return relay_start("postgres: {dsn: \"%s\"}\n"
                           "relay: {%s}\n"
                           "sinks:\n"
                           "  - {name: bus, topics: [\"**\"], start: beginning,\n"
                           "     redis: {url: \"unix://%s\", stream: events}}\n",
            fixture->relay, setting, fixture->redis.socket_path);
}

static void schedule(struct relay_fixture *fixture, const char *name, const char *missed)
{
        char *sql = xasprintf("SELECT courier.schedule('%s', 'ops.%s', '{}', every => '1 second',"
                              " missed => '%s')",
            name, name, missed);
        PGconn *app = database_connect(fixture->app);

        database_exec(app, sql);
        PQfinish(app);
        free(sql);
}

/* How many ticks of the schedule "all" there are more than seconds from the first to the last: 0
 * if each second has one. */
static const char surplus_sql[] =
    "SELECT count(*) - count(DISTINCT tick) || ' twice, '"
    " || extract(epoch FROM max(tick) - min(tick))::bigint + 1 - count(DISTINCT tick)"
    " || ' missing' FROM " TICKS("all");

static void await_ticks(struct relay_fixture *fixture, int n_more)
{
        char *sql = xasprintf("SELECT count(*) >= %d FROM courier.outbox",
            n_more + (int)database_integer(fixture->admin, "SELECT count(*) FROM courier.outbox"));

        await_in_database(fixture->admin, sql, "ticks are published");
        free(sql);
}

Test(schedule_relay, delivers_recurring_events)
{
        struct relay_fixture fixture;
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        relay = relay_fixture_start(&fixture, "");
        relay_wait_for_log(relay, "event=lane_owned ", 30000);
        schedule(&fixture, "all", "all");
        relay_fixture_await(&fixture, "events", 4);
        relay_stop(relay);

        relay_fixture_expect_field(&fixture, "events", 0, "topic", "ops.all");
        relay_fixture_expect_field(&fixture, "events", 0, "header:schedule", "all");
        relay_fixture_expect_field(&fixture, "events", 3, "payload", "{}");
        expect_value(fixture.admin, surplus_sql, "0 twice, 0 missing");
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

Test(schedule_relay, takes_up_a_new_schedule_long_before_the_next_sweep)
{
        struct relay_fixture fixture;
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        relay = start_with(&fixture, "sweep: 1h");
        relay_wait_for_log(relay, "event=lane_owned ", 30000);
        relay_wait_for_log(relay, "event=listening", 30000);
        schedule(&fixture, "all", "all");
        relay_fixture_await(&fixture, "events", 3);
        relay_stop(relay);
        expect_value(fixture.admin, surplus_sql, "0 twice, 0 missing");
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

Test(schedule_relay, finds_a_new_schedule_without_being_told)
{
        struct relay_fixture fixture;
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        relay = start_with(&fixture, "wakeup: poll, poll_interval: 20ms, sweep: 100ms");
        relay_wait_for_log(relay, "event=lane_owned ", 30000);
        schedule(&fixture, "all", "all");
        relay_fixture_await(&fixture, "events", 3);
        relay_stop(relay);
        expect_value(fixture.admin, surplus_sql, "0 twice, 0 missing");
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

Test(schedule_relay, ticks_once_with_two_relays_and_goes_on_without_the_first)
{
        struct relay_fixture fixture;
        struct relay_process *owner;
        struct relay_process *standby;

        relay_fixture_begin(&fixture, postgres_shared());
        schedule(&fixture, "all", "all");
        owner = relay_fixture_start(&fixture, "");
        relay_wait_for_log(owner, "event=lane_owned ", 30000);
        standby = relay_fixture_start(&fixture, "");
        relay_wait_for_log(standby, "event=lane_owned_elsewhere", 30000);
        await_ticks(&fixture, 4);

        /* Ticks are not the lane owner's: they go on while it is frozen, though no relay
         * delivers. */
        process_signal(&owner->process, SIGSTOP);
        await_ticks(&fixture, 4);
        cr_expect_eq(relay_count_in_log(standby, "event=lane_owned "), 0);
        process_signal(&owner->process, SIGCONT);
        await_ticks(&fixture, 2);
        relay_fixture_await(&fixture, "events",
            database_integer(fixture.admin, "SELECT count(*) FROM courier.outbox"));
        relay_stop(standby);
        relay_stop(owner);

        expect_value(fixture.admin, surplus_sql, "0 twice, 0 missing");
        relay_destroy(owner);
        relay_destroy(standby);
        relay_fixture_end(&fixture);
}

Test(schedule_relay, loses_no_tick_to_a_relay_that_is_killed)
{
        struct relay_fixture fixture;
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        relay = relay_fixture_start(&fixture, "");
        relay_wait_for_log(relay, "event=lane_owned ", 30000);
        schedule(&fixture, "all", "all");
        schedule(&fixture, "one", "one");
        await_ticks(&fixture, 4);
        relay_kill(relay);
        await_in_database(fixture.admin,
            "SELECT now() > max(next_at) + interval '3 seconds' FROM courier.schedule",
            "ticks are missed");
        relay_start_again(relay);
        await_ticks(&fixture, 10);
        relay_fixture_await(&fixture, "events",
            database_integer(fixture.admin, "SELECT count(*) FROM courier.outbox"));
        relay_stop(relay);

        expect_value(fixture.admin, surplus_sql, "0 twice, 0 missing");
        /* The missed ones in between are one event: one gap. */
        expect_value(fixture.admin,
            "SELECT count(*) FILTER (WHERE gap > 1) || ' gap, the last of '"
            " || (max(gap) >= 4)::text || ' length' FROM"
            " (SELECT extract(epoch FROM tick - lag(tick) OVER (ORDER BY tick)) AS gap"
            " FROM " TICKS("one") ") AS gaps",
            "1 gap, the last of true length");
        expect_value(
            fixture.admin, "SELECT count(*) - count(DISTINCT tick) FROM " TICKS("one"), "0");
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

Test(schedule_relay, ticks_once_while_two_relays_are_killed_in_turn)
{
        struct relay_fixture fixture;
        struct relay_process *relays[2];

        relay_fixture_begin(&fixture, postgres_shared());
        database_exec(fixture.admin, "SELECT courier.schedule('all-' || i, 'ops.all', '{}',"
                                     " every => '1 second', missed => 'all')"
                                     " FROM generate_series(1, 50) AS i");
        for (int i = 0; i < 2; i++)
                relays[i] = relay_fixture_start(&fixture, "");
        for (int i = 0; i < 8; i++) {
                await_ticks(&fixture, 20 + 10 * i); /* in the midst of a second's fifty */
                relay_kill(relays[i % 2]);
                relay_start_again(relays[i % 2]);
        }
        await_ticks(&fixture, 100);
        relay_fixture_await(&fixture, "events",
            database_integer(fixture.admin, "SELECT count(*) FROM courier.outbox"));
        for (int i = 0; i < 2; i++)
                relay_stop(relays[i]);

        expect_value(fixture.admin,
            "SELECT count(*) || ' schedules, ' || sum(n - n_ticks) || ' ticks twice, '"
            " || sum(seconds - n_ticks) || ' missing' FROM"
            " (SELECT count(*) AS n, count(DISTINCT tick) AS n_ticks,"
            " extract(epoch FROM max(tick) - min(tick))::bigint + 1 AS seconds FROM"
            " (SELECT headers->>'schedule' AS name,"
            " (headers->>'scheduled_for')::timestamptz AS tick FROM courier.outbox) AS ticks"
            " GROUP BY name) AS schedules",
            "50 schedules, 0 ticks twice, 0 missing");
        for (int i = 0; i < 2; i++)
                relay_destroy(relays[i]);
        relay_fixture_end(&fixture);
}

Test(schedule_relay, ticks_before_a_single_run_ends)
{
        struct relay_fixture fixture;
        char *config;
        char *path;
        struct program_run run;

        relay_fixture_begin(&fixture, postgres_shared());
        config = xasprintf("postgres: {dsn: \"%s\"}\n"
                           "sinks:\n"
                           "  - {name: bus, topics: [\"**\"], start: beginning,\n"
                           "     redis: {url: \"unix://%s\", stream: events}}\n",
            fixture.relay, fixture.redis.socket_path);
        path = program_file("once.yaml", config, strlen(config));
        /* More than one call publishes. */
        database_exec(fixture.admin,
            "SELECT courier.schedule('s', 't', '{}', every => '1 hour', missed => 'all',"
            " starting => date_trunc('hour', now()) - interval '1199 hours');"
            "UPDATE courier.schedule SET next_at = starting");
        run = program_run(NULL, "run", "--once", "-c", path, NULL);
        cr_expect_eq(run.code, 0, "%s", run.err);
        cr_expect_eq(redis_server_count(&fixture.redis, "XLEN events"), 1200);

        program_run_free(&run);
        free(path);
        free(config);
        relay_fixture_end(&fixture);
}

/* A relay that posts all events to a receiver, and a schedule of each second. */
static struct relay_process *start_with_receiver(struct relay_fixture *fixture,
    struct http_receiver *http, const char *retry, const char *overlap)
{
        struct relay_process *relay =
            relay_start("postgres: {dsn: \"%s\"}\n"
                        "relay: {sweep: 200ms}\n"
                        "sinks:\n"
                        "  - {name: hook, topics: [\"**\"], start: beginning, retry: {%s},\n"
                        "     http: {url: \"http://127.0.0.1:%u/\"}}\n",
                fixture->relay, retry, http_receiver_port(http));
        char *sql = xasprintf("SELECT courier.schedule('s', 't', '{}', every => '1 second',"
                              " missed => 'all', overlap => '%s')",
            overlap);

        relay_wait_for_log(relay, "event=lane_owned", 30000);
        database_exec(fixture->admin, sql);
        free(sql);
        return relay;
}

Test(schedule_relay, skips_ticks_while_the_last_event_is_under_way_or_retried)
{
        struct relay_fixture fixture;
        struct http_receiver *http = http_receiver_start(NULL, NULL);
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        http_receiver_answer(http, &(struct http_answer){.status = 204, .is_held = true});
        relay =
            start_with_receiver(&fixture, http, "first: 20ms, max: 20ms, attempts: 1000", "skip");
        await_in_database(fixture.admin, "SELECT skipped >= 2 FROM courier.schedule", "two skips");
        expect_value(fixture.admin, "SELECT count(*) FROM courier.outbox", "1");

        http_receiver_answer(http, &(struct http_answer){.status = 500});
        http_receiver_release(http);
        await_in_database(fixture.admin, "SELECT count(*) >= 2 FROM courier.outbox",
            "the next event, once the first has come");
        await_in_database(fixture.admin,
            "SELECT count(*) = 1 FROM courier.parked WHERE state = 'retry'",
            "the next one to fail");
        database_exec(fixture.admin, "CREATE TABLE was AS SELECT skipped FROM courier.schedule");
        await_in_database(fixture.admin,
            "SELECT s.skipped >= was.skipped + 2 FROM courier.schedule AS s, was",
            "skips while it is retried");
        expect_value(fixture.admin, "SELECT count(*) FROM courier.outbox", "2");

        http_receiver_answer(http, &(struct http_answer){.status = 204});
        await_ticks(&fixture, 2);
        relay_stop(relay);
        expect_value(fixture.admin,
            "SELECT count(*) = ticks AND ticks + skipped = extract(epoch FROM next_at - min(tick))"
            " FROM courier.schedule, " TICKS("s") " GROUP BY ticks, skipped, next_at",
            "t");
        relay_destroy(relay);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
}

Test(schedule_relay, queues_a_tick_until_the_last_event_is_delivered)
{
        struct relay_fixture fixture;
        struct http_receiver *http = http_receiver_start(NULL, NULL);
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        http_receiver_answer(http, &(struct http_answer){.status = 500});
        relay =
            start_with_receiver(&fixture, http, "first: 20ms, max: 20ms, attempts: 1000", "queue");
        await_in_database(fixture.admin,
            "SELECT now() > next_at + interval '3 seconds' AND held_until IS NOT NULL"
            " FROM courier.schedule",
            "a tick that waits");
        /* The trace says the same. */
        expect_value(fixture.admin,
            "SELECT bool_and(courier.is_open(id)) AND bool_and(EXISTS (SELECT FROM "
            "courier.trace(id)"
            " WHERE state IN ('waiting', 'retrying'))) FROM courier.outbox",
            "t");
        expect_value(fixture.admin, "SELECT count(*) FROM courier.outbox", "1");
        expect_value(fixture.admin, "SELECT skipped FROM courier.schedule", "0");

        http_receiver_answer(http, &(struct http_answer){.status = 204});
        await_ticks(&fixture, 4);
        relay_stop(relay);
        /* None is left out: missed is all. */
        expect_value(fixture.admin,
            "SELECT count(DISTINCT tick) - 1 = extract(epoch FROM max(tick) - min(tick)) "
            "FROM " TICKS("s"),
            "t");
        relay_destroy(relay);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
}

Test(schedule_relay, waits_for_no_dead_letter_and_no_sink_that_does_not_take_it)
{
        struct relay_fixture fixture;
        struct http_receiver *http = http_receiver_start(NULL, NULL);
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        http_receiver_answer(http, &(struct http_answer){.status = 422});
        database_exec(fixture.admin, "INSERT INTO courier.sink (name, fans_out, topics, types)"
                                     " VALUES ('other', false, '{other.**}', '{}')");
        relay = start_with_receiver(&fixture, http, "attempts: 1", "queue");
        await_in_database(
            fixture.admin, "SELECT count(*) >= 3 FROM courier.dead_letter", "three dead letters");
        relay_stop(relay);
        expect_value(
            fixture.admin, "SELECT count(DISTINCT outbox_id) >= 3 FROM courier.dead_letter", "t");
        relay_destroy(relay);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
}
