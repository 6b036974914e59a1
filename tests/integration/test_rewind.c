/*
 * `pgcourier rewind` under real readers: everything from the id on comes again, and nothing that
 * was not yet delivered is skipped, whatever was in progress.
 */
#include "base/alloc.h"
#include "support/history.h"
#include "support/postgres.h"
#include "support/program_expect.h"
#include "support/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *dsn, *relay_dsn;
static PGconn *admin;
static char words[2000]; /* of deliveries() */

static void start(void)
{
        dsn = postgres_new_database(postgres_shared());
        relay_dsn = dsn_as_user(dsn, "relay");
        admin = database_connect(dsn);
}

static void stop(void)
{
        PQfinish(admin);
        free(relay_dsn);
        free(dsn);
}

TestSuite(rewind, .init = start, .fini = stop);

#define REWIND(to)                                                                                 \
        program_run(                                                                               \
            NULL, "rewind", "--sink", "test", "--yes", "--dsn", relay_dsn, "--to", (to), NULL)

static void publish(PGconn *connection, int first, int last)
{
        char *sql = xasprintf("SELECT count(courier.publish('t', to_json(i)))"
                              " FROM generate_series(%d, %d) AS i",
            first, last);

        database_exec(connection, sql);
        free(sql);
}

static struct reader *open_lane(uint32_t max_in_flight)
{
        struct reader *reader = reader_open(relay_dsn,
            &(struct reader_options){.start = START_BEGINNING, .max_in_flight = max_in_flight});

        cr_assert(reader->is_owned);
        return reader;
}

/* A backend notices the end of its session a moment after the client has gone. */
static bool is_free(void *context)
{
        (void)context;
        return database_integer(admin, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
                                       " AND classid = 1668248946 AND objid <> 0 AND database = "
                                       "(SELECT oid FROM pg_database"
                                       "  WHERE datname = current_database())") == 0;
}

static void close_lane(struct reader *reader)
{
        reader_close(reader);
        wait_until(is_free, NULL, 30000, "the reader's session ends");
}

static void expect_deliveries(const struct reader *reader, const char *expected)
{
        size_t length = 0;

        words[0] = '\0';
        for (size_t i = 0; i < reader->n_deliveries && length < sizeof words; i++)
                length += (size_t)snprintf(words + length, sizeof words - length, "%s%s",
                    i > 0 ? " " : "", reader->payloads[i]);
        cr_expect_str_eq(words, expected);
}

Test(rewind, delivers_again_from_an_id_a_time_and_the_beginning)
{
        static const struct {
                const char *to;
                const char *expected;
        } cases[] = {{"8", "8 9 10"}, {"2026-01-01T12:00Z", "6 7 8 9 10"},
            {"2026-01-01 13:00+01", "6 7 8 9 10"}, {"beginning", "1 2 3 4 5 6 7 8 9 10"}};
        struct reader *reader;

        publish(admin, 1, 10);
        database_exec(admin, "UPDATE courier.outbox SET created_at ="
                             " '2026-01-01 11:00+00'::timestamptz + (id > 5)::int * interval '1h'");
        reader = open_lane(100);
        reader_catch_up(reader);
        close_lane(reader);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct program_run run = REWIND(cases[i].to);
                cr_expect_eq(run.code, 0, "%s", run.err);
                cr_expect_not_null(strstr(run.out, "sink test: 1 of 1 cursors moved back to id "));
                program_run_free(&run);
                reader = open_lane(100);
                reader_catch_up(reader);
                expect_deliveries(reader, cases[i].expected);
                close_lane(reader);
        }
        publish(admin, 11, 12);
        reader = open_lane(100);
        reader_catch_up(reader);
        expect_deliveries(reader, "11 12");
        close_lane(reader);
}

/* The trap: 3 has a low id and was not visible when the lane came by. */
Test(rewind, does_not_skip_what_was_committed_late)
{
        PGconn *late = database_connect(dsn);
        struct reader *reader;

        publish(admin, 1, 2);
        database_exec(late, "BEGIN");
        publish(late, 3, 3);
        publish(admin, 4, 8);
        reader = open_lane(100);
        reader_catch_up(reader);
        expect_deliveries(reader, "1 2 4 5 6 7 8");
        close_lane(reader);
        database_exec(late, "COMMIT");
        expect_output(REWIND("7"),
            "sink test: 1 of 1 cursors moved back to id 7; up to 2 events are "
            "delivered again\n");
        reader = open_lane(100);
        reader_catch_up(reader);
        expect_deliveries(reader, "7 8 3");
        close_lane(reader);
        PQfinish(late);
}

static bool is_half_through(void *context)
{
        const struct reader *reader = context;

        return reader->lane.settler.n_settled >= 40;
}

Test(rewind, goes_back_within_a_difference_and_not_ahead_of_it)
{
        struct reader *reader;
        int64_t reached;
        size_t n;

        publish(admin, 1, 200);
        reader = open_lane(10);
        reader_follow(reader, is_half_through, reader);
        close_lane(reader);
        reached = database_integer(admin, "SELECT last_id FROM courier.cursor WHERE"
                                          " until_snapshot IS NOT NULL");
        cr_assert(reached >= 40 && reached < 190);
        expect_refusal(REWIND("199"), 8, "sink test has not passed any event from there on");
        expect_refusal(REWIND("1000"), 8, "sink test has not passed any event from there on");
        n = (size_t)reached - 9;
        char *id = xasprintf("%zu", n + 1);
        struct program_run run = REWIND(id);
        cr_expect_eq(run.code, 0, "%s", run.err);
        program_run_free(&run);
        reader = open_lane(1000);
        reader_catch_up(reader);
        cr_assert_eq(reader->n_deliveries, 200 - n);
        for (size_t i = 0; i < reader->n_deliveries; i++)
                cr_assert_eq(atoi(reader->payloads[i]), (int)(n + 1 + i));
        close_lane(reader);
        free(id);
}

/* An open difference of a straggler alone: its end is a snapshot that was not worked through. */
Test(rewind, gives_up_an_open_difference_that_it_goes_behind)
{
        PGconn *late = database_connect(dsn);
        struct program_run run;
        struct reader *reader;

        publish(admin, 1, 2);
        database_exec(late, "BEGIN");
        publish(late, 3, 4);
        publish(admin, 5, 9);
        reader = open_lane(100);
        reader_catch_up(reader);
        close_lane(reader);
        database_exec(late, "COMMIT");
        /* As if a relay had opened the difference, settled 3, and died. */
        database_exec(admin, "UPDATE courier.cursor SET until_snapshot = pg_current_snapshot(),"
                             " until_floor = 9, until_xid = pg_current_xact_id(), last_id = 3");
        run = REWIND("8");
        cr_expect_eq(run.code, 0, "%s", run.err);
        program_run_free(&run);
        reader = open_lane(100);
        reader_catch_up(reader);
        expect_deliveries(reader, "8 9 3 4");
        close_lane(reader);
        PQfinish(late);
}

Test(rewind, is_refused_while_a_relay_owns_the_lane)
{
        struct reader *reader;
        struct program_run run;

        publish(admin, 1, 3);
        expect_refusal(REWIND("1"), 8, "no relay has run sink test here so far");
        reader = open_lane(100);
        reader_catch_up(reader);
        expect_refusal(REWIND("1"), 75, "a running relay owns the lane of sink test");
        expect_refusal(REWIND("1"), 75,
            "`pgcourier replay --sink test --from 1 -c FILE` works without a stop\n");
        cr_expect_eq(
            database_integer(admin, "SELECT count(*) FROM courier.cursor WHERE epoch = 1"), 1);
        close_lane(reader);
        run = program_run(NULL, "rewind", "--sink", "test", "--to", "1", "--dsn", relay_dsn, NULL);
        expect_refusal(
            run, 2, "rewind: that would let sink test deliver up to 3 events again, from");
        expect_refusal(REWIND("soon"), 2, "--to: \"soon\" is not an ID, a time");
        expect_refusal(REWIND("2026-13-01"), 2, "write it as 2026-11-21T08:00Z");
        run = REWIND("1");
        cr_expect_eq(run.code, 0, "%s", run.err);
        program_run_free(&run);
        cr_expect_eq(
            database_integer(admin, "SELECT count(*) FROM courier.cursor WHERE epoch = 2"), 1);
}

struct leg {
        struct reader *reader;
        struct writers *writers;
};

static bool has_read_some(void *context)
{
        const struct leg *leg = context;

        return leg->reader->n_deliveries >= 150 || writers_have_ended(leg->writers);
}

static void note(struct history *history, const struct reader *reader)
{
        for (size_t i = 0; i < reader->n_deliveries; i++)
                history_note(history, reader->payloads[i]);
}

Test(rewind, loses_nothing_while_writers_do_their_worst)
{
        char *app = dsn_as_user(dsn, "app");
        struct writers *writers = writers_start(
            app, &(struct writer_options){
                     .n_writers = 8, .n_transactions = 60, .pause_us = 3000, .seed = 42});
        struct history history = {0};
        struct filter_result judgement;
        struct leg leg = {.writers = writers};
        int64_t id = 0;
        char *sql;

        for (unsigned i = 0; i < 5; i++) {
                char *to;
                struct program_run run;
                leg.reader = open_lane(100);
                reader_follow(leg.reader, has_read_some, &leg);
                note(&history, leg.reader);
                close_lane(leg.reader);
                id = database_integer(admin,
                    "SELECT greatest(1, greatest(from_floor, last_id) - 20) FROM courier.cursor");
                to = xasprintf("%lld", (long long)id);
                run = REWIND(to);
                cr_assert(run.code == 0 || run.code == 8, "%s", run.err);
                program_run_free(&run);
                free(to);
        }
        writers_stop(writers);
        leg.reader = open_lane(1000);
        reader_catch_up(leg.reader);
        note(&history, leg.reader);
        judgement = history_judge(&history, writers);
        cr_expect_eq(judgement.n_lost, 0, "%s", judgement.first_fault);
        cr_expect_eq(judgement.n_uncommitted, 0, "%s", judgement.first_fault);
        cr_expect_gt(judgement.n_repeated, 0);
        sql = xasprintf("SELECT count(*) FROM courier.outbox WHERE id >= %lld", (long long)id);
        cr_expect_geq((int64_t)leg.reader->n_deliveries, database_integer(admin, sql));
        close_lane(leg.reader);
        free(sql);
        history_deinit(&history);
        writers_destroy(writers);
        free(app);
}
