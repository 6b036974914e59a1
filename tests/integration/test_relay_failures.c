/*
 * The whole program while it, its database and its destinations fail, under load: nothing is lost,
 * keys keep their order, and what comes twice stays within the window.
 */
#include "support/http_receiver.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the relay and its database ------------------------------------------------------------ */

enum { N_KILLS = 20, MAX_IN_FLIGHT = 50 };

Test(relay_failures, repeats_at_most_its_window_after_a_kill)
{
        struct relay_fixture fixture;
        struct relay_process *relay;
        size_t n_before[N_KILLS + 1];
        unsigned seed = 7;
        size_t n_repeated = 0;

        relay_fixture_begin(&fixture, postgres_shared());
        relay = relay_fixture_start(&fixture, "    max_in_flight: 50\n");
        relay_fixture_write(&fixture, seed);
        for (int i = 0; i < N_KILLS; i++) {
                relay_fixture_await_more(&fixture, 1 + rand_r(&seed) % 200);
                relay_kill(relay);
                history_read_stream(&fixture.history, &fixture.redis, "events");
                n_before[i] = fixture.history.n_arrivals;
                relay_start_again(relay);
        }
        relay_fixture_check(&fixture, relay);
        n_before[N_KILLS] = fixture.history.n_arrivals;

        for (int i = 0; i <= N_KILLS; i++) {
                struct history so_far = fixture.history;
                size_t n_until_now;
                so_far.n_arrivals = n_before[i];
                n_until_now = history_judge(&so_far, fixture.writers).n_repeated;
                cr_expect_leq(n_until_now - n_repeated, i == 0 ? 0 : MAX_IN_FLIGHT,
                    "%zu events came twice after kill %d", n_until_now - n_repeated, i);
                n_repeated = n_until_now;
        }
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

/* Something is wrong with what one lane has to read, and with no other's: a transaction in progress
 * makes a page look at rows somewhat below its own, not as far as that. */
Test(relay_failures, goes_on_with_other_lanes_when_the_page_of_one_fails)
{
        struct relay_fixture fixture;
        struct relay_process *relay;
        PGconn *straggler;

        relay_fixture_begin(&fixture, postgres_shared());
        publish(fixture.admin, "t", NULL, "unreadable");
        database_exec(fixture.admin, "SELECT setval('courier.outbox_id_seq', 10000)");
        straggler = database_connect(fixture.dsn);
        database_exec(straggler, "BEGIN; SELECT pg_current_xact_id()");
        database_exec(fixture.admin,
            "ALTER TABLE courier.outbox ENABLE ROW LEVEL SECURITY;"
            "CREATE POLICY damaged ON courier.outbox USING (id > 1 OR 1 / (id - 1) = 1)");
        relay = relay_start("postgres: {dsn: \"%s\"}\n"
                            "relay: {sweep: 200ms}\n"
                            "sinks:\n"
                            "  - name: bus\n"
                            "    topics: [\"**\"]\n"
                            "    redis: {url: \"unix://%s\", stream: events}\n"
                            "  - name: historian\n"
                            "    topics: [\"**\"]\n"
                            "    start: beginning\n"
                            "    redis: {url: \"unix://%s\", stream: history}\n",
            fixture.relay, fixture.redis.socket_path, fixture.redis.socket_path);
        relay_wait_for_log(relay, "event=lane_owned sink=bus", 10000);
        relay_wait_for_log(relay, "event=page_failed sink=historian", 10000);
        for (int i = 0; i < 50; i++)
                publish(fixture.admin, "t", NULL, "readable");
        relay_fixture_await(&fixture, "events", 50);
        relay_wait_for_log(relay, "error=\"refused by the server: ERROR:  division by zero", 10000);
        cr_expect_eq(relay_count_in_log(relay, "connection_lost"), 0);
        cr_expect_eq(relay_count_in_log(relay, "event=lane_owned"), 2);

        database_exec(fixture.admin, "DROP POLICY damaged ON courier.outbox;"
                                     "ALTER TABLE courier.outbox DISABLE ROW LEVEL SECURITY");
        relay_fixture_await(&fixture, "history", 51);
        PQfinish(straggler);
        relay_stop(relay);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

static void survive_restarts(void (*stop)(struct postgres *postgres), unsigned seed)
{
        struct postgres *postgres = postgres_start();
        struct relay_fixture fixture;
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres);
        relay = relay_fixture_start(&fixture, "");
        relay_fixture_write(&fixture, seed);
        for (int i = 0; i < 3; i++) {
                relay_fixture_await_more(&fixture, 200);
                stop(postgres);
                postgres_start_again(postgres);
        }
        relay_fixture_await_more(&fixture, 200);
        relay_fixture_check(&fixture, relay);

        cr_expect_geq(relay_count_in_log(relay, "event=outbox_connection_lost"), 3);
        cr_expect_eq(relay_count_in_log(relay, "event=starting"), 1);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
        postgres_stop(postgres);
}

Test(relay_failures, goes_on_after_the_database_was_restarted)
{
        survive_restarts(postgres_stop, 1);
}

Test(relay_failures, goes_on_after_the_database_crashed)
{
        survive_restarts(postgres_stop_immediate, 2);
}

static bool has_connected_the_doorbell_again(void *relay)
{
        return relay_count_in_log(relay, "event=listening") >= 2;
}

Test(relay_failures, goes_on_after_its_sessions_were_terminated)
{
        struct relay_fixture fixture;
        struct relay_process *relay;
        char is_owned[64];

        relay_fixture_begin(&fixture, postgres_shared());
        relay = relay_fixture_start(&fixture, "");
        relay_fixture_write(&fixture, 3);
        for (int i = 0; i < 10; i++) {
                relay_fixture_await_more(&fixture, 100);
                snprintf(is_owned, sizeof is_owned, "SELECT epoch = %d FROM courier.cursor", i + 1);
                await_in_database(fixture.admin, is_owned, "the relay owns its lane again");
                database_exec(fixture.admin,
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE usename = 'relay' AND datname = current_database()");
        }
        relay_fixture_await_more(&fixture, 100);
        /* While the work session is down, too, nothing warns of the doorbell's loss. */
        wait_until(
            has_connected_the_doorbell_again, relay, 30000, "the doorbell is connected again");
        relay_fixture_check(&fixture, relay);

        cr_expect_geq(relay_count_in_log(relay, "event=outbox_connection_lost"), 10);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

/* ---- a destination that refuses ------------------------------------------------------------- */

static struct relay_process *start_hook(
    const struct relay_fixture *fixture, const struct http_receiver *http, int concurrency)
{
        return relay_start(
            "postgres: {dsn: \"%s\"}\n"
            "sinks:\n"
            "  - {name: hook, topics: [\"**\"], start: beginning, max_in_flight: 10,\n"
            "     retry: {first: 10ms, max: 10ms},\n"
            "     http: {url: \"http://127.0.0.1:%u/\"}, concurrency: %d}\n",
            fixture->relay, http_receiver_port(http), concurrency);
}

static const char *bodies(struct http_receiver *http)
{
        static char text[256];
        unsigned n = http_receiver_n_requests(http);

        text[0] = '\0';
        for (unsigned i = 0; i < n; i++) {
                size_t length = strlen(text);
                snprintf(text + length, sizeof text - length, "%s%s", i > 0 ? " " : "",
                    http_receiver_request(http, i)->body);
        }
        return text;
}

Test(relay_failures, retries_in_the_order_of_a_key_and_holds_up_no_other)
{
        struct relay_fixture fixture;
        struct http_receiver *http = http_receiver_start(NULL, NULL);
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        http_receiver_answer_next(http, &(struct http_answer){.status = 500, .is_held = true});
        relay = start_hook(&fixture, http, 16);
        publish(fixture.admin, "t", "a", "a1");
        http_receiver_wait(http, 1, 30000);
        publish(fixture.admin, "t", "a", "a2");
        publish(fixture.admin, "t", "b", "b1");
        http_receiver_wait(http, 2, 30000);
        publish(fixture.admin, "t", "b", "b2");
        http_receiver_wait(http, 3, 30000);
        http_receiver_answer_next(http, &(struct http_answer){.status = 500});
        http_receiver_release(http);
        http_receiver_wait(http, 6, 30000);
        relay_stop(relay);

        cr_expect_str_eq(bodies(http), "\"a1\" \"b1\" \"b2\" \"a1\" \"a1\" \"a2\"");
        cr_expect_eq(relay_count_in_log(relay, "event=delivery_failed sink=hook"), 2);
        cr_expect_eq(relay_count_in_log(relay, " attempt=2 outcome=retry"), 1);
        cr_expect_eq(relay_count_in_log(relay, " retry_ms="), 2);
        relay_destroy(relay);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
}

Test(relay_failures, keeps_waiting_events_parked_over_a_clean_stop)
{
        struct relay_fixture fixture;
        struct http_receiver *http = http_receiver_start(NULL, NULL);
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        http_receiver_answer_next(
            http, &(struct http_answer){.status = 500, .headers = {"Retry-After: 3600"}});
        relay = start_hook(&fixture, http, 16);
        publish(fixture.admin, "t", "a", "a1");
        relay_wait_for_log(relay, " retry_ms=3600000", 30000);
        publish(fixture.admin, "t", "a", "a2");
        publish(fixture.admin, "t", "b", "b1");
        http_receiver_wait(http, 2, 30000);
        relay_stop(relay);
        cr_expect_str_eq(bodies(http), "\"a1\" \"b1\"");
        cr_expect_eq(database_integer(fixture.admin,
                         "SELECT count(*) FROM courier.parked WHERE key = 'a' AND attempts ="
                         " (payload::text = '\"a1\"')::integer AND state ="
                         " CASE payload::text WHEN '\"a1\"' THEN 'retry' ELSE 'blocked' END"),
            2);

        relay_start_again(relay);
        publish(fixture.admin, "t", "b", "b2");
        http_receiver_wait(http, 3, 30000);
        database_exec(fixture.admin,
            "UPDATE courier.parked SET due_at = now() WHERE state = 'retry';"
            "NOTIFY courier_control");
        http_receiver_wait(http, 5, 30000);
        relay_stop(relay);
        cr_expect_str_eq(bodies(http), "\"a1\" \"b1\" \"b2\" \"a1\" \"a2\"");
        cr_expect_eq(database_integer(fixture.admin, "SELECT count(*) FROM courier.parked"), 0);
        relay_destroy(relay);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
}

Test(relay_failures, settles_only_answered_events)
{
        struct relay_fixture fixture;
        struct http_receiver *http = http_receiver_start(NULL, NULL);
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        database_exec(fixture.admin, "SELECT count(courier.publish('t', to_json(i))) "
                                     "FROM generate_series(1, 20) AS i");
        http_receiver_answer_next(http, &(struct http_answer){.status = 204});
        http_receiver_answer_next(http, &(struct http_answer){.status = 204});
        http_receiver_answer_next(http, &(struct http_answer){.is_held = true});
        relay = start_hook(&fixture, http, 1);
        http_receiver_wait(http, 3, 30000);
        await_in_database(fixture.admin, "SELECT last_id >= 2 FROM courier.cursor", "it settles");
        relay_kill(relay);
        cr_expect_eq(database_integer(fixture.admin, "SELECT last_id FROM courier.cursor"), 2);
        http_receiver_release(http);
        relay_start_again(relay);
        http_receiver_wait(http, 3 + 18, 30000);
        relay_stop(relay);

        cr_expect_str_eq(bodies(http), "1 2 3 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20");
        relay_destroy(relay);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
}
