/* The whole program when deliveries fail: what is parked, given up, delayed, paused. */
#include "support/http_receiver.h"
#include "support/program.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hook {
        struct relay_fixture fixture;
        struct http_receiver *http;
        struct relay_process *relay;
};

/* `settings`: more keys of the sink, each followed by a comma; may be "". */
static void open_hook(struct hook *hook, const char *settings, const char *http_settings)
{
        hook->http = http_receiver_start(NULL, NULL);
        relay_fixture_begin(&hook->fixture, postgres_shared());
        hook->relay = relay_start("postgres: {dsn: \"%s\"}\n"
                                  "relay: {sweep: 500ms}\n"
                                  "sinks:\n"
                                  "  - {name: hook, topics: [\"**\"], start: beginning, %s\n"
                                  "     http: {url: \"http://127.0.0.1:%u/\"%s}}\n",
            hook->fixture.relay, settings, http_receiver_port(hook->http), http_settings);
        relay_wait_for_log(hook->relay, "event=lane_owned", 30000);
}

static void close_stopped_hook(struct hook *hook)
{
        relay_destroy(hook->relay);
        http_receiver_destroy(hook->http);
        relay_fixture_end(&hook->fixture);
}

static void close_hook(struct hook *hook)
{
        relay_stop(hook->relay);
        close_stopped_hook(hook);
}

static const char *bodies(struct hook *hook)
{
        static char text[1024];
        unsigned n = http_receiver_n_requests(hook->http);

        text[0] = '\0';
        for (unsigned i = 0; i < n; i++) {
                size_t length = strlen(text);
                snprintf(text + length, sizeof text - length, "%s%s", i > 0 ? " " : "",
                    http_receiver_request(hook->http, i)->body);
        }
        return text;
}

static void expect_bodies(struct hook *hook, unsigned n, const char *expected)
{
        http_receiver_wait(hook->http, n, 30000);
        cr_expect_str_eq(bodies(hook), expected);
}

static void await(struct hook *hook, const char *sql)
{
        await_in_database(hook->fixture.admin, sql, sql);
}

static long long count(struct hook *hook, const char *table)
{
        char sql[128];

        snprintf(sql, sizeof sql, "SELECT count(*) FROM courier.%s", table);
        return database_integer(hook->fixture.admin, sql);
}

/* For an hour. */
static void park_a1(struct hook *hook)
{
        http_receiver_answer_next(
            hook->http, &(struct http_answer){.status = 500, .headers = {"Retry-After: 3600"}});
        publish(hook->fixture.admin, "t", "a", "a1");
        await(hook, "SELECT EXISTS (SELECT FROM courier.parked)");
}

Test(relay_parking, tries_an_event_again_and_then_lets_its_key_go_on)
{
        struct hook hook;
        unsigned n;

        open_hook(&hook, "retry: {first: 50ms, max: 50ms},", "");
        http_receiver_answer(hook.http, &(struct http_answer){.status = 500});
        publish(hook.fixture.admin, "t", "a", "a1");
        await(&hook, "SELECT EXISTS (SELECT FROM courier.parked)");
        publish(hook.fixture.admin, "t", "a", "a2");
        publish(hook.fixture.admin, "t", "a", "a3");
        await(&hook, "SELECT count(*) = 3 FROM courier.parked");
        http_receiver_answer(hook.http, &(struct http_answer){.status = 204});
        await(&hook, "SELECT NOT EXISTS (SELECT FROM courier.parked)");
        n = http_receiver_n_requests(hook.http);
        for (unsigned i = 0; i < n - 2; i++)
                cr_expect_str_eq(http_receiver_request(hook.http, i)->body, "\"a1\"");
        cr_expect_str_eq(http_receiver_request(hook.http, n - 2)->body, "\"a2\"");
        cr_expect_str_eq(http_receiver_request(hook.http, n - 1)->body, "\"a3\"");
        await(&hook, "SELECT " ALL_IS_SETTLED);
        close_hook(&hook);
}

Test(relay_parking, gives_up_after_so_many_attempts_and_lets_the_key_go_on)
{
        struct hook hook;

        open_hook(&hook, "retry: {first: 20ms, max: 20ms, attempts: 2},", "");
        http_receiver_answer_next(
            hook.http, &(struct http_answer){.status = 500, .body = "first \033[1m words"});
        http_receiver_answer_next(hook.http, &(struct http_answer){.status = 500, .body = "last"});
        publish(hook.fixture.admin, "t", "a", "a1");
        publish(hook.fixture.admin, "t", "a", "a2");
        expect_bodies(&hook, 3, "\"a1\" \"a1\" \"a2\"");
        await(&hook, "SELECT NOT EXISTS (SELECT FROM courier.parked)");
        cr_expect_eq(count(&hook, "dead_letter"), 1);
        cr_expect_eq(
            database_integer(hook.fixture.admin,
                "SELECT count(*) FROM courier.dead_letter WHERE sink = 'hook' AND key = 'a'"
                " AND payload::text = '\"a1\"' AND attempts = 2 AND reason = 'attempts'"
                " AND first_error LIKE '500 Internal Server Error: first ?[1m words%'"
                " AND error LIKE '500 Internal Server Error: last%'"
                " AND first_failed_at < died_at"),
            1);
        cr_expect_eq(relay_count_in_log(hook.relay, "event=dead_letter sink=hook"), 1);
        close_hook(&hook);
}

Test(relay_parking, charges_and_parks_nothing_while_no_server_listens)
{
        struct hook hook;

        open_hook(&hook, "retry: {first: 1ms, max: 1ms, attempts: 1},", "");
        http_receiver_stop(hook.http);
        for (int i = 0; i < 20; i++)
                publish(hook.fixture.admin, "t", i % 2 == 0 ? "a" : NULL, "x");
        relay_wait_for_log(hook.relay, "event=sink_down", 30000);
        http_receiver_restart(hook.http);
        http_receiver_wait(hook.http, 20, 30000);
        await(&hook, "SELECT " ALL_IS_SETTLED);
        cr_expect_eq(http_receiver_n_requests(hook.http), 20);
        cr_expect_eq(count(&hook, "parked") + count(&hook, "dead_letter"), 0);
        close_hook(&hook);
}

Test(relay_parking, charges_and_parks_nothing_while_no_server_answers)
{
        struct hook hook;
        unsigned n;

        /* The answers at the end must come within the timeout, also on a busy machine. */
        open_hook(&hook, "retry: {first: 1ms, max: 1ms, attempts: 1},", ", timeout: 1s");
        http_receiver_answer(hook.http, &(struct http_answer){.is_held = true});
        for (int i = 0; i < 20; i++)
                publish(hook.fixture.admin, "t", NULL, "x");
        http_receiver_wait(hook.http, 18, 30000);
        cr_expect_eq(count(&hook, "parked") + count(&hook, "dead_letter"), 0);
        http_receiver_release(hook.http);
        http_receiver_answer(hook.http, &(struct http_answer){.status = 204});
        await(&hook, "SELECT " ALL_IS_SETTLED);
        n = http_receiver_n_requests(hook.http);
        /* 16 at a time: before the 18th came, two had waited in vain, and they came again. */
        cr_expect_geq(n, 22);
        cr_expect_eq(count(&hook, "parked") + count(&hook, "dead_letter"), 0);
        close_hook(&hook);
}

Test(relay_parking, does_not_let_a_slow_request_hold_up_the_cursor)
{
        struct hook hook;

        open_hook(&hook, "park_after: 50ms,", "");
        http_receiver_answer_next(hook.http, &(struct http_answer){.is_held = true});
        publish(hook.fixture.admin, "t", "a", "a1");
        http_receiver_wait(hook.http, 1, 30000);
        publish(hook.fixture.admin, "t", "a", "a2");
        publish(hook.fixture.admin, "t", "b", "b1");
        await(&hook, "SELECT " ALL_IS_SETTLED);
        cr_expect_eq(count(&hook, "parked"), 2);
        http_receiver_release(hook.http);
        expect_bodies(&hook, 3, "\"a1\" \"b1\" \"a2\"");
        await(&hook, "SELECT NOT EXISTS (SELECT FROM courier.parked)");
        cr_expect_eq(http_receiver_n_requests(hook.http), 3);
        close_hook(&hook);
}

Test(relay_parking, delivers_a_delayed_event_when_it_is_due_even_after_a_restart)
{
        struct hook hook;

        open_hook(&hook, "", "");
        database_exec(hook.fixture.admin,
            "SELECT courier.publish('t', '\"later\"', key => 'a',"
            " deliver_at => clock_timestamp() + '1500 ms'::interval)");
        publish(hook.fixture.admin, "t", "a", "now");
        await(&hook, "SELECT EXISTS (SELECT FROM courier.parked WHERE state = 'delayed')");
        http_receiver_wait(hook.http, 1, 30000);
        relay_stop(hook.relay);
        relay_start_again(hook.relay);
        expect_bodies(&hook, 2, "\"now\" \"later\"");
        cr_expect_eq(database_integer(hook.fixture.admin,
                         "SELECT (clock_timestamp() >= deliver_at)::integer FROM courier.outbox"
                         " WHERE deliver_at IS NOT NULL"),
            1, "not before its time");
        await(&hook, "SELECT NOT EXISTS (SELECT FROM courier.parked)");
        close_hook(&hook);
}

Test(relay_parking, stands_still_while_an_operator_has_paused_the_sink)
{
        struct hook hook;

        open_hook(&hook, "", "");
        database_exec(hook.fixture.admin,
            "INSERT INTO courier.pause (sink, by, reason) VALUES ('hook', 'operator', 'lunch')");
        relay_wait_for_log(
            hook.relay, "event=sink_paused sink=hook by=operator reason=lunch", 30000);
        publish(hook.fixture.admin, "t", "a", "a1");
        relay_stop(hook.relay);
        relay_start_again(hook.relay);
        relay_wait_for_log(hook.relay, "event=lane_owned", 30000);
        cr_expect_eq(http_receiver_n_requests(hook.http), 0, "the pause outlives the relay");
        database_exec(hook.fixture.admin, "DELETE FROM courier.pause");
        relay_wait_for_log(hook.relay, "event=sink_resumed sink=hook", 30000);
        expect_bodies(&hook, 1, "\"a1\"");
        close_hook(&hook);
}

Test(relay_parking, pauses_visibly_when_it_is_not_let_in_and_tries_at_once_when_resumed)
{
        struct hook hook;

        open_hook(&hook, "retry: {attempts: 1},", "");
        http_receiver_answer(hook.http, &(struct http_answer){.status = 401, .body = "who?"});
        publish(hook.fixture.admin, "t", "a", "a1");
        await(&hook, "SELECT EXISTS (SELECT FROM courier.pause WHERE sink = 'hook' AND by = 'relay'"
                     " AND reason LIKE '401 %who?%')");
        cr_expect_eq(count(&hook, "parked") + count(&hook, "dead_letter"), 0);
        http_receiver_answer(hook.http, &(struct http_answer){.status = 204});
        database_exec(hook.fixture.admin, "DELETE FROM courier.pause");
        expect_bodies(&hook, 2, "\"a1\" \"a1\"");
        await(&hook, "SELECT " ALL_IS_SETTLED);
        cr_expect_eq(count(&hook, "pause"), 0);
        close_hook(&hook);
}

Test(relay_parking, shows_no_pause_any_more_when_it_is_let_in_again)
{
        struct hook hook;

        open_hook(&hook, "", "");
        relay_stop(hook.relay);
        database_exec(hook.fixture.admin,
            "INSERT INTO courier.pause (sink, by, reason) VALUES ('hook', 'relay', 'yesterday')");
        relay_start_again(hook.relay);
        publish(hook.fixture.admin, "t", "a", "a1");
        http_receiver_wait(hook.http, 1, 30000);
        await(&hook, "SELECT NOT EXISTS (SELECT FROM courier.pause)");
        close_hook(&hook);
}

Test(relay_parking, gives_up_skipped_events_and_delivers_redriven_events)
{
        struct hook hook;

        open_hook(&hook, "", "");
        park_a1(&hook);
        publish(hook.fixture.admin, "t", "a", "a2");
        database_exec(hook.fixture.admin,
            "UPDATE courier.parked SET skip = true, due_at = now(); NOTIFY courier_control");
        expect_bodies(&hook, 2, "\"a1\" \"a2\"");
        await(&hook, "SELECT EXISTS (SELECT FROM courier.dead_letter WHERE reason = 'skipped'"
                     " AND error <> '' AND attempts = 1)");
        database_exec(hook.fixture.admin,
            "WITH gone AS (DELETE FROM courier.dead_letter RETURNING *)"
            "INSERT INTO courier.parked (sink, lane, outbox_id, state, due_at, is_redriven,"
            " event_id, topic, key, type, payload, data, headers, created_at)"
            "SELECT sink, lane, outbox_id, 'delayed', now(), true,"
            " event_id, topic, key, type, payload, data, headers, created_at FROM gone;"
            "NOTIFY courier_control");
        expect_bodies(&hook, 3, "\"a1\" \"a2\" \"a1\"");
        await(&hook, "SELECT NOT EXISTS (SELECT FROM courier.parked)");
        close_hook(&hook);
}

#ifdef PGCOURIER_CRASH_POINTS

/* Killed before the dead letter is written, with a destination that takes the event from then
 * on. */
Test(relay_parking, lets_no_event_overtake_a_dead_letter_that_is_not_written)
{
        struct hook hook;

        open_hook(&hook, "retry: {attempts: 1},", "");
        relay_kill(hook.relay);
        publish(hook.fixture.admin, "t", "a", "1");
        publish(hook.fixture.admin, "t", "a", "2");
        http_receiver_answer_next(hook.http, &(struct http_answer){.status = 422});
        setenv("PGCOURIER_CRASH_AT", "before_settle:1", 1);
        relay_start_again(hook.relay);
        cr_expect_eq(process_wait(&hook.relay->process, 60000), 128 + 9);
        unsetenv("PGCOURIER_CRASH_AT");
        expect_bodies(&hook, 1, "\"1\"");
        relay_start_again(hook.relay);
        expect_bodies(&hook, 3, "\"1\" \"1\" \"2\"");
        close_hook(&hook);
}

#endif

Test(relay_parking, gives_up_an_event_that_is_too_large_without_an_attempt)
{
        struct hook hook;

        open_hook(&hook, "max_event_bytes: 2000B,", "");
        database_exec(hook.fixture.admin,
            "SELECT courier.publish('t', to_json(repeat('x', 1999)), key => 'a')");
        publish(hook.fixture.admin, "t", "a", "a2");
        expect_bodies(&hook, 1, "\"a2\"");
        await(&hook, "SELECT EXISTS (SELECT FROM courier.dead_letter WHERE reason = 'too_large'"
                     " AND attempts = 0 AND error LIKE '%2001 bytes%')");
        close_hook(&hook);
}

Test(relay_parking, keeps_the_order_of_a_parked_key_when_it_is_killed)
{
        struct hook hook;
        unsigned n;

        open_hook(&hook, "retry: {first: 200ms, max: 200ms},", "");
        http_receiver_answer(hook.http, &(struct http_answer){.status = 500});
        publish(hook.fixture.admin, "t", "a", "a1");
        await(&hook, "SELECT EXISTS (SELECT FROM courier.parked)");
        publish(hook.fixture.admin, "t", "a", "a2");
        await(&hook, "SELECT count(*) = 2 FROM courier.parked");
        relay_kill(hook.relay);
        n = http_receiver_n_requests(hook.http);
        http_receiver_answer(hook.http, &(struct http_answer){.status = 204});
        publish(hook.fixture.admin, "t", "a", "a3");
        relay_start_again(hook.relay);
        http_receiver_wait(hook.http, n + 3, 30000);
        cr_expect_str_eq(http_receiver_request(hook.http, n)->body, "\"a1\"");
        cr_expect_str_eq(http_receiver_request(hook.http, n + 1)->body, "\"a2\"");
        cr_expect_str_eq(http_receiver_request(hook.http, n + 2)->body, "\"a3\"");
        close_hook(&hook);
}

Test(relay_parking, keeps_the_last_error_of_an_event_that_is_skipped_by_hand)
{
        struct hook hook;

        open_hook(&hook, "", "");
        park_a1(&hook);
        publish(hook.fixture.admin, "t", "a", "a2");
        database_exec(hook.fixture.admin,
            "UPDATE courier.parked SET skip = true, due_at = now() WHERE state = 'retry'");
        database_exec(hook.fixture.admin, "NOTIFY courier_control");
        expect_bodies(&hook, 2, "\"a1\" \"a2\"");
        await(&hook, "SELECT EXISTS (SELECT FROM courier.dead_letter WHERE reason = 'skipped'"
                     " AND attempts = 1 AND error LIKE '500 %' AND first_error = error)");
        close_hook(&hook);
}

Test(relay_parking, ends_with_once_although_an_event_is_parked)
{
        struct hook hook;
        struct program_run run;

        open_hook(&hook, "", "");
        park_a1(&hook);
        relay_stop(hook.relay);
        run = program_run(NULL, "run", "-c", hook.relay->config_path, "--once", NULL);
        cr_expect_eq(run.code, 0, "%s", run.err);
        program_run_free(&run);
        cr_expect_eq(count(&hook, "parked"), 1);
        close_stopped_hook(&hook);
}
