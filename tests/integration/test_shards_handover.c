/* Shards are given from one relay to another, and back, while an attempt hangs in one of them. */
#include "support/http_receiver.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>

enum { DEADLINE_MS = 60000 };

static struct relay_fixture fixture;
static struct http_receiver *http;
static struct relay_process *first, *second;

/* A relay with four shards, which looks for others once in `standby`. */
static struct relay_process *start_relay(const char *name, const char *standby, const char *drain)
{
        return relay_start("postgres: {dsn: \"%s\"}\n"
                           "relay: {name: %s, standby: %s, drain: %s, sweep: 1h}\n"
                           "sinks:\n"
                           "  - {name: bus, topics: [\"**\"], start: beginning, shards: 4,\n"
                           "     http: {url: \"http://127.0.0.1:%u/\", timeout: 60s}}\n",
            fixture.relay, name, standby, drain, http_receiver_port(http));
}

static void await_shards_of(const char *name, unsigned n)
{
        char sql[240];

        snprintf(sql, sizeof sql,
            "SELECT count(*) = %u FROM courier.cursor JOIN courier.relay_lock USING (lock_id)"
            " JOIN courier.live_member USING (pid) WHERE name = '%s'",
            n, name);
        await_in_database(fixture.admin, sql, "the relay has not so many shards");
}

static void drain(const char *is_drained)
{
        char sql[160];

        snprintf(sql, sizeof sql,
            "UPDATE courier.member SET is_drained = %s WHERE name = 'first';"
            "NOTIFY courier_control",
            is_drained);
        database_exec(fixture.admin, sql);
}

/* The first relay has all shards, and an attempt that hangs. */
static void begin_with_first(const char *standby, const char *drain)
{
        http = http_receiver_start(NULL, NULL);
        relay_fixture_begin(&fixture, postgres_shared());
        first = start_relay("first", standby, drain);
        await_shards_of("first", 4);
        http_receiver_answer_next(http, &(struct http_answer){.is_held = true});
        publish(fixture.admin, "t", "a", "held");
        http_receiver_wait(http, 1, DEADLINE_MS);
}

/* The second is there, and the first drained. */
static void begin(const char *standby, const char *drain)
{
        begin_with_first(standby, drain);
        database_exec(
            fixture.admin, "UPDATE courier.member SET is_drained = true WHERE name = 'first'");
        second = start_relay("second", standby, drain);
}

static void end(void)
{
        relay_destroy(first);
        relay_destroy(second);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
}

/* Each time they are told to look. */
static bool has_second_three(void *nothing)
{
        (void)nothing;
        database_exec(fixture.admin, "NOTIFY courier_control");
        return database_integer(fixture.admin,
                   "SELECT count(*) FROM courier.cursor JOIN courier.relay_lock USING (lock_id)"
                   " JOIN courier.live_member USING (pid) WHERE name = 'second'") == 3;
}

/* They look at each other once an hour, and hear before that a shard was given back. */
Test(shards_handover, happens_on_news)
{
        begin("1h", "1h");
        drain("true");
        wait_until(has_second_three, NULL, DEADLINE_MS, "the shards that are at rest are given");
        http_receiver_release(http);
        await_shards_of("second", 4);
        relay_stop(first);
        relay_stop(second);

        cr_expect_eq(http_receiver_n_requests(http), 1);
        end();
}

/* A relay that ends has until then the shard whose attempt hangs, and no other. */
Test(shards_handover, does_not_wait_for_the_end_of_a_relay)
{
        begin_with_first("50ms", "1h");
        second = start_relay("second", "50ms", "1h");
        relay_wait_for_log(first, "event=shard_given", DEADLINE_MS);
        process_signal(&first->process, SIGTERM);
        await_shards_of("second", 3);
        http_receiver_release(http);
        await_shards_of("second", 4);
        cr_expect_eq(relay_wait(first, DEADLINE_MS), 0);
        relay_stop(second);

        cr_expect_eq(http_receiver_n_requests(http), 1);
        end();
}

/* What was in flight is delivered by the other relay; until the attempt has ended, the shard is not
 * delivered here again. */
Test(shards_handover, back_waits_for_an_attempt_that_was_given_up)
{
        begin("50ms", "10ms");
        await_shards_of("second", 4);
        http_receiver_wait(http, 2, DEADLINE_MS);
        cr_expect_eq(relay_count_in_log(first, "in_flight=1 consequence="), 1);
        await_in_database(fixture.admin,
            "SELECT count(*) = 1 FROM courier.cursor WHERE pace IS NOT NULL",
            "the second relay has settled it");
        drain("false");
        relay_stop(second);
        await_shards_of("first", 3);
        publish(fixture.admin, "t", "a", "behind");
        http_receiver_release(http);
        await_shards_of("first", 4);
        http_receiver_wait(http, 3, DEADLINE_MS);
        relay_stop(first);

        cr_expect_str_eq(http_receiver_request(http, 1)->body, "\"held\"");
        cr_expect_str_eq(http_receiver_request(http, 2)->body, "\"behind\"");
        end();
}

/* They go by their ids. A session that is no relay's has a shard at first, so that the relay reads
 * those of three. */
Test(shards_handover, leaves_no_event_behind_without_a_key)
{
        PGconn *stranger;

        http = http_receiver_start(NULL, NULL);
        relay_fixture_begin(&fixture, postgres_shared());
        stranger = database_connect(fixture.relay);
        database_exec(stranger,
            "SELECT courier.agree_shards('bus', 4, false, false, 'test');"
            "SELECT pg_advisory_lock(1668248946, lock_id) FROM courier.cursor WHERE lane = -2");
        first = start_relay("first", "50ms", "10s");
        await_shards_of("first", 3);
        database_exec(fixture.admin,
            "SELECT courier.publish('t', '1', key => NULL) FROM generate_series(1, 40)");
        PQfinish(stranger);
        await_shards_of("first", 4);
        http_receiver_wait(http, 40, DEADLINE_MS);
        relay_stop(first);
        relay_destroy(first);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
}
