/* Filters in a running relay: a slow one delays only the receiver that it belongs to. */
#include "base/alloc.h"
#include "support/dear_filter.h"
#include "support/http_client.h"
#include "support/http_receiver.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
        struct relay_fixture relay;
        struct http_receiver *http;
        struct relay_process *process;
        char *address; /* of the admin endpoint */
};

/* Sinks "hooks", with receivers, and "bus"; `filter` is a line of the latter, or "". */
static void begin(struct fixture *fixture, const char *filter)
{
        relay_fixture_begin(&fixture->relay, postgres_shared());
        fixture->http = http_receiver_start(NULL, NULL);
        fixture->address = xasprintf("unix:%s.admin", fixture->relay.redis.socket_path);
        fixture->process = relay_start("admin: {listen: \"%s\"}\n"
                                       "postgres:\n"
                                       "  dsn: \"%s\"\n"
                                       "relay: {sweep: 200ms, standby: 100ms}\n"
                                       "log: {level: debug}\n"
                                       "sinks:\n"
                                       "  - name: hooks\n"
                                       "    topics: [\"**\"]\n"
                                       "    http: {receivers: table, allow_networks: [127.0.0.1],"
                                       " allow_ports: [%u]}\n"
                                       "  - name: bus\n"
                                       "    topics: [\"**\"]\n"
                                       "%s"
                                       "    redis: {url: \"unix://%s\", stream: events}\n",
            fixture->address, fixture->relay.relay, http_receiver_port(fixture->http), filter,
            fixture->relay.redis.socket_path);
        relay_wait_for_log(fixture->process, "event=receivers_read", 10000);
        relay_wait_for_log(fixture->process, "event=lane_owned sink=bus", 10000);
}

static void end(struct fixture *fixture)
{
        relay_destroy(fixture->process);
        http_receiver_destroy(fixture->http);
        relay_fixture_end(&fixture->relay);
        free(fixture->address);
}

static void add(struct fixture *fixture, const char *name, const char *filter)
{
        char *sql = xasprintf("INSERT INTO courier.receiver (sink, name, url, filter)"
                              " VALUES ('hooks', '%s', 'http://127.0.0.1:%u/%s', '%s')",
            name, http_receiver_port(fixture->http), name, filter);

        database_exec(fixture->relay.admin, sql);
        free(sql);
}

static void publish_dozens(struct fixture *fixture, int n)
{
        char *sql =
            xasprintf("SELECT courier.publish('t', '%s') FROM generate_series(1, %d)", A_DOZEN, n);

        database_exec(fixture->relay.admin, sql);
        free(sql);
}

static void expect_no_session_was_lost(struct fixture *fixture)
{
        cr_expect_eq(relay_count_in_log(fixture->process, "connection_lost"), 0);
        cr_expect_eq(relay_count_in_log(fixture->process, "event=lane_owned sink=bus"), 1);
}

Test(filters, of_one_receiver_delay_no_other)
{
        struct fixture fixture;

        begin(&fixture, "");
        add(&fixture, "good", "$.id == 1");
        add(&fixture, "strict", "$.id == 2");
        database_exec(fixture.relay.admin, "INSERT INTO courier.receiver (sink, name, url)"
                                           " SELECT 'hooks', 'plain', replace(url, 'good', 'plain')"
                                           " FROM courier.receiver WHERE name = 'good'");
        publish_dozens(&fixture, 1);
        http_receiver_wait_for(fixture.http, "/good", 1, 20000);
        http_receiver_wait_for(fixture.http, "/plain", 1, 20000);

        add(&fixture, "evil", DEAR);
        relay_wait_for_log(fixture.process, "event=receiver_added sink=hooks/evil", 10000);
        publish_dozens(&fixture, 5);
        http_receiver_wait_for(fixture.http, "/good", 6, 20000);
        http_receiver_wait_for(fixture.http, "/plain", 6, 20000);
        relay_fixture_await(&fixture.relay, "events", 6);
        cr_expect_eq(database_integer(fixture.relay.admin,
                         "SELECT count(*) FROM courier.receiver WHERE state <> 'active'"),
            0, "they did not wait until it was given up");

        relay_wait_for_log(fixture.process, "event=receiver_disabled sink=hooks/evil", 30000);
        await_in_database(fixture.relay.admin,
            "SELECT state = 'disabled' AND state_reason LIKE 'its filter takes too long: more than "
            "400 ms"
            " for each of 3 events%' FROM courier.receiver WHERE name = 'evil'",
            "it is disabled");
        cr_expect_eq(
            database_integer(fixture.relay.admin,
                "SELECT count(*) FROM courier.outbox WHERE topic = 'courier.receiver.disabled'"
                " AND payload->>'receiver' = 'evil' AND payload->>'reason' LIKE '%filter%'"),
            1);
        await_in_database(fixture.relay.admin,
            "SELECT count(*) = 3 FROM courier.dead_letter AS d JOIN courier.receiver AS e ON e.id "
            "= d.lane"
            " WHERE e.name = 'evil' AND d.error LIKE '%filter%'",
            "what was not judged is kept");

        publish_dozens(&fixture, 3);
        http_receiver_wait_for(fixture.http, "/good", 9, 20000);
        http_receiver_wait_for(fixture.http, "/plain", 9, 20000);
        relay_fixture_await(&fixture.relay, "events", 10); /* with the news */
        expect_no_session_was_lost(&fixture);

        /* What waits for it is there when its filter is another one. */
        database_exec(fixture.relay.admin, "UPDATE courier.receiver SET filter = '$.id == 1', "
                                           "state = 'active' WHERE name = 'evil'");
        http_receiver_wait_for(fixture.http, "/evil", 5, 20000);
        relay_stop(fixture.process);
        cr_expect_eq(http_receiver_count(fixture.http, "/good"), 9, "and nothing came twice");
        cr_expect_eq(http_receiver_count(fixture.http, "/plain"), 9);
        cr_expect_eq(http_receiver_count(fixture.http, "/strict"), 0);
        cr_expect_eq(http_receiver_count(fixture.http, "/evil"), 5);
        cr_expect_eq(database_integer(fixture.relay.admin,
                         "SELECT count(*) FROM courier.outbox WHERE topic = 't'"),
            9);
        end(&fixture);
}

struct wanted {
        const struct fixture *fixture;
        const char *path, *words;
};

static bool is_said(void *context)
{
        const struct wanted *wanted = context;
        struct http_reply reply =
            http_ask(wanted->fixture->address, "GET", wanted->path, NULL, NULL);
        bool is_it = reply.status == 200 && strstr(reply.body, wanted->words) != NULL;

        http_reply_free(&reply);
        return is_it;
}

static void await_words(const struct fixture *fixture, const char *path, const char *words)
{
        struct wanted wanted = {fixture, path, words};

        wait_until(is_said, &wanted, 20000, words);
}

static int n_slow_filters(const struct fixture *fixture)
{
        struct http_reply reply = http_ask(fixture->address, "GET", "/metrics", NULL, NULL);
        static const char series[] = "pgcourier_slow_filters{sink=\"hooks\"} ";
        const char *at = strstr(reply.body, series);
        int n = at != NULL ? atoi(at + strlen(series)) : -1;

        http_reply_free(&reply);
        return n;
}

/* Ten are given up one after the other: for a minute there is one that is not. */
Test(filters, are_named_while_they_are_slow)
{
        struct fixture fixture;

        begin(&fixture, "");
        database_exec(fixture.relay.admin, "INSERT INTO courier.receiver (sink, name, url, filter)"
                                           " SELECT 'hooks', 'evil' || i, 'http://shop.example/',"
                                           " format('%s && $.id == %s', '" DEAR
                                           "', i)::jsonpath FROM generate_series(1, 10) AS i");
        publish_dozens(&fixture, 5);
        await_words(&fixture, "/api/status", "\"slow_filters\":{\"count\":");
        await_words(&fixture, "/api/status", " filters of hooks are slow");
        cr_expect_geq(n_slow_filters(&fixture), 1);
        relay_stop(fixture.process);
        end(&fixture);
}

Test(filters, of_a_sink_stop_the_sink_and_no_other)
{
        struct fixture fixture;

        begin(&fixture, "    filter: '" DEAR "'\n");
        add(&fixture, "plain", "$.id == 1");
        publish_dozens(&fixture, 5);
        http_receiver_wait_for(fixture.http, "/plain", 5, 20000);
        relay_wait_for_log(fixture.process,
            "event=sink_paused sink=bus by=relay reason=\"its filter takes too long", 30000);
        await_in_database(fixture.relay.admin,
            "SELECT count(*) = 1 FROM courier.pause WHERE sink = 'bus' AND by = 'relay'"
            " AND reason LIKE 'its filter takes too long%'",
            "people can see it");
        publish_dozens(&fixture, 5);
        http_receiver_wait_for(fixture.http, "/plain", 10, 20000);
        expect_no_session_was_lost(&fixture);

        /* It is tried again on request. */
        database_exec(fixture.relay.admin, "DELETE FROM courier.pause; NOTIFY courier_control");
        await_in_database(fixture.relay.admin,
            "SELECT count(*) = 6 FROM courier.dead_letter WHERE sink = 'bus'",
            "it was tried again");
        await_in_database(fixture.relay.admin,
            "SELECT count(*) = 1 FROM courier.pause WHERE sink = 'bus' AND by = 'relay'",
            "and is paused again");
        relay_stop(fixture.process);
        end(&fixture);
}

Test(filters, do_not_hold_up_the_end)
{
        struct fixture fixture;

        begin(&fixture, "    filter: '" DEAR "'\n");
        add(&fixture, "evil", DEAR);
        publish_dozens(&fixture, 100);
        await_in_database(fixture.relay.admin,
            "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database()"
            " AND query LIKE '%true_filters%' AND state = 'active'",
            "one is being asked");
        relay_stop(fixture.process);
        cr_expect_eq(relay_count_in_log(fixture.process, "drain_limit_reached"), 0);
        end(&fixture);
}

/* The events before and behind are delivered, and in order. */
Test(filters, make_a_dead_letter_of_an_event_that_they_take_too_long_for)
{
        struct fixture fixture;

        begin(&fixture, "    filter: '$.id == 1 && !" DEAR "'\n");
        database_exec(fixture.relay.admin,
            "SELECT courier.publish('t', '{\"id\": 1, \"n\": 1}', key => 'k');"
            "SELECT courier.publish('t', '" A_DOZEN "', key => 'k');"
            "SELECT courier.publish('t', '{\"id\": 1, \"n\": 3}', key => 'k')");
        relay_fixture_await(&fixture.relay, "events", 2);
        await_in_database(fixture.relay.admin,
            "SELECT count(*) = 1 FROM courier.dead_letter WHERE sink = 'bus' AND key = 'k'",
            "it is a dead letter");
        relay_fixture_expect_field(&fixture.relay, "events", 0, "payload", "{\"id\": 1, \"n\": 1}");
        relay_fixture_expect_field(&fixture.relay, "events", 1, "payload", "{\"id\": 1, \"n\": 3}");
        cr_expect_eq(
            database_integer(fixture.relay.admin, "SELECT count(*) FROM courier.pause"), 0);
        relay_stop(fixture.process);
        end(&fixture);
}
