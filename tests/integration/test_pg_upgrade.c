/*
 * A cluster that went through pg_upgrade, here to the same version: it has another system
 * identifier and the same transaction ids. The relay refuses it; after `rebase`, which rewrites
 * nothing, every lane goes on where it stood: nothing comes twice, and nothing is passed over.
 */
#include "base/alloc.h"
#include "operator/rebase.h"
#include "pg/blocking_conn.h"
#include "support/attached_table.h"
#include "support/http_receiver.h"
#include "support/postgres_expect.h"
#include "support/program_expect.h"
#include "support/reader.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEADLINE_MS = 30000 };

/* Stops it. The new cluster's databases have the same names. */
static struct postgres *upgrade(struct postgres *old)
{
        struct postgres *new = postgres_start_distinct();
        const char *bin = postgres_bin_folder();
        char *command = xasprintf("cd %2$s && %1$s/pg_upgrade -b %1$s -B %1$s -d %3$s/data"
                                  " -D %2$s/data -s %2$s -U postgres",
            bin, new->folder, old->folder);

        postgres_stop(old);
        postgres_stop(new);
        if (process_run((const char *const[]){"sh", "-c", command, NULL}, new->log_path, true) != 0)
                test_abort("pg_upgrade failed");
        free(command);
        postgres_start_again(new);
        return new;
}

/* The same database, in the new cluster. */
static char *moved(const char *dsn, const struct postgres *new)
{
        return xasprintf("%s host=%s port=%u", dsn, new->folder, new->port);
}

static void publish_number(PGconn *connection, int number)
{
        char *sql = xasprintf("SELECT courier.publish('t', '%d')", number);

        database_exec(connection, sql);
        free(sql);
}

static void publish_numbers(PGconn *connection, int first, int last)
{
        for (int i = first; i <= last; i++)
                publish_number(connection, i);
}

static struct reader *open_lane(const char *dsn, const char *sink, uint32_t max_in_flight)
{
        return reader_open(
            dsn, &(struct reader_options){
                     .sink = sink, .start = START_BEGINNING, .max_in_flight = max_in_flight});
}

static void run_rebase(const char *dsn, struct rebase_result *result)
{
        struct error error;
        struct blocking_conn *conn = blocking_conn_open(
            &(struct blocking_conn_settings){.dsn = dsn, .connect_timeout_ms = 10000}, &error);

        cr_assert(conn != NULL && rebase(conn, result, &error), "%s", error.text);
        blocking_conn_close(conn);
}

/* Exactly these, in that order. */
static void expect_rest(const char *dsn, const char *sink, const char *expected)
{
        struct reader *reader = open_lane(dsn, sink, 1000);
        char *came = xstrdup("");

        cr_assert(reader->is_owned, "%s: %s", sink, reader->refused.text);
        reader_catch_up(reader);
        for (size_t i = 0; i < reader->n_deliveries; i++) {
                char *longer = xasprintf("%s%s ", came, reader->payloads[i]);
                free(came);
                came = longer;
        }
        cr_expect_str_eq(came, expected, "%s got %s", sink, came);
        free(came);
        reader_close(reader);
}

/* A transaction is open while the first lane reads past it; another lane stands within a
 * difference. */
Test(pg_upgrade, keeps_every_cursor)
{
        struct postgres *old = postgres_start_distinct();
        char *dsn = postgres_new_database(old);
        PGconn *writer = database_connect(dsn);
        PGconn *late = database_connect(dsn);
        struct rebase_result result;
        struct postgres *new;
        struct reader *reader;
        char *upgraded;

        publish_numbers(writer, 1, 3);
        reader = open_lane(dsn, "none", 10);
        reader_close(reader);
        database_exec(late, "BEGIN");
        publish_number(late, 4);
        publish_numbers(writer, 5, 7);
        reader = open_lane(dsn, "all", 1000);
        reader_catch_up(reader);
        cr_assert_eq(reader->n_deliveries, 6);
        reader_close(reader);
        reader = open_lane(dsn, "some", 2);
        while (reader->lane.settler.n_settled < 2)
                uv_run(&reader->loop, UV_RUN_ONCE);
        reader_close(reader);
        database_exec(late, "COMMIT");
        cr_assert_eq(database_integer(writer,
                         "SELECT count(*) FROM courier.cursor"
                         " WHERE sink = 'some' AND until_snapshot IS NOT NULL AND last_id = 2"),
            1, "a difference is open");
        publish_number(writer, 8);
        PQfinish(writer);
        PQfinish(late);

        new = upgrade(old);
        upgraded = moved(dsn, new);
        reader = open_lane(upgraded, "all", 1000);
        cr_expect_eq(reader->refused.kind, ERROR_SCHEMA);
        reader_close(reader);
        writer = database_connect(upgraded);
        publish_number(writer, 9);
        run_rebase(upgraded, &result);
        cr_expect(!result.was_rewritten);
        cr_assert_eq(result.n_lanes, 3);
        cr_expect_eq(result.lanes[0].n_waiting, 3);
        cr_expect_eq(result.lanes[1].n_waiting, 9);
        cr_expect_eq(result.lanes[2].n_waiting, 7);
        rebase_result_deinit(&result);
        publish_number(writer, 10);

        expect_rest(upgraded, "all", "4 8 9 10 ");
        expect_rest(upgraded, "none", "1 2 3 4 5 6 7 8 9 10 ");
        expect_rest(upgraded, "some", "3 5 6 7 4 8 9 10 ");
        PQfinish(writer);
        free(upgraded);
        free(dsn);
        postgres_stop(new);
}

static struct relay_process *start_relay(
    const char *dsn, const struct redis_server *redis, struct http_receiver *http)
{
        const unsigned port = http_receiver_port(http);

        return relay_start("postgres: {dsn: \"%s\"}\n"
                           "marks: {interval: 20ms}\n"
                           "sinks:\n"
                           "  - {name: bus, topics: [\"**\"], start: beginning,\n"
                           "     redis: {url: \"unix://%s\", stream: events}}\n"
                           "  - {name: strict, topics: [strict], start: beginning,\n"
                           "     retry: {first: 10ms, max: 20ms, attempts: 3},\n"
                           "     http: {url: \"http://127.0.0.1:%u/strict\"}}\n"
                           "  - {name: slow, topics: [slow, orders.created], start: beginning,\n"
                           "     retry: {first: 1h, max: 1h, attempts: 5},\n"
                           "     http: {url: \"http://127.0.0.1:%u/slow\"}}\n"
                           "  - {name: partners, topics: [partners],\n"
                           "     http: {receivers: table, allow_networks: [127.0.0.1],\n"
                           "            allow_ports: [%u]}}\n",
            dsn, redis->socket_path, port, port, port);
}

static void add_receiver(PGconn *admin, const char *name, unsigned port)
{
        char *sql = xasprintf("INSERT INTO courier.receiver (sink, name, url)"
                              " VALUES ('partners', '%s', 'http://127.0.0.1:%u/%s')",
            name, port, name);

        database_exec(admin, sql);
        free(sql);
}

/* Since the upgrade, with every other event delivered. */
static void expect_requests(
    struct http_receiver *http, const char *target, unsigned n_before, unsigned n)
{
        unsigned n_now = http_receiver_count(http, target) - n_before;

        cr_expect_eq(n_now, n, "%s got %u events", target, n_now);
}

/* A dead letter, parked deliveries (one due, one blocked), a row that waits for its mark, a
 * receiver with a transaction behind it that was open, and one that has no cursor yet. */
Test(pg_upgrade, keeps_what_waits_and_sends_nothing_again)
{
        struct postgres *old = postgres_start_distinct();
        struct http_receiver *http = http_receiver_start(NULL, NULL);
        const unsigned port = http_receiver_port(http);
        struct relay_fixture fixture;
        struct relay_process *relay;
        struct program_run run;
        struct postgres *new;
        unsigned n_slow, n_strict;
        char *dsn;
        PGconn *late;
        PGconn *admin;

        relay_fixture_begin(&fixture, old);
        attached_table_make(fixture.admin, "orders", "mark", "NULL");
        http_receiver_answer(http, &(struct http_answer){.status = 422});
        relay = start_relay(fixture.relay, &fixture.redis, http);
        publish(fixture.admin, "strict", NULL, "1");
        publish(fixture.admin, "slow", "k", "1");
        publish(fixture.admin, "slow", "k", "2");
        attached_table_insert(fixture.admin, "orders", 1);
        await_in_database(fixture.admin,
            "SELECT (SELECT string_agg(state, ' ' ORDER BY position) FROM courier.parked)"
            " = 'retry blocked retry' AND (SELECT count(*) FROM courier.dead_letter) = 1"
            " AND EXISTS (SELECT FROM courier.unmarked)",
            "events wait");
        http_receiver_answer(http, &(struct http_answer){.status = 204});
        add_receiver(fixture.admin, "acme", port);
        publish(fixture.admin, "partners", NULL, "1");
        http_receiver_wait_for(http, "/acme", 1, DEADLINE_MS);
        late = database_connect(fixture.dsn);
        database_exec(late, "BEGIN");
        publish(late, "partners", NULL, "2");
        publish(fixture.admin, "partners", NULL, "3");
        http_receiver_wait_for(http, "/acme", 2, DEADLINE_MS);
        relay_fixture_await(&fixture, "events", 6);
        relay_stop(relay);
        relay_destroy(relay);
        database_exec(late, "COMMIT");
        PQfinish(late);
        publish(fixture.admin, "partners", NULL, "4");
        add_receiver(fixture.admin, "fresh", port);
        publish(fixture.admin, "partners", NULL, "5");
        attached_table_insert(fixture.admin, "orders", 1);
        PQfinish(fixture.admin);
        fixture.admin = NULL;
        n_slow = http_receiver_count(http, "/slow");
        n_strict = http_receiver_count(http, "/strict");

        new = upgrade(old);
        dsn = moved(fixture.relay, new);
        relay = start_relay(dsn, &fixture.redis, http);
        cr_expect_eq(relay_wait(relay, DEADLINE_MS), 6);
        free(dsn);
        dsn = moved(fixture.dsn, new);
        run = program_run(NULL, "rebase", "--dsn", dsn, NULL);
        cr_expect_eq(run.code, 0, "%s", run.err);
        cr_expect_not_null(strstr(run.out, "they stay as they are\n"), "%s", run.out);
        program_run_free(&run);
        admin = database_connect(dsn);
        publish(admin, "partners", NULL, "6");
        database_exec(admin, "UPDATE courier.parked SET due_at = now();"
                             "UPDATE courier.unmarked SET due_at = now()");
        relay_start_again(relay);
        http_receiver_wait_for(http, "/acme", 6, DEADLINE_MS);
        http_receiver_wait_for(http, "/fresh", 2, DEADLINE_MS);
        http_receiver_wait_for(http, "/slow", n_slow + 4, DEADLINE_MS);
        relay_fixture_await(&fixture, "events", 11);
        attached_table_await(admin, "orders", "processed_at IS NOT NULL", 2);
        run = program_run(NULL, "dead", "redrive", "1", "--dsn", dsn, NULL);
        cr_expect_eq(run.code, 0, "%s", run.err);
        program_run_free(&run);
        http_receiver_wait_for(http, "/strict", n_strict + 1, DEADLINE_MS);
        await_in_database(admin,
            "SELECT NOT EXISTS (SELECT FROM courier.parked)"
            " AND NOT EXISTS (SELECT FROM courier.unmarked)"
            " AND NOT EXISTS (SELECT FROM courier.dead_letter)",
            "nothing waits");
        relay_stop(relay);
        expect_requests(http, "/acme", 0, 6);
        expect_requests(http, "/fresh", 0, 2);
        expect_requests(http, "/slow", n_slow, 4);
        expect_requests(http, "/strict", n_strict, 1);
        cr_expect_eq(redis_server_count(&fixture.redis, "XLEN events"), 11);
        expect_value(admin, "SELECT count(*) FROM courier_tap.marked", "2");

        relay_destroy(relay);
        PQfinish(admin);
        free(dsn);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
        postgres_stop(new);
}
