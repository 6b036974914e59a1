/*
 * Events that wait, cancelled and rescheduled beside running relays: a sink of one lane, one of
 * three shards, and one of two receivers. The sweep is far away, so that what comes was woken.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "support/attached_table.h"
#include "support/http_receiver.h"
#include "support/postgres_expect.h"
#include "support/program_expect.h"
#include "support/relay_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_LANES = 4 }; /* that take an event: bus, one shard of parts, two receivers */

static struct relay_fixture fixture;
static struct http_receiver *http;
static struct relay_process *relay;

static const char config[] = "postgres: {dsn: \"%s\"}\n"
                             "relay: {standby: 50ms, sweep: 10m}\n"
                             "sinks:\n"
                             "  - {name: bus, topics: [\"**\"], start: beginning,\n"
                             "     redis: {url: \"unix://%s\", stream: bus}}\n"
                             "  - {name: parts, topics: [\"**\"], start: beginning, shards: 3,\n"
                             "     redis: {url: \"unix://%s\", stream: parts}}\n"
                             "  - {name: web, topics: [\"**\"], start: beginning,\n"
                             "     http: {receivers: table, allow_networks: [127.0.0.1],\n"
                             "            allow_ports: [%u]}}\n";

static void start(void)
{
        char *sql;

        relay_fixture_begin(&fixture, postgres_shared());
        http = http_receiver_start(NULL, NULL);
        sql = xasprintf("INSERT INTO courier.sink (name, fans_out) VALUES ('web', true);"
                        "INSERT INTO courier.receiver (sink, name, url, secret, start)"
                        " SELECT 'web', name, 'http://127.0.0.1:%u/' || name,"
                        "  'whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz', 'beginning'"
                        " FROM unnest('{acme,globex}'::text[]) AS name",
            http_receiver_port(http));
        database_exec(fixture.admin, sql);
        free(sql);
}

static void start_relay(void)
{
        relay = relay_start(config, fixture.relay, fixture.redis.socket_path,
            fixture.redis.socket_path, http_receiver_port(http));
}

static void stop(void)
{
        relay_destroy(relay);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
}

TestSuite(waiting, .init = start, .fini = stop, .timeout = 300);

/* Event n has the id n, and says n. Due in an hour. */
static void delay(int first, int last)
{
        char *sql = xasprintf("SELECT count(courier.publish('t', to_json(i), key => 'k' || i,"
                              " deliver_at => now() + interval '1 hour'))"
                              " FROM generate_series(%d, %d) AS i",
            first, last);

        database_exec(fixture.admin, sql);
        free(sql);
}

#define ID(n)     "(SELECT event_id FROM courier.outbox WHERE id = " #n ")"
#define CANCEL(n) "SELECT courier.cancel(" ID(n) ")"
#define RESCHEDULE(n, t)                                                                           \
        "SELECT courier.reschedule(" ID(n) ", clock_timestamp() + interval '" t "')"

static void expect_true(const char *sql)
{
        expect_value(fixture.admin, sql, "t");
}

static void await(const char *sql)
{
        await_in_database(fixture.admin, sql, sql);
}

static void await_parked(int n_events)
{
        char sql[80];

        snprintf(sql, sizeof sql, "SELECT count(*) = %d FROM courier.parked", n_events * N_LANES);
        await(sql);
}

/* What the entries of a stream say, in their order: "1 2 3". */
static char *payloads(const char *stream)
{
        redisReply *reply = redis_server_run(&fixture.redis, "XRANGE %s - +", stream);
        struct bytes text = {0};

        for (size_t i = 0; i < reply->elements; i++) {
                const redisReply *fields = reply->element[i]->element[1];
                for (size_t f = 0; f + 1 < fields->elements; f += 2)
                        if (strcmp(fields->element[f]->str, "payload") == 0)
                                bytes_printf(
                                    &text, "%s%s", i > 0 ? " " : "", fields->element[f + 1]->str);
        }
        freeReplyObject(reply);
        bytes_printf(&text, "%s", "");
        return text.data;
}

/* In any order, because each has a key of its own. */
static void expect_payloads(const char *stream, const char *expected)
{
        char *said = payloads(stream);
        char *sql = xasprintf("SELECT string_agg(n::text, ' ' ORDER BY n)"
                              " FROM unnest(string_to_array('%s', ' ')::integer[]) AS n",
            said);

        expect_value(fixture.admin, sql, expected);
        free(sql);
        free(said);
}

static void await_deliveries(long long n_events)
{
        relay_fixture_await(&fixture, "bus", n_events);
        relay_fixture_await(&fixture, "parts", n_events);
        http_receiver_wait(http, (unsigned)n_events * 2, 60000);
        await("SELECT NOT EXISTS (SELECT FROM courier.parked)");
}

static void run(int code, const char *expected, struct program_run run)
{
        cr_expect_eq(run.code, code, "%d: %s", run.code, run.err);
        cr_expect(strstr(run.out, expected) != NULL, "%s", run.out);
        program_run_free(&run);
}

Test(waiting, a_cancelled_event_goes_to_no_sink_and_not_to_one_that_comes_later)
{
        delay(1, 5);
        expect_true(CANCEL(1)); /* no relay has read it */
        start_relay();
        await_parked(4);
        expect_true(CANCEL(2));
        await_parked(3);
        expect_true("SELECT bool_and(courier.reschedule(event_id, now())) FROM courier.outbox "
                    "WHERE id > 2");
        await_deliveries(3);
        expect_payloads("bus", "3 4 5");
        expect_payloads("parts", "3 4 5");
        expect_value(fixture.admin, CANCEL(3), "f");

        /* A sink that is new, and one that was moved back. */
        relay_stop(relay);
        run(0, "",
            program_run(NULL, "rewind", "--sink", "bus", "--to", "1", "--yes", "--dsn",
                fixture.relay, NULL));
        run(0, "3 events",
            program_run(NULL, "replay", "--sink", "parts", "--from", "1", "--yes", "-c",
                relay->config_path, NULL));
        database_exec(fixture.admin, "DELETE FROM courier.cursor WHERE sink = 'web' AND lane > 0");
        relay_start_again(relay);
        relay_fixture_await(&fixture, "bus", 6);
        relay_fixture_await(&fixture, "parts", 6);
        http_receiver_wait(http, 12, 60000);
        publish(fixture.admin, "t", NULL, "end");
        relay_fixture_await(&fixture, "bus", 7);
        await("SELECT NOT EXISTS (SELECT FROM courier.parked)");
        relay_stop(relay);
        cr_expect_eq(redis_server_count(&fixture.redis, "XLEN bus"), 7);
        cr_expect_eq(redis_server_count(&fixture.redis, "XLEN parts"), 7);
        cr_expect_eq(http_receiver_n_requests(http), 14);
}

Test(waiting, a_rescheduled_event_comes_at_its_new_time)
{
        delay(1, 4);
        expect_true(RESCHEDULE(1, "1 ms"));
        start_relay();
        await_parked(3);
        relay_fixture_await(&fixture, "bus", 1);
        expect_true(RESCHEDULE(2, "200 ms")); /* its lanes have a timer for the hour */
        relay_fixture_await(&fixture, "bus", 2);
        relay_fixture_await(&fixture, "parts", 2);
        http_receiver_wait(http, 4, 60000);
        expect_true(RESCHEDULE(3, "2 hours"));
        expect_true(RESCHEDULE(3, "100 ms"));
        relay_fixture_await(&fixture, "bus", 3);
        relay_fixture_await(&fixture, "parts", 3);
        http_receiver_wait(http, 6, 60000);
        expect_payloads("bus", "1 2 3");
        expect_payloads("parts", "1 2 3");
        relay_stop(relay);
}

Test(waiting, what_was_cancelled_is_told)
{
        delay(1, 2);
        start_relay();
        await_parked(2);
        run(0, "until its time has come",
            program_run(NULL, "trace", "1", "--dsn", fixture.relay, NULL));
        expect_true(CANCEL(1));
        expect_value(fixture.admin,
            "SELECT string_agg(DISTINCT state || ': ' || reason, ', ') FROM courier.trace(1)"
            " WHERE at IS NOT NULL AND next_at IS NULL",
            "cancelled: by courier.cancel()");
        expect_value(fixture.admin, "SELECT count(*) FROM courier.trace(1)", "4");
        run(0, "cancelled",
            program_run(NULL, "trace", "1", "--limit", "1", "--dsn", fixture.relay, NULL));
        expect_true("SELECT courier.reschedule(" ID(2) ", '2100-01-02 03:04:05Z')");
        run(0, "2100-01-02T03:04:05Z",
            program_run(NULL, "parked", "list", "--dsn", fixture.relay, NULL));
        run(0, "2100-01-02T03:04:05",
            program_run(NULL, "trace", "2", "--dsn", fixture.relay, NULL));
        relay_stop(relay);
}

/* The claim's snapshot still has the row, and so has that of the statement that calls it. */
Test(waiting, a_claim_leaves_what_was_cancelled_after_it_saw_the_row)
{
        delay(1, 2);
        start_relay();
        await_parked(2);
        expect_true(CANCEL(1));
        expect_value(fixture.admin,
            "SELECT come FROM courier.judge_due('bus', 0, now() + interval '1 day',"
            " ARRAY[1, 2], ARRAY[true, true])",
            "{f,t}");
        relay_stop(relay);
}

/* The marker is called with each settle. */
Test(waiting, a_cancelled_event_counts_as_passed_for_marks)
{
        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        attached_table_insert(fixture.admin, "orders", 1);
        database_exec(
            fixture.admin, "UPDATE courier.outbox SET deliver_at = now() + interval '1 hour'");
        start_relay();
        await("SELECT count(*) = 1 FROM courier.unmarked WHERE state = 'parked'");
        expect_true(CANCEL(1));
        publish(fixture.admin, "t", NULL, "another");
        attached_table_await(fixture.admin, "orders", "processed_at IS NOT NULL", 1);
        relay_stop(relay);
}

/*
 * Events that are due within moments, and sessions that cancel each of them or move it, now and then
 * taking that back, or with the transaction open while the time comes. courier.cancel() and the
 * sinks must agree on each event.
 */
static const char torture[] =
    "CREATE TABLE cancelled (id bigint PRIMARY KEY);"
    "GRANT INSERT ON cancelled TO app;"
    "CREATE PROCEDURE torture(n integer) LANGUAGE plpgsql AS $$"
    "DECLARE event uuid; taken boolean; "
    "BEGIN"
    "  FOR i IN 1 .. n LOOP"
    "    event := gen_random_uuid();"
    "    PERFORM courier.publish('t', to_json(event), deliver_at => clock_timestamp() + random() * "
    "interval '30 ms',"
    "      event_id => event, key => 'k' || i % 7);"
    "    COMMIT;"
    "    PERFORM pg_sleep(random() * 0.03);"
    "    IF random() < 0.3 THEN"
    "      PERFORM courier.reschedule(event, clock_timestamp() + (random() - 0.2) * interval '30 "
    "ms');"
    "      PERFORM pg_sleep(random() * 0.02);"
    "    END IF;"
    "    taken := courier.cancel(event);"
    "    IF random() < 0.3 THEN PERFORM pg_sleep(random() * 0.02); END IF;"
    "    IF random() < 0.2 THEN ROLLBACK;"
    "    ELSE"
    "      IF taken THEN INSERT INTO cancelled SELECT o.id FROM courier.outbox AS o WHERE "
    "o.event_id = event; END IF;"
    "      COMMIT;"
    "    END IF;"
    "  END LOOP;"
    "END $$;";

enum { N_SESSIONS = 4, N_ROUNDS = 250 };

static void note_arrivals(const char *stream)
{
        char *said = payloads(stream);
        char *sql =
            xasprintf("CREATE TABLE arrived_%s AS SELECT id, count(*) AS n"
                      " FROM unnest(string_to_array('%s', ' ')) AS t (text)"
                      " JOIN courier.outbox ON event_id = trim(text, '\"')::uuid GROUP BY id",
                stream, said);

        database_exec(fixture.admin, sql);
        free(sql);
        free(said);
}

static void expect_agreement(const char *stream)
{
        char *sql;

        note_arrivals(stream);
        sql = xasprintf(
            "SELECT count(*) FILTER (WHERE a.id IS NOT NULL AND c.id IS NOT NULL) || ' both, '"
            " || count(*) FILTER (WHERE a.id IS NULL AND c.id IS NULL) || ' neither'"
            " FROM courier.outbox AS o LEFT JOIN arrived_%s AS a USING (id)"
            " LEFT JOIN cancelled AS c USING (id)",
            stream);
        expect_value(fixture.admin, sql, "0 both, 0 neither");
        free(sql);
}

Test(waiting, of_each_event_either_the_sinks_or_cancel_has_it)
{
        PGconn *sessions[N_SESSIONS];
        char call[40];

        database_exec(fixture.admin, torture);
        start_relay();
        relay_wait_for_log(relay, "event=receivers_read", 30000);
        snprintf(call, sizeof call, "CALL torture(%d)", N_ROUNDS);
        for (int i = 0; i < N_SESSIONS; i++) {
                sessions[i] = database_connect(fixture.dsn);
                PQsendQuery(sessions[i], call);
        }
        await("SELECT count(*) > 400 FROM courier.outbox");
        relay_kill(relay); /* what was claimed comes again */
        relay_start_again(relay);
        for (int i = 0; i < N_SESSIONS; i++) {
                PGresult *result = PQgetResult(sessions[i]);

                cr_expect_eq(
                    PQresultStatus(result), PGRES_COMMAND_OK, "%s", PQresultErrorMessage(result));
                PQclear(result);
                PQfinish(sessions[i]);
        }
        await("SELECT bool_and(courier.has_passed(from_snapshot, until_snapshot, last_id, o.id, "
              "o.txid))"
              " FROM courier.cursor, (SELECT * FROM courier.outbox ORDER BY txid DESC LIMIT 1) AS o"
              " WHERE NOT is_owner_lane");
        await("SELECT NOT EXISTS (SELECT FROM courier.parked)");
        relay_stop(relay);
        expect_agreement("bus");
        expect_agreement("parts");
        expect_true("SELECT count(*) BETWEEN 100 AND 900 FROM cancelled");
}
