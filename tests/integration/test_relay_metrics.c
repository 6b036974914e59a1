/* What a running relay counts is what happened: its metrics beside what arrived, failed and was
 * given up. */
#include "base/alloc.h"
#include "support/http_client.h"
#include "support/http_receiver.h"
#include "support/postgres.h"
#include "support/relay_fixture.h"
#include "support/relay_process.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct metered {
        struct relay_fixture fixture;
        struct http_receiver *http;
        struct relay_process *relay;
        char *address; /* of the admin endpoint */
        char *text;    /* the metrics, as they were scraped last */
};

static void begin(struct metered *metered)
{
        relay_fixture_begin(&metered->fixture, postgres_shared());
        metered->http = http_receiver_start(NULL, NULL);
        metered->address = NULL;
        metered->text = NULL;
}

static void start(struct metered *metered)
{
        struct relay_fixture *fixture = &metered->fixture;

        metered->address = xasprintf("unix:%s.admin", fixture->redis.socket_path);
        metered->relay = relay_start("postgres: {dsn: \"%s\"}\n"
                                     "admin: {listen: \"%s\"}\n"
                                     "sinks:\n"
                                     "  - {name: hook, topics: [\"**\"], start: beginning,\n"
                                     "     max_event_bytes: 1kB,\n"
                                     "     retry: {first: 20ms, max: 20ms, attempts: 2},\n"
                                     "     http: {url: \"http://127.0.0.1:%u/\", timeout: 500ms}}\n"
                                     "  - {name: bus, topics: [\"bus\"], start: beginning,\n"
                                     "     redis: {url: \"unix://%s\", stream: events}}\n",
            fixture->relay, metered->address, http_receiver_port(metered->http),
            fixture->redis.socket_path);
        relay_wait_for_log(metered->relay, "event=admin_listening", 10000);
}

static void end(struct metered *metered)
{
        relay_stop(metered->relay);
        relay_destroy(metered->relay);
        http_receiver_destroy(metered->http);
        relay_fixture_end(&metered->fixture);
        free(metered->address);
        free(metered->text);
}

static void scrape(struct metered *metered)
{
        struct http_reply reply = http_ask(metered->address, "GET", "/metrics", NULL, NULL);

        if (reply.status != 200)
                test_abort("/metrics answered %u", reply.status);
        free(metered->text);
        metered->text = xstrdup(reply.body);
        http_reply_free(&reply);
}

/* Of the last scrape; negative: there is no such series. */
static double value(const struct metered *metered, const char *series)
{
        char *begin_of_line = xasprintf("\n%s ", series);
        const char *at = strstr(metered->text, begin_of_line);
        double found = at != NULL ? strtod(at + strlen(begin_of_line), NULL) : -1;

        free(begin_of_line);
        return found;
}

struct awaited {
        struct metered *metered;
        const char *series;
        double at_least, at_most;
};

static bool is_reached(void *context)
{
        const struct awaited *awaited = context;
        double found;

        scrape(awaited->metered);
        found = value(awaited->metered, awaited->series);
        return found >= awaited->at_least && found <= awaited->at_most;
}

static void await_value(struct metered *metered, const char *series, double at_least)
{
        wait_until(is_reached, &(struct awaited){metered, series, at_least, 1e9}, 20000, series);
}

/* -1: no such series. */
static void await_exactly(struct metered *metered, const char *series, double expected)
{
        wait_until(
            is_reached, &(struct awaited){metered, series, expected, expected}, 20000, series);
}

static void expect(const struct metered *metered, const char *series, double expected)
{
        double found = value(metered, series);

        cr_expect_eq(found, expected, "%s is %g, not %g", series, found, expected);
}

#define DELIVERIES(sink, outcome)                                                                  \
        "pgcourier_deliveries_total{sink=\"" sink "\",outcome=\"" outcome "\"}"
#define ERRORS(reason) "pgcourier_delivery_errors_total{sink=\"hook\",reason=\"" reason "\"}"
#define STAGE(stage)   "pgcourier_stage_latency_seconds_count{sink=\"hook\",stage=\"" stage "\"}"

Test(relay_metrics, count_what_was_delivered_retried_and_given_up)
{
        struct metered metered;
        PGconn *database;
        char *large = xcalloc(1, 2000);

        begin(&metered);
        database = metered.fixture.admin;
        start(&metered);
        memset(large, 'x', 1999);

        for (int i = 0; i < 20; i++)
                publish(database, i < 5 ? "bus" : "hook", NULL, "fine");
        await_value(&metered, DELIVERIES("hook", "delivered"), 20);
        await_value(&metered, DELIVERIES("bus", "delivered"), 5);

        http_receiver_answer_next(metered.http, &(struct http_answer){.status = 500});
        publish(database, "t", NULL, "fails once");
        await_value(&metered, DELIVERIES("hook", "delivered"), 21);
        http_receiver_answer_next(metered.http, &(struct http_answer){.status = 422});
        http_receiver_answer_next(metered.http, &(struct http_answer){.status = 422});
        publish(database, "t", NULL, "fails twice");
        await_value(&metered, DELIVERIES("hook", "dead"), 1);
        publish(database, "t", NULL, large);
        await_value(&metered, DELIVERIES("hook", "dead"), 2);
        http_receiver_answer_next(metered.http, &(struct http_answer){.status = 503});
        publish(database, "t", NULL, "meets an overload");
        await_value(&metered, DELIVERIES("hook", "delivered"), 22);
        await_value(&metered, STAGE("settle"), 20);

        expect(&metered, DELIVERIES("hook", "delivered"), 22);
        expect(&metered, DELIVERIES("hook", "retry"), 2);
        expect(&metered, DELIVERIES("hook", "dead"), 2);
        expect(&metered, DELIVERIES("hook", "sink_down"), 1);
        expect(&metered, DELIVERIES("hook", "dropped"), 0);
        expect(&metered, DELIVERIES("bus", "delivered"), 5);
        expect(&metered, DELIVERIES("bus", "retry"), 0);
        expect(&metered, ERRORS("http_4xx"), 2);
        expect(&metered, ERRORS("http_5xx"), 2);
        expect(&metered, ERRORS("too_large"), 1);
        expect(&metered, ERRORS("other"), 0);
        cr_expect_eq(http_receiver_n_requests(metered.http), 22 + 2 + 1 + 1);

        expect(&metered, "pgcourier_delivery_latency_seconds_count{sink=\"hook\"}", 22);
        expect(&metered, STAGE("pickup"), 24);
        expect(&metered, STAGE("send"), 22 + 2 + 1 + 1);
        expect(&metered, STAGE("queue"), 22 + 2 + 1 + 1);
        /* "fine" and the three others, each with its quotes */
        expect(&metered, "pgcourier_payload_bytes_total{sink=\"hook\"}", 20 * 6 + 12 + 19);
        free(large);
        end(&metered);
}

Test(relay_metrics, tell_an_outage_and_its_end)
{
        struct metered metered;

        begin(&metered);
        start(&metered);
        await_value(&metered, "pgcourier_sink_up{sink=\"hook\"}", 1);
        expect(&metered, "pgcourier_leader{sink=\"hook\"}", 1);
        expect(&metered, "pgcourier_sink_state{sink=\"hook\",state=\"running\"}", 1);
        expect(&metered, "pgcourier_inflight_events{sink=\"hook\"}", 0);
        expect(&metered, "pgcourier_ready", 1);
        expect(&metered, "pgcourier_source_up", 1);

        http_receiver_stop(metered.http);
        publish(metered.fixture.admin, "t", "k", "waits");
        await_value(&metered, "pgcourier_sink_state{sink=\"hook\",state=\"down\"}", 1);
        expect(&metered, "pgcourier_sink_up{sink=\"hook\"}", 0);
        expect(&metered, "pgcourier_inflight_events{sink=\"hook\"}", 1);
        cr_expect_geq(value(&metered, ERRORS("refused")), 1);
        await_value(&metered, "pgcourier_backlog_events{sink=\"hook\"}", 1);

        http_receiver_restart(metered.http);
        await_value(&metered, "pgcourier_sink_up{sink=\"hook\"}", 1);
        await_value(&metered, DELIVERIES("hook", "delivered"), 1);
        end(&metered);
}

Test(relay_metrics, count_deliveries_that_may_have_come_twice)
{
        struct metered metered;

        begin(&metered);
        start(&metered);
        http_receiver_answer_next(metered.http, &(struct http_answer){.manner = ANSWER_NONE});
        publish(metered.fixture.admin, "t", "k", "never answered");
        await_value(&metered, DELIVERIES("hook", "delivered"), 1);
        expect(&metered, "pgcourier_redeliveries_total{sink=\"hook\",cause=\"timeout\"}", 1);
        expect(&metered, ERRORS("lost"), 1);

        end(&metered);
}

Test(relay_metrics, count_deliveries_that_could_not_be_settled)
{
        struct metered metered;
        PGconn *locker;

        begin(&metered);
        start(&metered);
        publish(metered.fixture.admin, "t", "k", "settled");
        await_value(&metered, STAGE("settle"), 1);
        locker = database_connect(metered.fixture.dsn);
        database_exec(locker, "BEGIN; LOCK courier.cursor IN EXCLUSIVE MODE");
        /* Both in one page: behind a settle that waits nothing is read. */
        database_exec(metered.fixture.admin, "BEGIN");
        publish(metered.fixture.admin, "t", "k", "one");
        publish(metered.fixture.admin, "t", "k", "two");
        database_exec(metered.fixture.admin, "COMMIT");
        await_value(&metered, DELIVERIES("hook", "delivered"), 3);
        database_exec(locker, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                              " WHERE usename = 'relay' AND datname = current_database()");
        await_value(&metered, "pgcourier_redeliveries_total{sink=\"hook\",cause=\"crash\"}", 2);
        database_exec(locker, "ROLLBACK");
        PQfinish(locker);
        await_value(&metered, DELIVERIES("hook", "delivered"), 5);
        expect(&metered, "pgcourier_redeliveries_total{sink=\"hook\",cause=\"crash\"}", 2);
        expect(&metered, "pgcourier_source_reconnects_total", 1);
        end(&metered);
}

#define ONE_SINK                                                                                   \
        "postgres: {dsn: \"%s\"}\n"                                                                \
        "admin: {listen: \"%s\"}\n"                                                                \
        "sinks:\n"                                                                                 \
        "  - {name: hook, topics: [\"**\"], start: beginning, max_in_flight: %d,\n"                \
        "     http: {url: \"http://127.0.0.1:%u/\"}}\n"

Test(relay_metrics, go_on_over_a_reload_and_end_with_their_sink)
{
        struct metered metered;

        begin(&metered);
        start(&metered);
        publish(metered.fixture.admin, "bus", "k", "before");
        await_value(&metered, DELIVERIES("hook", "delivered"), 1);
        await_value(&metered, DELIVERIES("bus", "delivered"), 1);

        relay_reload(metered.relay, ONE_SINK, metered.fixture.relay, metered.address, 17,
            http_receiver_port(metered.http));
        await_exactly(&metered, "pgcourier_inflight_limit{sink=\"hook\"}", 17);
        publish(metered.fixture.admin, "bus", "k", "after");
        await_value(&metered, DELIVERIES("hook", "delivered"), 2);
        expect(&metered, "pgcourier_config_last_reload_successful", 1);
        await_exactly(&metered, DELIVERIES("bus", "delivered"), -1);

        relay_reload(metered.relay, "sinks: 7\n");
        await_exactly(&metered, "pgcourier_config_last_reload_successful", 0);
        expect(&metered, DELIVERIES("hook", "delivered"), 2);
        end(&metered);
}
