/* What people are told of the past: attempts, how each receiver is, the way of one event. */
#include "base/alloc.h"
#include "support/http_client.h"
#include "support/http_receiver.h"
#include "support/postgres.h"
#include "support/postgres_expect.h"
#include "support/process.h"
#include "support/program.h"
#include "support/program_expect.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
        struct relay_fixture relay;
        struct http_receiver *http;
        struct relay_process *process;
};

static struct fixture fixture;

static struct http_answer decide(void *context, const struct http_request *request)
{
        (void)context;
        if (strcmp(request->target, "/picky") == 0)
                return strstr(request->body, "poison") != NULL
                           ? (struct http_answer){.status = 422, .body = "no \"such\" item\n"}
                           : (struct http_answer){.status = 200, .body = "thanks"};
        if (strcmp(request->target, "/broken") == 0)
                return (struct http_answer){.status = 500, .body = "database is locked"};
        return (struct http_answer){.status = 204};
}

/* `settings` are more keys of the sink, each with a comma behind it. */
static void begin(const char *settings)
{
        fixture = (struct fixture){0};
        relay_fixture_begin(&fixture.relay, postgres_shared());
        fixture.http = http_receiver_start(NULL, NULL);
        http_receiver_decide(fixture.http, decide, NULL);
        fixture.process = relay_start("postgres: {dsn: \"%s\"}\n"
                                      "relay: {sweep: 200ms, standby: 100ms}\n"
                                      "sinks:\n"
                                      "  - {name: hooks, topics: [\"**\"], order: none, %s\n"
                                      "     retry: {first: 20ms, max: 20ms, attempts: 3},\n"
                                      "     http: {receivers: table, allow_networks: [127.0.0.1],"
                                      " allow_ports: [%u]}}\n",
            fixture.relay.relay, settings, http_receiver_port(fixture.http));
        relay_wait_for_log(fixture.process, "event=receivers_read", 10000);
}

static void end(void)
{
        relay_destroy(fixture.process);
        http_receiver_destroy(fixture.http);
        relay_fixture_end(&fixture.relay);
}

static void add(const char *name, const char *columns, const char *values)
{
        char *sql = xasprintf("INSERT INTO courier.receiver (sink, name, url%s)"
                              " VALUES ('hooks', '%s', 'http://127.0.0.1:%u/%s'%s)",
            columns, name, http_receiver_port(fixture.http), name, values);

        database_exec(fixture.relay.admin, sql);
        free(sql);
}

static void await(const char *sql)
{
        await_in_database(fixture.relay.admin, sql, sql);
}

#define EXPECT(sql, expected) expect_value(fixture.relay.admin, sql, expected)

#define ATTEMPTS_OF(name)                                                                          \
        "SELECT string_agg(format('%s %s %s %s', number, outcome, coalesce(status::text, '-'),"    \
        " coalesce(answer, '-')), '; ' ORDER BY outbox_id, at)"                                    \
        " FROM courier.attempt JOIN courier.receiver ON receiver.id = lane"                        \
        " WHERE name = '" name "'"

Test(story, keeps_the_attempts_that_failed_and_the_success_that_ended_them)
{
        begin("");
        add("picky", "", "");
        add("fine", "", "");
        publish(fixture.relay.admin, "orders", NULL, "good");
        publish(fixture.relay.admin, "orders", NULL, "poison");
        await("SELECT count(*) = 1 FROM courier.dead_letter");
        await("SELECT count(*) = 3 FROM courier.attempt");
        EXPECT(ATTEMPTS_OF("picky"), "1 retry 422 422 Unprocessable Content: no \"such\" item ; "
                                     "2 retry 422 422 Unprocessable Content: no \"such\" item ; "
                                     "3 dead 422 422 Unprocessable Content: no \"such\" item ");
        EXPECT("SELECT bool_and(took_us > 0 AND at BETWEEN now() - interval '1 minute' AND now()"
               " AND outbox_id = 2"
               " AND sink = 'hooks'"
               " AND expires_on = (at AT TIME ZONE 'UTC')::date + 8)"
               " FROM courier.attempt",
            "t");
        end();
}

Test(story, keeps_all_attempts_or_none)
{
        begin("attempts: all, attempts_retention: 36h,");
        add("picky", "", "");
        publish(fixture.relay.admin, "orders", NULL, "good");
        await("SELECT count(*) = 1 FROM courier.attempt");
        EXPECT(ATTEMPTS_OF("picky"), "1 delivered 200 thanks");
        EXPECT("SELECT bool_and(expires_on - (at AT TIME ZONE 'UTC')::date IN (2, 3))"
               " FROM courier.attempt",
            "t");
        end();
        begin("attempts: none,");
        add("picky", "", "");
        publish(fixture.relay.admin, "orders", NULL, "poison");
        await("SELECT count(*) = 1 FROM courier.dead_letter");
        relay_stop(fixture.process);
        EXPECT("SELECT count(*) FROM courier.attempt", "0");
        end();
}

/* An outage settles nothing, and is told all the same. */
Test(story, tells_of_an_outage_while_nothing_is_settled)
{
        begin("");
        http_receiver_stop(fixture.http);
        add("gone", "", "");
        publish(fixture.relay.admin, "orders", NULL, "good");
        await("SELECT count(*) >= 1 FROM courier.attempt WHERE outcome = 'sink_down'");
        EXPECT("SELECT state || ': ' || left(reason, 24) FROM courier.trace(1)",
            "waiting: its destination is down:");
        http_receiver_restart(fixture.http);
        await("SELECT state = 'delivered' FROM courier.trace(1)");
        end();
}

/* Delivery goes on, and what is lost is said. */
Test(story, loses_the_record_and_not_the_event_when_it_cannot_be_written)
{
        begin("attempts: all,");
        database_exec(fixture.relay.admin, "ALTER TABLE courier.attempt_pack ADD CONSTRAINT broken "
                                           "CHECK (outcome <> 'delivered')");
        add("fine", "", "");
        publish(fixture.relay.admin, "orders", NULL, "good");
        relay_wait_for_log(fixture.process, "event=attempts_lost attempts=1", 10000);
        await("SELECT pace_now.delivered_at IS NOT NULL"
              " FROM courier.cursor, courier.pace_now(pace) WHERE lane = 1");
        database_exec(fixture.relay.admin,
            "ALTER TABLE courier.attempt_pack DROP CONSTRAINT broken,"
            " ADD COLUMN broken integer NOT NULL");
        publish(fixture.relay.admin, "orders", NULL, "good");
        relay_wait_for_log(fixture.process, "reason=\"null value in column", 10000);
        database_exec(fixture.relay.admin, "ALTER TABLE courier.attempt_pack DROP COLUMN broken");
        publish(fixture.relay.admin, "orders", NULL, "good");
        await("SELECT count(*) = 1 FROM courier.attempt");
        cr_expect_eq(relay_count_in_log(fixture.process, "event=outbox_lost"), 0);
        end();
}

Test(story, drops_attempts_by_days_when_they_have_expired)
{
        begin("attempts: none,");
        relay_stop(fixture.process); /* it would drop them itself */
        database_exec(fixture.relay.admin,
            "SELECT courier.note_attempts('{out,out}', '{0,0}', '{retry,delivered}', '{1,2}',"
            " '{NULL,NULL}', '{no,NULL}', ARRAY[(now() AT TIME ZONE 'UTC')::date - '1970-01-01',"
            " (now() AT TIME ZONE 'UTC')::date - '1970-01-01' + 2], '{0,1000000}', '{1,1}', "
            "'{1,1}', ARRAY['{1}', "
            "'{1}'],"
            " ARRAY['{0}', '{0}'], ARRAY['{5}', '{5}'])");
        EXPECT("SELECT count(*) FROM courier.attempt", "2");
        /* Whose lock is not to be had at once is dropped by a later call. */
        await("SELECT EXISTS (SELECT FROM courier.maintain() WHERE action = 'expired' AND name = "
              "'attempt_' || to_char((now() AT TIME ZONE 'UTC')::date, 'YYYYMMDD'))");
        EXPECT("SELECT string_agg(outcome, ',') FROM courier.attempt", "delivered");
        end();
}

static void publish_all(void)
{
        database_exec(fixture.relay.admin,
            "SELECT courier.publish('orders', '\"poison\"');" /* 1 */
            "SELECT courier.publish('orders', '\"good\"', type => 'v2');"
            "SELECT courier.publish('stock', '{\"n\": 5}', type => 'v1');"
            "SELECT courier.publish('orders', '\"good\"', deliver_at => now() + '1 day')");
}

Test(story, traces_an_event_to_each_receiver)
{
        begin("");
        add("picky", "", "");
        add("only_stock", ", topics", ", '{stock}'");
        add("only_v1", ", types", ", '{v1}'");
        add("large", ", filter", ", '$.n > 9'");
        add("asleep", ", state, state_reason", ", 'paused', 'on holiday'");
        await("SELECT count(*) = 5 FROM courier.cursor WHERE lane <> 0");
        publish_all();
        await("SELECT count(*) = 1 FROM courier.dead_letter");
        add("late", "", "");
        await("SELECT bool_and(state <> 'waiting' OR receiver = 'asleep') FROM courier.trace(1),"
              " (SELECT count(*) FROM courier.trace(3) WHERE state = 'waiting') AS third (n)"
              " WHERE third.n = 1");
#define TRACE(id)                                                                                  \
        "SELECT string_agg(receiver || ': ' || state || coalesce(': ' || reason, ''), E'\\n'"      \
        " ORDER BY receiver) FROM courier.trace(" id ")"
        EXPECT(TRACE("1"), "asleep: waiting: the receiver is paused: on holiday\n"
                           "large: not_taken: its filter is not true of the payload\n"
                           "late: not_taken: it was published before the receiver was added\n"
                           "only_stock: not_taken: none of its topics matches, or one excludes it\n"
                           "only_v1: not_taken: none of its types matches\n"
                           "picky: dead: attempts: 422 Unprocessable Content: no \"such\" item ");
        EXPECT(TRACE("3"), "asleep: waiting: the receiver is paused: on holiday\n"
                           "large: not_taken: its filter is not true of the payload\n"
                           "late: not_taken: it was published before the receiver was added\n"
                           "only_stock: delivered\n"
                           "only_v1: delivered\n"
                           "picky: delivered");
        EXPECT("SELECT state || ': ' || reason || (next_at > now())::text FROM courier.trace(4)"
               " WHERE receiver = 'picky'",
            "waiting: until its time has cometrue");
        EXPECT("SELECT attempts || ' ' || status || ' ' || (at > now() - interval '1 minute')::text"
               " FROM courier.trace(1) WHERE receiver = 'picky'",
            "3 422 true");
        /* Where the event itself is gone, there is what it left. */
        database_exec(fixture.relay.admin, "DELETE FROM courier.outbox WHERE id = 1");
        EXPECT(TRACE("1"), "picky: dead: attempts: 422 Unprocessable Content: no \"such\" item ");
        end();
}

/* Patterns with ! exclude, and an event of pgcourier's own goes to receivers that name it. */
Test(story, traces_an_event_by_all_patterns_of_a_receiver)
{
        begin("types: [\"**\", \"!*.draft\"],");
        relay_stop(fixture.process);
        add("exact", ", topics", ", '{stock.eu}'");
        add("longer", ", topics", ", '{stock.eu.one,stock.eu*one}'");
        add("one_part", ", topics", ", '{*,!stock}'");
        add("without", ", topics", ", '{**,!stock.*}'");
        add("own", ", topics", ", '{courier.**}'");
        add("typed", ", types", ", '{v*,!v1}'");
        database_exec(fixture.relay.admin,
            "INSERT INTO courier.outbox (topic, type, payload) VALUES ('stock.eu', 'v1', '1'),"
            " ('stock.eu', 'v2', '1'), ('stock.eu', NULL, '1'), ('courier.x', 'v2', '1'),"
            " ('stock.eu', 'v2.draft', '1'), ('stock', 'v2', '1')");
#define NOT_TAKEN(id)                                                                              \
        "SELECT string_agg(receiver || ' ' || substr(reason, 13, 6), ', ' ORDER BY receiver)"      \
        " FROM courier.trace(" id ") WHERE state = 'not_taken'"
        EXPECT(NOT_TAKEN("1"),
            "longer topics, one_part topics, own topics, typed types , without topics");
        EXPECT(NOT_TAKEN("2"), "longer topics, one_part topics, own topics, without topics");
        EXPECT(NOT_TAKEN("3"), "exact types , longer topics, one_part topics, own topics, typed "
                               "types , without topics");
        EXPECT(NOT_TAKEN("4"),
            "exact topics, longer topics, one_part topics, typed topics, without topics");
        EXPECT(NOT_TAKEN("5"), "exact types , longer topics, one_part topics, own topics, typed "
                               "types , without topics");
        EXPECT(NOT_TAKEN("6"), "exact topics, longer topics, one_part topics, own topics");
        end();
}

Test(story, tells_of_lanes_that_no_relay_runs)
{
        begin("");
        add("broken", "", "");
        await("SELECT count(*) = 1 FROM courier.cursor WHERE lane <> 0");
        publish(fixture.relay.admin, "orders", NULL, "one");
        await("SELECT count(*) = 1 FROM courier.dead_letter");
        relay_stop(fixture.process);
        publish(fixture.relay.admin, "orders", NULL, "two");
        add("new", "", "");
        publish(fixture.relay.admin, "orders", NULL, "three");
        EXPECT(TRACE("3"), "broken: waiting: no relay is running it\n"
                           "new: waiting: no relay has run it yet");
        database_exec(fixture.relay.admin, "DELETE FROM courier.receiver WHERE name = 'broken'");
        EXPECT(TRACE("1"), "#1: dead: attempts: 500 Internal Server Error: database is locked\n"
                           "new: not_taken: it was published before the receiver was added");
        /* The sink has no receivers any more, according to its configuration. */
        database_exec(fixture.relay.admin, "UPDATE courier.sink SET fans_out = false");
        EXPECT("SELECT string_agg(concat_ws(' ', lane, receiver), ', ' ORDER BY lane)"
               " FROM courier.trace(1)",
            "0, 1 #1");
        end();
}

Test(story, traces_an_event_by_the_headers_that_the_sink_asks_for)
{
        begin("match_headers: [region=eu, \"a=b=c\", tenant],");
        add("fine", "", "");
        await("SELECT count(*) = 1 FROM courier.cursor WHERE lane <> 0");
        database_exec(fixture.relay.admin,
            "SELECT courier.publish('t', '1', headers => h::jsonb) FROM (VALUES"
            " ('{\"region\": \"eu\", \"tenant\": null, \"a\": \"b=c\"}'),"
            " ('{\"region\": \"eu\", \"a\": \"b=c\"}'),"
            " ('{\"region\": \"us\", \"tenant\": 1, \"a\": \"b=c\"}'), (NULL)) AS given (h)");
        await("SELECT state = 'delivered' FROM courier.trace(1)");
        await("SELECT is_passed FROM courier.cursor AS c,"
              " courier.has_passed(from_snapshot, until_snapshot, last_id, 4,"
              " (SELECT txid FROM courier.outbox WHERE id = 4)) AS is_passed WHERE lane = 1");
        for (int id = 2; id <= 4; id++) {
                char *sql = xasprintf("SELECT state || ': ' || reason FROM courier.trace(%d)", id);

                EXPECT(sql, "not_taken: it lacks a header that the sink asks for");
                free(sql);
        }
        end();
}

Test(story, names_the_event_that_another_one_waits_behind)
{
        begin("");
        add("broken", "", "");
        relay_destroy(fixture.process);
        fixture.process = relay_start("postgres: {dsn: \"%s\"}\n"
                                      "relay: {sweep: 200ms}\n"
                                      "sinks:\n"
                                      "  - {name: hooks, topics: [\"**\"],"
                                      " retry: {first: 1h, max: 1h},\n"
                                      "     http: {receivers: table, allow_networks: [127.0.0.1],"
                                      " allow_ports: [%u]}}\n",
            fixture.relay.relay, http_receiver_port(fixture.http));
        publish(fixture.relay.admin, "orders", "k", "one");
        publish(fixture.relay.admin, "orders", "k", "two");
        await("SELECT count(*) = 2 FROM courier.parked");
        EXPECT("SELECT state || ': ' || reason || ' ' || (next_at > now())::text"
               " FROM courier.trace(1)",
            "retrying: 500 Internal Server Error: database is locked true");
        EXPECT("SELECT state || ': ' || reason FROM courier.trace(2)",
            "waiting: behind event 1 of its key, which is retried");
        EXPECT("SELECT format('%s %s %s %s %s', retrying, blocked, blocked_keys, last_status,"
               " last_error) FROM courier.receiver_status",
            "1 1 1 500 500 Internal Server Error: database is locked");
        end();
}

Test(story, counts_what_waits_for_each_receiver)
{
        begin("");
        add("asleep", ", state, topics", ", 'paused', '{orders.*}'");
        add("choosy", ", state, filter", ", 'paused', '$.n > 9'");
        await("SELECT count(*) = 2 FROM courier.cursor WHERE lane <> 0");
        database_exec(fixture.relay.admin,
            "SELECT courier.publish('orders.paid', to_json(n)), courier.publish('stock', '1')"
            " FROM generate_series(1, 7) AS n");
        EXPECT("SELECT string_agg(format('%s %s %s %s', name, waiting, waiting_is_exact,"
               " waiting_since IS NOT NULL), '; ' ORDER BY name) FROM courier.receiver_status",
            "asleep 7 t t; choosy 14 f t");
        database_exec(fixture.relay.admin, "UPDATE courier.receiver SET state = 'active'");
        await("SELECT bool_and(waiting = 0 AND waiting_since IS NULL)"
              " FROM courier.receiver_status");
        EXPECT("SELECT rate > 0 AND p50 > 0 AND p99 >= p50 AND last_delivered_at > state_since"
               " FROM courier.receiver_status WHERE name = 'asleep'",
            "t");
        end();
}

/* While a transaction is open the cursor stands before it, and events that came later are delivered. */
Test(story, counts_no_event_that_was_delivered_ahead_of_a_transaction)
{
        PGconn *slow;

        begin("attempts: all,");
        slow = database_connect(fixture.relay.dsn);
        add("fine", "", "");
        await("SELECT count(*) = 1 FROM courier.cursor WHERE lane <> 0");
        database_exec(slow, "BEGIN; SELECT courier.publish('orders', '1')");
        database_exec(fixture.relay.admin, "SELECT courier.publish('orders', '2')");
        await("SELECT count(*) = 1 FROM courier.attempt");
        await("SELECT waiting = 0 FROM courier.receiver_status");
        database_exec(fixture.relay.admin, "UPDATE courier.receiver SET state = 'paused'");
        relay_wait_for_log(fixture.process, "event=receiver_paused", 10000);
        database_exec(slow, "COMMIT");
        EXPECT("SELECT waiting FROM courier.receiver_status", "1");
        PQfinish(slow);
        end();
}

Test(story, the_command_prints_what_needs_a_look_first)
{
        char *event_id;

        begin("");
        add("picky", "", "");
        add("asleep", ", state", ", 'paused'");
        add("only_stock", ", topics", ", '{stock}'");
        await("SELECT count(*) = 3 FROM courier.cursor WHERE lane <> 0");
        publish_all();
        await("SELECT count(*) = 3 FROM courier.attempt");
        await("SELECT count(*) = 1 FROM courier.trace(1) WHERE state = 'waiting'");
        event_id = database_value(
            fixture.relay.admin, "SELECT event_id::text FROM courier.outbox WHERE id = 1");
        expect_texts(program_run(NULL, "trace", event_id, "--dsn", fixture.relay.relay, NULL), 0,
            "event 1, ", ", topic orders, published 20", "hooks/picky ", " dead ", " 422 ",
            "attempts: 422 Unprocessable Content: no \"such\" item", "waiting ",
            "the receiver is paused", "not_taken ", "none of its topics matches");
        expect_texts(
            program_run(NULL, "trace", "1", "--limit", "1", "--dsn", fixture.relay.relay, NULL), 0,
            "hooks/picky ");
        expect_texts(program_run(NULL, "trace", "1", "--json", "--dsn", fixture.relay.relay, NULL),
            0, "\"state\":\"dead\"", "\"counts\"", event_id);
        expect_refusal(program_run(NULL, "trace", "99", "--dsn", fixture.relay.relay, NULL), 8,
            "nothing is left of event \"99\"");
        expect_refusal(program_run(NULL, "trace", "x", "--dsn", fixture.relay.relay, NULL), 8,
            "neither the number of an event");
        expect_texts(program_run(NULL, "receiver", "show", "picky", "--attempts", "2", "--dsn",
                         fixture.relay.relay, NULL),
            0, "\nlast_status        422\n", "\nlast_error         422 Unprocessable", "ATTEMPT ",
            " retry ", " dead ");
        free(event_id);
        end();
}

Test(story, finds_an_event_by_its_id)
{
        begin("");
        publish_all();
        EXPECT(
            "SELECT courier.find_event((SELECT event_id FROM courier.outbox WHERE id = 3))", "3");
        EXPECT("SELECT courier.find_event(gen_random_uuid()) IS NULL", "t");
        end();
}
