/*
 * Marks by the whole program: rows of an application's tables are marked when all sinks have their
 * events, and no lock, check or trigger of the application keeps a delivery waiting.
 */
#include "base/alloc.h"
#include "support/attached_table.h"
#include "support/http_client.h"
#include "support/http_receiver.h"
#include "support/postgres_expect.h"
#include "support/program_expect.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
        struct relay_fixture relay;
        PGconn *admin;
        PGconn *app;
        struct http_receiver *http;
        struct relay_process *process;
};

static struct fixture begin(void)
{
        struct fixture fixture = {.http = http_receiver_start(NULL, NULL)};

        relay_fixture_begin(&fixture.relay, postgres_shared());
        fixture.admin = fixture.relay.admin;
        fixture.app = database_connect(fixture.relay.dsn);
        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        return fixture;
}

static void end(struct fixture *fixture)
{
        relay_destroy(fixture->process);
        PQfinish(fixture->app);
        http_receiver_destroy(fixture->http);
        relay_fixture_end(&fixture->relay);
}

#define HEAD_SWEEPING(sweep)                                                                       \
        "postgres:\n"                                                                              \
        "  dsn: \"%s\"\n"                                                                          \
        "relay: {standby: 50ms, sweep: " sweep ", drain: 5s}\n"                                    \
        "%s"                                                                                       \
        "sinks:\n"
#define HEAD HEAD_SWEEPING("200ms")
#define BUS                                                                                        \
        "  - name: bus\n"                                                                          \
        "    topics: [\"**\"]\n"                                                                   \
        "    start: beginning\n"                                                                   \
        "    redis: {url: \"unix://%s\", stream: events}\n"
#define HOOK                                                                                       \
        "  - name: hook\n"                                                                         \
        "    topics: [\"**\"]\n"                                                                   \
        "    start: beginning\n"                                                                   \
        "    retry: {first: 10ms, max: 20ms, attempts: 3}\n"                                       \
        "    http: {url: \"http://127.0.0.1:%u/\", allow_networks: [127.0.0.1]}\n"

static struct relay_process *run_both(const struct fixture *fixture, const char *settings)
{
        return relay_start(HEAD BUS HOOK, fixture->relay.relay, settings,
            fixture->relay.redis.socket_path, http_receiver_port(fixture->http));
}

static struct relay_process *run_bus(const struct fixture *fixture, const char *settings)
{
        return relay_start(
            HEAD BUS, fixture->relay.relay, settings, fixture->relay.redis.socket_path);
}

#define FAST    "marks: {interval: 20ms}\n"
#define IS_DONE "processed_at IS NOT NULL"

/* One that has called courier.mark() at least once. */
#define SESSION_OF_MARKS                                                                           \
        " FROM pg_stat_activity WHERE datname = current_database() AND usename = 'relay'"          \
        " AND query LIKE '%mark(%'"

static void await_unmarked(struct fixture *fixture, const char *expected)
{
        char *sql = xasprintf("SELECT coalesce(string_agg(state || ' ' || coalesce(sink, '-'), ', '"
                              " ORDER BY outbox_id), '') = '%s' FROM courier.unmarked",
            expected);

        await_in_database(fixture->admin, sql, expected);
        free(sql);
}

static void await_no_session(struct fixture *fixture)
{
        await_in_database(fixture->admin, "SELECT count(*) = 0" SESSION_OF_MARKS,
            "the session of the marks ends");
}

static void expect_done(struct fixture *fixture, int n_rows)
{
        cr_expect_eq(attached_table_count(fixture->admin, "orders", IS_DONE), n_rows);
}

Test(marks, marks_rows_when_a_sink_that_was_down_has_them_too)
{
        struct fixture fixture = begin();

        http_receiver_stop(fixture.http);
        fixture.process = run_both(&fixture, FAST);
        attached_table_insert(fixture.app, "orders", 2);
        await_unmarked(&fixture, "behind hook, behind hook");
        cr_expect_eq(redis_server_count(&fixture.relay.redis, "XLEN events"), 2);
        expect_done(&fixture, 0);
        http_receiver_restart(fixture.http);
        attached_table_await(fixture.admin, "orders", IS_DONE, 2);
        await_unmarked(&fixture, "");
        expect_value(fixture.admin,
            "SELECT count(*) FROM shop.orders WHERE note = 'a' AND dead IS NULL"
            " AND topic = 'orders.created'",
            "2");
        end(&fixture);
}

Test(marks, marks_a_row_as_dead_when_one_sink_gave_it_up)
{
        struct fixture fixture = begin();

        for (int attempt = 0; attempt < 3; attempt++)
                http_receiver_answer_next(fixture.http, &(struct http_answer){.status = 422});
        fixture.process = run_both(&fixture, FAST);
        attached_table_insert(fixture.app, "orders", 1);
        attached_table_await(fixture.admin, "orders", "dead", 1);
        expect_done(&fixture, 0);
        attached_table_insert(fixture.app, "orders", 1);
        attached_table_await(fixture.admin, "orders", IS_DONE, 1);
        expect_value(fixture.admin,
            "SELECT string_agg(source_key, ' ') FROM courier.dead_letter WHERE source IS NOT NULL",
            "1");
        end(&fixture);
}

Test(marks, delivers_while_rows_are_locked_and_marks_them_afterwards)
{
        struct fixture fixture = begin();

        fixture.process = run_both(&fixture, FAST);
        database_exec(fixture.app, "BEGIN");
        attached_table_insert(fixture.app, "orders", 3);
        database_exec(
            fixture.app, "COMMIT; BEGIN; SELECT FROM shop.orders WHERE id = 2 FOR UPDATE");
        attached_table_insert(fixture.admin, "orders", 2);
        relay_fixture_await(&fixture.relay, "events", 5);
        http_receiver_wait(fixture.http, 5, 20000);
        attached_table_await(fixture.admin, "orders", IS_DONE, 4);
        await_unmarked(&fixture, "retry -");
        database_exec(fixture.app, "COMMIT");
        attached_table_await(fixture.admin, "orders", IS_DONE, 5);
        expect_value(fixture.admin, "SELECT count(*) FROM courier.dead_letter", "0");
        end(&fixture);
}

Test(marks, delivers_and_marks_other_tables_while_one_is_locked)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "refunds", "mark", "NULL");
        fixture.process = run_both(&fixture, FAST);
        http_receiver_stop(fixture.http);
        attached_table_insert(fixture.app, "orders", 2);
        await_unmarked(&fixture, "behind hook, behind hook");
        database_exec(fixture.app, "BEGIN; LOCK TABLE shop.orders IN ACCESS EXCLUSIVE MODE");
        http_receiver_restart(fixture.http);
        relay_wait_for_log(fixture.process, "event=marks_failing", 20000);
        attached_table_insert(fixture.admin, "refunds", 3);
        attached_table_await(fixture.admin, "refunds", IS_DONE, 3);
        cr_expect_eq(redis_server_count(&fixture.relay.redis, "XLEN events"), 5);
        database_exec(fixture.app, "COMMIT");
        attached_table_await(fixture.admin, "orders", IS_DONE, 2);
        relay_wait_for_log(fixture.process, "event=marks_recovered", 20000);
        end(&fixture);
}

/* A lock timeout that a trigger took away would let the locked table hold up the other one. */
Test(marks, is_in_force_whatever_triggers_set)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "refunds", "mark", "NULL");
        database_exec(fixture.admin,
            "CREATE FUNCTION shop.meddle() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
            " PERFORM set_config('lock_timeout', '0', false),"
            "  set_config('statement_timeout', '0', false); RETURN NEW; END$$;"
            "CREATE TRIGGER meddle BEFORE UPDATE ON shop.orders FOR EACH ROW EXECUTE FUNCTION"
            " shop.meddle()");
        fixture.process = run_both(&fixture, FAST);
        attached_table_insert(fixture.app, "orders", 1);
        attached_table_await(fixture.admin, "orders", IS_DONE, 1);
        http_receiver_stop(fixture.http);
        attached_table_insert(fixture.app, "orders", 1);
        await_unmarked(&fixture, "behind hook");
        database_exec(fixture.app, "BEGIN; LOCK TABLE shop.orders IN ACCESS EXCLUSIVE MODE");
        http_receiver_restart(fixture.http);
        relay_wait_for_log(fixture.process, "event=marks_failing", 20000);
        attached_table_insert(fixture.admin, "refunds", 1);
        attached_table_await(fixture.admin, "refunds", IS_DONE, 1);
        database_exec(fixture.app, "COMMIT");
        attached_table_await(fixture.admin, "orders", IS_DONE, 2);
        end(&fixture);
}

/* As a whole, because of a slow disk for example. */
Test(marks, asks_for_fewer_after_a_call_that_took_too_long)
{
        struct fixture fixture = begin();

        database_exec(fixture.admin,
            "CREATE FUNCTION shop.dawdle() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
            " PERFORM pg_sleep(0.025); RETURN NEW; END$$;"
            "CREATE TRIGGER dawdle BEFORE INSERT ON courier.unmarked FOR EACH ROW EXECUTE FUNCTION"
            " shop.dawdle()");
        http_receiver_stop(fixture.http);
        fixture.process = relay_start("postgres: {dsn: \"%s\", query_timeout: 1500ms}\n"
                                      "marks: {batch: 60}\n"
                                      "sinks:\n" BUS HOOK,
            fixture.relay.relay, fixture.relay.redis.socket_path, http_receiver_port(fixture.http));
        attached_table_insert(fixture.app, "orders", 60);
        await_in_database(fixture.admin, "SELECT count(*) = 60 FROM courier.unmarked",
            "the marks of all rows wait");
        cr_expect_geq(relay_count_in_log(fixture.process, "event=marks_failing"), 1);
        end(&fixture);
}

Test(marks, gives_marks_up_that_a_table_refuses_and_takes_them_up_again)
{
        struct fixture fixture = begin();

        database_exec(fixture.admin,
            "ALTER TABLE shop.orders ADD CONSTRAINT stays_open CHECK (processed_at IS NULL)");
        fixture.process = run_both(&fixture, FAST);
        attached_table_insert(fixture.app, "orders", 3);
        relay_fixture_await(&fixture.relay, "events", 3);
        await_in_database(fixture.admin,
            "SELECT count(*) = 3 AND bool_and(last_error LIKE '%stays_open%') FROM courier.unmarked"
            " WHERE state = 'retry' AND attempts > 0",
            "three marks have failed");
        relay_wait_for_log(fixture.process, "stays_open", 20000);
        database_exec(fixture.admin, "UPDATE courier.unmarked SET attempts = 19, due_at = now()");
        await_in_database(fixture.admin,
            "SELECT count(*) = 3 FROM courier.dead_letter WHERE sink = 'courier.marks'",
            "three marks are dead letters");
        relay_wait_for_log(fixture.process, "event=marks_given_up", 20000);
        attached_table_insert(fixture.app, "orders", 1);
        relay_fixture_await(&fixture.relay, "events", 4);
        expect_texts(program_run(NULL, "dead", "list", "--sink", "courier.marks", "--dsn",
                         fixture.relay.dsn, NULL),
            0, "courier.marks", "stays_open");
        expect_texts(program_run(NULL, "dead", "show", "1", "--dsn", fixture.relay.dsn, NULL), 0,
            "shop.orders, row 1", "orders.created");
        expect_texts(program_run(NULL, "status", "--dsn", fixture.relay.dsn, NULL), 0,
            "3 marks were given up");
        database_exec(fixture.admin, "ALTER TABLE shop.orders DROP CONSTRAINT stays_open");
        expect_texts(program_run(NULL, "dead", "redrive", "--sink", "courier.marks", "--yes",
                         "--dsn", fixture.relay.dsn, NULL),
            0, "3");
        attached_table_await(fixture.admin, "orders", IS_DONE, 4);
        expect_value(fixture.admin, "SELECT count(*) FROM courier.dead_letter", "0");
        expect_value(fixture.admin, "SELECT count(*) FROM courier.parked", "0");
        end(&fixture);
}

Test(marks, loses_no_mark_when_the_relay_is_killed_at_any_point)
{
        static const char *const points[] = {"before_mark:1", "after_mark_sent:1", "after_mark:1",
            "before_mark:2", "after_mark_sent:2", "after_settle_sent:1", "after_settled:1"};
        struct fixture fixture = begin();

        fixture.process = NULL;
        for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
                setenv("PGCOURIER_CRASH_AT", points[i], 1);
                fixture.process = run_bus(&fixture, "marks: {interval: 1ms, batch: 3}\n");
                attached_table_insert(fixture.app, "orders", 10);
                cr_expect_eq(relay_wait(fixture.process, 30000), 128 + SIGKILL, "%s", points[i]);
                relay_destroy(fixture.process);
                unsetenv("PGCOURIER_CRASH_AT");
                database_await_no_relay(fixture.admin);
        }
        fixture.process = run_bus(&fixture, FAST);
        attached_table_await(
            fixture.admin, "orders", IS_DONE, 10 * (int)(sizeof points / sizeof *points));
        expect_value(
            fixture.admin, "SELECT count(*) - count(DISTINCT key) FROM courier_tap.marked", "0");
        await_unmarked(&fixture, "");
        end(&fixture);
}

Test(marks, is_content_with_rows_that_the_application_deleted)
{
        struct fixture fixture = begin();

        http_receiver_stop(fixture.http);
        fixture.process = run_both(&fixture, FAST);
        attached_table_insert(fixture.app, "orders", 3);
        await_unmarked(&fixture, "behind hook, behind hook, behind hook");
        database_exec(fixture.app, "DELETE FROM shop.orders WHERE id < 3");
        http_receiver_restart(fixture.http);
        http_receiver_wait(fixture.http, 3, 20000);
        attached_table_await(fixture.admin, "orders", IS_DONE, 1);
        await_unmarked(&fixture, "");
        expect_value(fixture.admin, "SELECT count(*) FROM courier.dead_letter", "0");
        end(&fixture);
}

Test(marks, deletes_rows_that_are_delivered)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "refunds", "delete", "NULL");
        fixture.process = run_both(&fixture, FAST);
        attached_table_insert(fixture.app, "refunds", 3);
        attached_table_await(fixture.admin, "refunds", "true", 0);
        http_receiver_wait(fixture.http, 3, 20000);
        end(&fixture);
}

Test(marks, waits_for_the_sinks_that_the_attachment_names)
{
        struct fixture fixture = begin();

        attached_table_make(fixture.admin, "refunds", "mark", "'{bus}'");
        http_receiver_stop(fixture.http);
        fixture.process = run_both(&fixture, FAST);
        attached_table_insert(fixture.app, "orders", 1);
        attached_table_insert(fixture.app, "refunds", 2);
        attached_table_await(fixture.admin, "refunds", IS_DONE, 2);
        await_unmarked(&fixture, "behind hook");
        end(&fixture);
}

Test(marks, does_not_wait_for_sinks_that_take_other_topics)
{
        struct fixture fixture = begin();

        http_receiver_stop(fixture.http);
        fixture.process = relay_start(HEAD BUS
            "  - name: mail\n"
            "    topics: [\"mail.**\"]\n"
            "    http: {url: \"http://127.0.0.1:%u/\", allow_networks: [127.0.0.1]}\n",
            fixture.relay.relay, FAST, fixture.relay.redis.socket_path,
            http_receiver_port(fixture.http));
        relay_wait_for_log(fixture.process, "event=lane_owned sink=mail", 10000);
        publish(fixture.app, "mail.new", NULL, "keeps its lane where it is");
        attached_table_insert(fixture.app, "orders", 2);
        attached_table_await(fixture.admin, "orders", IS_DONE, 2);
        end(&fixture);
}

Test(marks, waits_for_events_that_are_parked)
{
        struct fixture fixture = begin();

        http_receiver_answer(fixture.http, &(struct http_answer){.status = 500});
        fixture.process = relay_start(HEAD BUS
            "  - name: hook\n"
            "    topics: [\"**\"]\n"
            "    start: beginning\n"
            "    retry: {first: 1s, factor: 1, attempts: 0}\n"
            "    http: {url: \"http://127.0.0.1:%u/\", allow_networks: [127.0.0.1]}\n",
            fixture.relay.relay, FAST, fixture.relay.redis.socket_path,
            http_receiver_port(fixture.http));
        attached_table_insert(fixture.app, "orders", 1);
        await_unmarked(&fixture, "parked hook");
        expect_value(
            fixture.admin, "SELECT source || ' ' || source_key FROM courier.parked", "1 1");
        http_receiver_answer(fixture.http, &(struct http_answer){.status = 204});
        attached_table_await(fixture.admin, "orders", IS_DONE, 1);
        end(&fixture);
}

Test(marks, are_made_by_two_relays_with_different_sinks)
{
        struct fixture fixture = begin();
        struct relay_process *other;

        fixture.process = run_bus(&fixture, FAST);
        other = relay_start(HEAD HOOK, fixture.relay.relay, FAST, http_receiver_port(fixture.http));
        relay_wait_for_log(fixture.process, "event=lane_owned", 10000);
        relay_wait_for_log(other, "event=lane_owned", 10000);
        for (int i = 0; i < 50; i++)
                attached_table_insert(fixture.app, "orders", 4);
        attached_table_await(fixture.admin, "orders", IS_DONE, 200);
        relay_stop(fixture.process); /* the other one marks on */
        attached_table_insert(fixture.app, "orders", 1);
        await_unmarked(&fixture, "behind bus");
        relay_start_again(fixture.process);
        attached_table_await(fixture.admin, "orders", IS_DONE, 201);
        expect_value(
            fixture.admin, "SELECT count(*) - count(DISTINCT key) FROM courier_tap.marked", "0");
        relay_stop(other);
        relay_destroy(other);
        end(&fixture);
}

Test(marks, are_written_before_a_clean_stop)
{
        struct fixture fixture = begin();

        fixture.process = run_bus(&fixture, "marks: {interval: 1h}\n");
        await_in_database(fixture.admin,
            "SELECT count(*) = 1" SESSION_OF_MARKS " AND state = 'idle'", "the marker has looked");
        attached_table_insert(fixture.app, "orders", 2500);
        relay_fixture_await(&fixture.relay, "events", 2500);
        expect_done(&fixture, 0);
        relay_stop(fixture.process);
        expect_done(&fixture, 2500);
        end(&fixture);
}

Test(marks, do_not_keep_a_relay_from_stopping)
{
        struct fixture fixture = begin();

        database_exec(fixture.admin,
            "CREATE FUNCTION shop.dawdle() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
            " PERFORM pg_sleep(60); RETURN NEW; END$$;"
            "CREATE TRIGGER dawdle BEFORE UPDATE ON shop.orders FOR EACH ROW EXECUTE FUNCTION"
            " shop.dawdle()");
        fixture.process = run_bus(&fixture, "marks: {interval: 1h}\n");
        attached_table_insert(fixture.app, "orders", 1);
        relay_fixture_await(&fixture.relay, "events", 1);
        relay_stop(fixture.process);
        cr_expect_eq(relay_count_in_log(fixture.process, "event=drain_limit_reached"), 1);
        expect_done(&fixture, 0);
        end(&fixture);
}

Test(marks, are_written_by_a_relay_that_runs_once)
{
        struct fixture fixture = begin();
        char *text = xasprintf(HEAD BUS, fixture.relay.relay, "marks: {interval: 1h}\n",
            fixture.relay.redis.socket_path);
        char *path = program_file("once.yaml", text, strlen(text));

        attached_table_insert(fixture.app, "orders", 30);
        expect_texts(program_run(NULL, "run", "--once", "-c", path, NULL), 0, "");
        expect_done(&fixture, 30);
        free(path);
        free(text);
        end(&fixture);
}

#define DEBUG "log: {level: debug}\n"
#define OPENS "connection=marks from=closed"

Test(marks, need_no_connection_while_no_table_has_any)
{
        struct fixture fixture = begin();

        database_exec(fixture.admin, "DELETE FROM courier.attachment");
        fixture.process = run_bus(&fixture, FAST DEBUG);
        relay_wait_for_log(fixture.process, "event=lane_owned", 10000);
        publish(fixture.app, "a", NULL, "a");
        relay_fixture_await(&fixture.relay, "events", 1);
        cr_expect_eq(relay_count_in_log(fixture.process, OPENS), 0);
        attached_table_make(fixture.admin, "refunds", "mark", "NULL"); /* rings control */
        attached_table_insert(fixture.app, "refunds", 1);
        attached_table_await(fixture.admin, "refunds", IS_DONE, 1);
        database_exec(fixture.admin, "DELETE FROM courier.attachment");
        await_no_session(&fixture);
        end(&fixture);
}

/* A relay that stops marks what it can: so what it leaves was left on purpose. */
Test(marks, can_be_turned_off_and_on_by_a_reload)
{
        struct fixture fixture = begin();

        fixture.process = run_bus(&fixture, "marks: {enabled: false}\n" DEBUG);
        attached_table_insert(fixture.app, "orders", 2);
        relay_fixture_await(&fixture.relay, "events", 2);
        cr_expect_eq(relay_count_in_log(fixture.process, OPENS), 0);
        relay_reload(
            fixture.process, HEAD BUS, fixture.relay.relay, FAST, fixture.relay.redis.socket_path);
        attached_table_await(fixture.admin, "orders", IS_DONE, 2);
        relay_reload(fixture.process, HEAD BUS, fixture.relay.relay, "marks: {enabled: false}\n",
            fixture.relay.redis.socket_path);
        await_no_session(&fixture);
        attached_table_insert(fixture.app, "orders", 1);
        relay_fixture_await(&fixture.relay, "events", 3);
        relay_stop(fixture.process);
        expect_done(&fixture, 2);
        end(&fixture);
}

Test(marks, go_on_when_their_session_is_lost)
{
        struct fixture fixture = begin();

        fixture.process = run_bus(&fixture, FAST);
        attached_table_insert(fixture.app, "orders", 2);
        attached_table_await(fixture.admin, "orders", IS_DONE, 2);
        await_in_database(fixture.admin,
            "SELECT count(pg_terminate_backend(pid)) > 0" SESSION_OF_MARKS,
            "the session of the marks is terminated");
        relay_wait_for_log(fixture.process, "event=marks_failing", 20000);
        attached_table_insert(fixture.app, "orders", 2);
        attached_table_await(fixture.admin, "orders", IS_DONE, 4);
        relay_wait_for_log(fixture.process, "event=marks_recovered", 20000);
        cr_expect_eq(relay_count_in_log(fixture.process, "event=lane_owned"), 1);
        end(&fixture);
}

/* The relay tries ever more rarely, and not at each settle. Of what repeats the log has the first
 * ten. */
Test(marks, do_not_pester_a_database_that_fails_the_whole_call)
{
        enum { N_SETTLES = 60, IN_LOG = 10 };
        struct fixture fixture = begin();

        database_exec(fixture.admin, "BEGIN; LOCK TABLE courier.unmarked IN ACCESS EXCLUSIVE MODE");
        fixture.process = run_bus(&fixture, "marks: {interval: 1ms, lock_timeout: 1ms}\n");
        for (int i = 1; i <= N_SETTLES; i++) {
                attached_table_insert(fixture.app, "orders", 1);
                relay_fixture_await(&fixture.relay, "events", i);
        }
        cr_expect_lt(relay_count_in_log(fixture.process, "event=marks_failing"), IN_LOG);
        database_exec(fixture.admin, "COMMIT");
        attached_table_await(fixture.admin, "orders", IS_DONE, N_SETTLES);
        end(&fixture);
}

Test(marks, come_soon_after_a_settle_and_with_a_new_session)
{
        struct fixture fixture = begin();

        fixture.process = relay_start(
            HEAD_SWEEPING("1h") BUS, fixture.relay.relay, FAST, fixture.relay.redis.socket_path);
        relay_wait_for_log(fixture.process, "event=lane_owned", 10000);
        for (int n = 1; n <= 3; n++) {
                attached_table_insert(fixture.app, "orders", 1);
                attached_table_await(fixture.admin, "orders", IS_DONE, n);
        }
        end(&fixture);
        fixture = begin();
        fixture.process = relay_start(HEAD_SWEEPING("1h") BUS, fixture.relay.relay,
            "marks: {interval: 1h}\n", fixture.relay.redis.socket_path);
        await_in_database(fixture.admin,
            "SELECT count(*) = 1" SESSION_OF_MARKS " AND state = 'idle'", "the marker has looked");
        attached_table_insert(fixture.app, "orders", 2);
        await_in_database(fixture.admin,
            "SELECT count(*) = 2 FROM courier.outbox AS o JOIN courier.cursor AS c ON sink = 'bus'"
            " WHERE courier.has_passed(from_snapshot, until_snapshot, last_id, o.id, txid)",
            "the events are settled");
        expect_done(&fixture, 0);
        await_in_database(fixture.admin,
            "SELECT count(pg_terminate_backend(pid)) > 0" SESSION_OF_MARKS,
            "the session of the marks is terminated");
        attached_table_await(fixture.admin, "orders", IS_DONE, 2);
        end(&fixture);
}

Test(marks, wait_for_receivers)
{
        struct fixture fixture = begin();
        char *sql;

        sql = xasprintf("INSERT INTO courier.receiver (sink, name, url, topics, state) VALUES"
                        " ('hooks', 'a', 'http://127.0.0.1:%u/a', '{orders.**}', 'active'),"
                        " ('hooks', 'b', 'http://127.0.0.1:%u/b', '{orders.**}', 'paused'),"
                        " ('hooks', 'c', 'http://127.0.0.1:%u/c', '{others.**}', 'paused')",
            http_receiver_port(fixture.http), http_receiver_port(fixture.http),
            http_receiver_port(fixture.http));
        database_exec(fixture.admin, sql);
        fixture.process = relay_start(HEAD BUS
            "  - name: hooks\n"
            "    topics: [\"**\"]\n"
            "    http: {receivers: table, allow_networks: [127.0.0.1], allow_ports: [%u]}\n",
            fixture.relay.relay, FAST, fixture.relay.redis.socket_path,
            http_receiver_port(fixture.http));
        relay_wait_for_log(fixture.process, "event=receivers_read", 10000);
        attached_table_insert(fixture.app, "orders", 2);
        http_receiver_wait_for(fixture.http, "/a", 2, 20000);
        await_unmarked(&fixture, "behind hooks, behind hooks");
        await_in_database(fixture.admin,
            "SELECT string_agg(lane::text, ' ') = '2 2' FROM courier.unmarked", "b holds them up");
        database_exec(
            fixture.admin, "UPDATE courier.receiver SET state = 'active' WHERE name = 'b'");
        attached_table_await(fixture.admin, "orders", IS_DONE, 2);
        free(sql);
        end(&fixture);
}

static bool tells_two_marks(void *address)
{
        struct http_reply reply = http_ask(address, "GET", "/metrics", NULL, NULL);
        bool tells = strstr(reply.body, "pgcourier_marks_total 2\n") != NULL &&
                     strstr(reply.body, "pgcourier_marks_failed_total 0\n") != NULL;

        http_reply_free(&reply);
        return tells;
}

Test(marks, are_shown_with_what_they_wait_for)
{
        struct fixture fixture = begin();
        char *address = xasprintf("unix:%s.admin", fixture.relay.redis.socket_path);
        char *admin = xasprintf(FAST "admin: {listen: \"%s\"}\n", address);

        http_receiver_stop(fixture.http);
        fixture.process = run_both(&fixture, admin);
        relay_wait_for_log(fixture.process, "event=admin_listening", 10000);
        attached_table_insert(fixture.app, "orders", 2);
        await_unmarked(&fixture, "behind hook, behind hook");
        database_exec(
            fixture.admin, "UPDATE courier.unmarked SET since = now() - interval '10 min'");
        expect_texts(program_run(NULL, "status", "--dsn", fixture.relay.dsn, NULL), 0,
            "Marks wait for hook", "2 events wait");
        expect_texts(program_run(NULL, "cursor", "list", "-c", fixture.process->config_path, NULL),
            0, "courier.marks");
        expect_refusal(program_run(NULL, "cursor", "drop", "courier.marks", "-c",
                           fixture.process->config_path, NULL),
            2, "courier.marks is no sink");
        http_receiver_restart(fixture.http);
        attached_table_await(fixture.admin, "orders", IS_DONE, 2);
        wait_until(tells_two_marks, address, 20000, "the metrics tell of two marks");
        free(admin);
        free(address);
        end(&fixture);
}
