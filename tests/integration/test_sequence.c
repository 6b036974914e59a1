/*
 * The sequence that the ids of events are drawn from, altered and set back: no relay reads with it,
 * none passes over an event, and all goes on when it is mended.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "support/postgres.h"
#include "support/program.h"
#include "support/reader.h"
#include "support/relay_process.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEND "ALTER SEQUENCE courier.outbox_id_seq INCREMENT 1 CACHE 1 NO CYCLE"

struct fixture {
        char *dsn; /* of the superuser */
        char *relay;
        PGconn *admin;
        PGconn *first, *second; /* of applications */
};

static struct fixture set_up(void)
{
        struct fixture fixture = {.dsn = postgres_new_database(postgres_shared())};
        char *app = dsn_as_user(fixture.dsn, "app");

        fixture.relay = dsn_as_user(fixture.dsn, "relay");
        fixture.admin = database_connect(fixture.dsn);
        fixture.first = database_connect(app);
        fixture.second = database_connect(app);
        free(app);
        return fixture;
}

static void tear_down(struct fixture *fixture)
{
        PQfinish(fixture->admin);
        PQfinish(fixture->first);
        PQfinish(fixture->second);
        free(fixture->dsn);
        free(fixture->relay);
}

static void publish(PGconn *connection, int number)
{
        char sql[128];

        snprintf(sql, sizeof sql, "SELECT courier.publish('t', '%d')", number);
        database_exec(connection, sql);
}

static struct reader *open_reader(const struct fixture *fixture, enum start start)
{
        return reader_open(fixture->relay, &(struct reader_options){.start = start});
}

static bool is_down(void *context)
{
        const struct reader *reader = context;

        return reader->is_down;
}

/* In the order of delivery, separated by blanks. */
static void expect_deliveries(const struct reader *reader, const char *expected)
{
        struct bytes got = {0};

        for (size_t i = 0; i < reader->n_deliveries; i++)
                bytes_printf(&got, "%s%s", i > 0 ? " " : "", reader->payloads[i]);
        cr_expect_str_eq(
            got.length > 0 ? got.data : "", expected, "%s", got.length > 0 ? got.data : "nothing");
        bytes_deinit(&got);
}

/* A session draws ids in advance, another one has the floor pass them by. */
Test(sequence, with_a_cache_stops_reading_and_loses_nothing)
{
        struct fixture fixture = set_up();
        struct reader *reader = open_reader(&fixture, START_BEGINNING);

        publish(fixture.first, 1);
        reader_catch_up(reader);
        database_exec(fixture.admin, "ALTER SEQUENCE courier.outbox_id_seq CACHE 20");
        publish(fixture.first, 2);
        publish(fixture.second, 3);
        reader_follow(reader, is_down, reader);
        expect_deliveries(reader, "1");
        publish(fixture.first, 4);
        publish(fixture.second, 5);
        reader_close(reader);

        /* What was drawn in advance is given up when the sequence is mended. */
        database_exec(fixture.admin, MEND);
        publish(fixture.first, 6);
        cr_expect_gt(database_integer(fixture.admin, "SELECT max(id) FROM courier.outbox"), 40);
        reader = open_reader(&fixture, START_BEGINNING);
        reader_catch_up(reader);
        expect_deliveries(reader, "2 4 3 5 6");
        publish(fixture.second, 7);
        publish(fixture.first, 8);
        reader_catch_up(reader);
        expect_deliveries(reader, "2 4 3 5 6 7 8");
        reader_close(reader);
        tear_down(&fixture);
}

/* Until it ends, its ids are those of the settings that it drew the first with. */
Test(sequence, cannot_be_altered_while_a_transaction_has_drawn_or_read_it)
{
        static const char *const statements[] = {
            "SELECT courier.publish('t', '1')", "SELECT courier.outbox_floor()"};
        struct fixture fixture = set_up();

        database_exec(fixture.admin, "SET lock_timeout = '10ms'");
        for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
                PGresult *result;

                database_exec(fixture.first, "BEGIN");
                database_exec(fixture.first, statements[i]);
                result = PQexec(fixture.admin, "ALTER SEQUENCE courier.outbox_id_seq CACHE 20");
                cr_expect_str_eq(PQresultErrorField(result, PG_DIAG_SQLSTATE), "55P03");
                PQclear(result);
                database_exec(fixture.first, "COMMIT");
        }
        tear_down(&fixture);
}

static void expect_refused(struct fixture *fixture, const char *words, const char *remedy)
{
        char *path_text =
            xasprintf("postgres: {dsn: \"%s\"}\n"
                      "sinks: [{name: test, topics: ['**'], start: beginning, stdout: {}}]\n",
                fixture->relay);
        char *path = program_file("config.yaml", path_text, strlen(path_text));
        char *refused = xasprintf("fail  sequence: %s\n      %s", words, remedy);
        struct program_run run;

        run = program_run(NULL, "run", "--once", "-c", path, NULL);
        cr_expect_neq(run.code, 0);
        cr_expect_str_empty(run.out);
        cr_expect_not_null(strstr(run.err, words), "%s", run.err);
        cr_expect_not_null(strstr(run.err, remedy), "%s", run.err);
        program_run_free(&run);
        run = program_run(NULL, "check", "--connect", "-c", path, NULL);
        cr_expect_eq(run.code, 6, "%s", run.err);
        cr_expect_not_null(strstr(run.out, refused), "%s not in\n%s", refused, run.out);
        program_run_free(&run);
        run = program_run(NULL, "doctor", "-c", path, NULL);
        cr_expect_eq(run.code, 1, "%s", run.err);
        cr_expect_not_null(strstr(run.out, refused), "%s not in\n%s", refused, run.out);
        program_run_free(&run);
        run = program_run(NULL, "status", "-c", path, NULL);
        cr_expect_not_null(
            strstr(run.out, "The sequence of the outbox cannot be relied on"), "%s", run.out);
        program_run_free(&run);
        free(refused);
        free(path);
        free(path_text);
}

Test(sequence, that_was_altered_is_refused_and_told_of)
{
        static const struct {
                const char *how;
                const char *words;
        } cases[] = {
            {"CACHE 2", "was altered to INCREMENT 1 CACHE 2 NO CYCLE"},
            {"INCREMENT 10", "was altered to INCREMENT 10 CACHE 1 NO CYCLE"},
            {"INCREMENT -1", "was altered to INCREMENT -1 CACHE 1 NO CYCLE"},
            {"MAXVALUE 100 CYCLE", "was altered to INCREMENT 1 CACHE 1 CYCLE"},
        };
        struct fixture fixture = set_up();

        publish(fixture.first, 1);
        publish(fixture.first, 2);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                char *sql = xasprintf("ALTER SEQUENCE courier.outbox_id_seq %s", cases[i].how);
                char *words = xasprintf("the sequence courier.outbox_id_seq %s, with which events "
                                        "would be passed over",
                    cases[i].words);

                database_exec(fixture.admin, sql);
                expect_refused(&fixture, words, MEND);
                database_exec(fixture.admin, MEND);
                free(words);
                free(sql);
        }
        tear_down(&fixture);
}

Test(sequence, that_ends_early_is_warned_of)
{
        struct fixture fixture = set_up();
        struct program_run run;

        database_exec(
            fixture.admin, "ALTER SEQUENCE courier.outbox_id_seq AS integer MAXVALUE 1000");
        run = program_run(NULL, "doctor", "--dsn", fixture.relay, NULL);
        cr_expect_not_null(
            strstr(run.out,
                "warn  sequence: it is limited to 1000, where publishing fails; it is at 0\n"
                "      ALTER SEQUENCE courier.outbox_id_seq AS bigint NO MAXVALUE\n"),
            "%s", run.out);
        program_run_free(&run);
        tear_down(&fixture);
}

/* Whatever was published meanwhile has ids that cursors take for read: rebase reads by
 * transactions. */
Test(sequence, that_was_set_back_is_refused_and_rebase_loses_nothing)
{
        struct fixture fixture = set_up();
        struct reader *reader = open_reader(&fixture, START_BEGINNING);
        struct program_run run;

        for (int i = 1; i <= 9; i++)
                publish(fixture.first, i);
        reader_catch_up(reader);
        database_exec(fixture.admin, "TRUNCATE courier.outbox;"
                                     "INSERT INTO courier.receiver (sink, name, url)"
                                     " VALUES ('hooks', 'a', 'https://a.example/')");
        database_exec(fixture.admin, "ALTER SEQUENCE courier.outbox_id_seq RESTART");
        publish(fixture.first, 10);
        publish(fixture.second, 11);
        reader_follow(reader, is_down, reader);
        expect_deliveries(reader, "1 2 3 4 5 6 7 8 9");
        reader_close(reader);
        expect_refused(&fixture,
            "the sequence courier.outbox_id_seq was set back to 2, although it had reached 9: "
            "events "
            "would be passed over",
            "Stop all relays and run: pgcourier rebase");

        database_await_no_relay(fixture.admin);
        run = program_run(NULL, "rebase", "--dsn", fixture.dsn, NULL);
        cr_expect_str_eq(run.out,
            "the transaction ids of the outbox and its cursors were written anew\n"
            "hooks: events of all topics not yet passed: 2\n"
            "test: events of all topics not yet passed: 2\n",
            "%s%s", run.out, run.err);
        program_run_free(&run);
        publish(fixture.first, 12);
        reader = open_reader(&fixture, START_BEGINNING);
        reader_catch_up(reader);
        expect_deliveries(reader, "10 11 12");
        reader_close(reader);
        tear_down(&fixture);
}

Test(sequence, is_not_restarted_by_truncate)
{
        struct fixture fixture = set_up();
        struct reader *reader = open_reader(&fixture, START_BEGINNING);
        PGresult *result;

        publish(fixture.first, 1);
        reader_catch_up(reader);
        result = PQexec(fixture.admin, "TRUNCATE courier.outbox RESTART IDENTITY");
        cr_expect_str_eq(PQresultErrorField(result, PG_DIAG_SQLSTATE), "55000");
        cr_expect_str_eq(
            PQresultErrorField(result, PG_DIAG_MESSAGE_HINT), "TRUNCATE without RESTART IDENTITY");
        PQclear(result);
        database_exec(fixture.admin, "TRUNCATE courier.outbox");
        publish(fixture.first, 2);
        reader_catch_up(reader);
        expect_deliveries(reader, "1 2");
        reader_close(reader);
        tear_down(&fixture);
}

/* An id that was drawn again would come into a partition that goes as soon as it may. */
Test(sequence, that_was_set_back_into_a_closed_partition_stops_maintenance)
{
        struct fixture fixture = set_up();
        PGresult *result;

        database_exec(fixture.admin,
            "UPDATE courier.outbox_partition SET closed_xid = '3', closed_at = now(), upper = 11"
            " WHERE lower = 1");
        result = PQexec(fixture.admin, "SELECT courier.maintain('0')");
        cr_expect_str_eq(PQresultErrorField(result, PG_DIAG_SQLSTATE), "55000");
        PQclear(result);
        tear_down(&fixture);
}

/* Receivers begin where the sequence is, too. */
Test(sequence, with_a_cache_begins_no_receiver)
{
        struct fixture fixture = set_up();
        PGresult *result;

        database_exec(fixture.admin, "ALTER SEQUENCE courier.outbox_id_seq CACHE 20");
        result = PQexec(fixture.admin, "INSERT INTO courier.receiver (sink, name, url)"
                                       " VALUES ('hooks', 'a', 'https://a.example/')");
        cr_expect_str_eq(PQresultErrorField(result, PG_DIAG_SQLSTATE), "55000");
        cr_expect_str_eq(PQresultErrorField(result, PG_DIAG_MESSAGE_HINT), MEND);
        PQclear(result);
        tear_down(&fixture);
}

Test(sequence, can_be_mended_while_a_relay_runs)
{
        struct fixture fixture = set_up();
        struct relay_process *relay =
            relay_start("postgres: {dsn: \"%s\"}\n"
                        "relay: {sweep: 100ms}\n"
                        "sinks: [{name: test, topics: ['**'], stdout: {}}]\n",
                fixture.relay);

        relay_wait_for_log(relay, "event=lane_owned ", 10000);
        database_exec(fixture.admin, "ALTER SEQUENCE courier.outbox_id_seq CACHE 20");
        relay_wait_for_log(relay, "was altered to INCREMENT 1 CACHE 20 NO CYCLE", 10000);
        publish(fixture.first, 1);
        publish(fixture.second, 2);
        publish(fixture.first, 3);
        database_exec(fixture.admin, MEND);
        relay_wait_for_log(relay, "\"payload\": 3", 20000);
        relay_wait_for_log(relay, "\"payload\": 2", 20000);
        relay_stop(relay);
        relay_destroy(relay);
        tear_down(&fixture);
}
