/*
 * The snapshot cursor against a real server: what the whole program rests on. Each of the
 * protocol's traps has a test that sets it up exactly; then 16 writers do their worst for a while.
 */
#include "base/alloc.h"
#include "support/history.h"
#include "support/postgres.h"
#include "support/reader.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct reader_options from_the_beginning = {.start = START_BEGINNING};

static void publish(PGconn *connection, const char *payload)
{
        char sql[256];

        snprintf(sql, sizeof sql, "SELECT courier.publish('test.topic', '\"%s\"')", payload);
        database_exec(connection, sql);
}

/* The payloads delivered since `first`, quotes left out, separated by blanks. */
static const char *deliveries(const struct reader *reader, size_t first)
{
        static char text[4096];
        size_t length = 0;

        text[0] = '\0';
        for (size_t i = first; i < reader->n_deliveries; i++)
                length += (size_t)snprintf(text + length, sizeof text - length, "%s%.*s",
                    i > first ? " " : "", (int)strlen(reader->payloads[i]) - 2,
                    reader->payloads[i] + 1);
        return text;
}

Test(reader, reads_what_was_committed_before_it_began)
{
        struct test_database fixture = test_database_make();
        PGconn *app = database_connect(fixture.app);
        struct reader *reader;

        publish(app, "a");
        publish(app, "b");
        database_exec(app, "BEGIN");
        publish(app, "never");
        database_exec(app, "ROLLBACK");
        publish(app, "c");
        reader = reader_open(fixture.relay, &from_the_beginning);
        reader_catch_up(reader);

        cr_expect_str_eq(deliveries(reader, 0), "a b c");
        reader_close(reader);
        PQfinish(app);
        test_database_drop(&fixture);
}

Test(reader, starts_at_now_when_told_so)
{
        struct test_database fixture = test_database_make();
        PGconn *app = database_connect(fixture.app);
        PGconn *late = database_connect(fixture.app);
        struct reader *reader;

        publish(app, "before");
        database_exec(late, "BEGIN");
        publish(late, "committed-after");
        reader = reader_open(fixture.relay, &(struct reader_options){.start = START_NOW});
        database_exec(late, "COMMIT");
        publish(app, "after");
        reader_catch_up(reader);

        cr_expect_str_eq(deliveries(reader, 0), "committed-after after");
        reader_close(reader);
        PQfinish(app);
        PQfinish(late);
        test_database_drop(&fixture);
}

static void begin_row(const struct test_database *fixture)
{
        database_exec(fixture->admin, "CREATE TABLE public.account AS SELECT 1 AS balance;"
                                      "GRANT ALL ON public.account TO app");
}

/* The update of `second` waits for `first`, which commits meanwhile. */
static void update_and_commit(const struct test_database *fixture, PGconn *first, PGconn *second)
{
        PGresult *result;

        cr_assert(PQsendQuery(second, "UPDATE public.account SET balance = 2"));
        while (database_integer(
                   fixture->admin, "SELECT count(*) FROM pg_locks WHERE NOT granted") == 0)
                continue;
        database_exec(first, "COMMIT");
        while ((result = PQgetResult(second)) != NULL) {
                cr_assert_eq(PQresultStatus(result), PGRES_COMMAND_OK);
                PQclear(result);
        }
}

Test(reader, delivers_later_what_is_published_after_waiting)
{
        struct test_database fixture = test_database_make();
        PGconn *first = database_connect(fixture.app);
        PGconn *second = database_connect(fixture.app);
        struct reader *reader = reader_open(fixture.relay, &from_the_beginning);

        begin_row(&fixture);
        database_exec(second, "BEGIN; SELECT pg_current_xact_id()"); /* its id is the smaller one */
        database_exec(first, "BEGIN; UPDATE public.account SET balance = 1");
        publish(first, "first");
        update_and_commit(&fixture, first, second);
        publish(second, "second");
        database_exec(second, "COMMIT");
        reader_catch_up(reader);
        cr_expect_str_eq(deliveries(reader, 0), "first second");
        reader_close(reader);
        PQfinish(first);
        PQfinish(second);
        test_database_drop(&fixture);
}

/* Hence the advice to publish last: what became visible together comes in the order of ids. */
Test(reader, does_not_reorder_what_was_published_before_waiting)
{
        struct test_database fixture = test_database_make();
        PGconn *first = database_connect(fixture.app);
        PGconn *second = database_connect(fixture.app);
        struct reader *reader = reader_open(fixture.relay, &from_the_beginning);

        begin_row(&fixture);
        database_exec(second, "BEGIN");
        publish(second, "second");
        database_exec(first, "BEGIN; UPDATE public.account SET balance = 1");
        publish(first, "first");
        update_and_commit(&fixture, first, second);
        database_exec(second, "COMMIT");
        reader_catch_up(reader);
        cr_expect_str_eq(deliveries(reader, 0), "second first");
        reader_close(reader);
        PQfinish(first);
        PQfinish(second);
        test_database_drop(&fixture);
}

Test(reader, delivers_a_late_commit_of_a_smaller_id)
{
        struct test_database fixture = test_database_make();
        PGconn *slow = database_connect(fixture.app);
        PGconn *fast = database_connect(fixture.app);
        struct reader *reader = reader_open(fixture.relay, &from_the_beginning);

        database_exec(slow, "BEGIN");
        publish(slow, "slow");
        publish(fast, "fast");
        reader_catch_up(reader);
        cr_expect_str_eq(deliveries(reader, 0), "fast");
        database_exec(slow, "COMMIT");
        reader_catch_up(reader);

        cr_expect_str_eq(deliveries(reader, 1), "slow");
        reader_close(reader);
        PQfinish(slow);
        PQfinish(fast);
        test_database_drop(&fixture);
}

/* A snapshot's xmax is the last completed transaction plus one: a transaction at or above it is
 * running and not in its list, and may have drawn its ids below the floor. */
Test(reader, delivers_a_transaction_that_the_snapshots_xmax_hid)
{
        struct test_database fixture = test_database_make();
        PGconn *hidden = database_connect(fixture.app);
        PGconn *observer = database_connect(fixture.dsn);
        struct reader *reader = reader_open(fixture.relay, &from_the_beginning);
        char *is_hidden;

        publish(hidden, "first");
        reader_catch_up(reader); /* from here on nothing else completes */
        database_exec(hidden, "BEGIN");
        publish(hidden, "hidden");
        is_hidden = database_value(observer,
            "SELECT max(backend_xid::text::bigint) >= "
            "pg_snapshot_xmax(pg_current_snapshot())::text::bigint FROM pg_stat_activity");
        cr_assert_str_eq(is_hidden, "t"); /* or this test proves nothing */
        reader_catch_up(reader);          /* its floor is above the hidden id */
        database_exec(hidden, "COMMIT");
        reader_catch_up(reader);

        cr_expect_str_eq(deliveries(reader, 0), "first hidden");
        free(is_hidden);
        reader_close(reader);
        PQfinish(hidden);
        PQfinish(observer);
        test_database_drop(&fixture);
}

/* B gets its transaction id first, waits for A, and writes what it saw: it was caused by A, and the
 * smaller transaction id must not put it before A. */
Test(reader, delivers_a_cause_before_its_effect)
{
        struct test_database fixture = test_database_make();
        PGconn *a = database_connect(fixture.app);
        PGconn *b = database_connect(fixture.app);
        struct reader *reader;

        database_exec(b, "BEGIN; SELECT pg_current_xact_id()");
        database_exec(a, "BEGIN");
        publish(a, "cause");
        database_exec(a, "COMMIT");
        publish(b, "effect");
        database_exec(b, "COMMIT");
        reader = reader_open(fixture.relay, &from_the_beginning);
        reader_catch_up(reader);

        cr_expect_str_eq(deliveries(reader, 0), "cause effect");
        reader_close(reader);
        PQfinish(a);
        PQfinish(b);
        test_database_drop(&fixture);
}

Test(reader, merges_stragglers_and_new_rows_in_the_order_of_ids)
{
        struct test_database fixture = test_database_make();
        PGconn *in_list = database_connect(fixture.app);
        PGconn *other = database_connect(fixture.app);
        struct reader *reader = reader_open(
            fixture.relay, &(struct reader_options){.start = START_BEGINNING, .max_in_flight = 2});

        database_exec(in_list, "BEGIN");
        publish(in_list, "1");
        publish(other, "2");
        reader_catch_up(reader);
        publish(other, "3");
        publish(in_list, "4");
        publish(other, "5");
        publish(in_list, "6");
        database_exec(in_list, "COMMIT");
        publish(other, "7");
        reader_catch_up(reader);

        cr_expect_str_eq(deliveries(reader, 0), "2 1 3 4 5 6 7");
        cr_expect(reader->largest_page == 1);
        reader_close(reader);
        PQfinish(in_list);
        PQfinish(other);
        test_database_drop(&fixture);
}

Test(reader, pages_through_a_bulk_insert_that_committed_late)
{
        struct test_database fixture = test_database_make();
        PGconn *bulk = database_connect(fixture.app);
        PGconn *other = database_connect(fixture.app);
        struct reader *reader = reader_open(fixture.relay,
            &(struct reader_options){.start = START_BEGINNING, .max_in_flight = 100});

        database_exec(bulk, "BEGIN");
        database_exec(bulk, "SELECT count(courier.publish('test.bulk', to_json(i))) "
                            "FROM generate_series(1, 5000) AS i");
        publish(other, "other");
        reader_catch_up(reader);
        cr_assert(reader->n_deliveries == 1);
        database_exec(bulk, "COMMIT");
        reader_catch_up(reader);

        cr_assert(reader->n_deliveries == 5001);
        for (int i = 1; i <= 5000; i++)
                cr_assert(atoi(reader->payloads[i]) == i);
        reader_close(reader);
        PQfinish(bulk);
        PQfinish(other);
        test_database_drop(&fixture);
}

/* Each of these transactions has begun after the last that completed, and they are more than a page
 * names: it looks at all rows from the oldest one on, which are more than it looks at anyway. */
Test(reader, finds_more_stragglers_than_a_page_names)
{
        struct test_database fixture = test_database_make();
        PGconn *other = database_connect(fixture.app);
        PGconn *late[80];
        size_t n_late = sizeof late / sizeof *late;
        struct reader *reader = reader_open(fixture.relay,
            &(struct reader_options){.start = START_BEGINNING, .max_in_flight = 100});

        for (size_t i = 0; i < n_late; i++) {
                late[i] = database_connect(fixture.app);
                database_exec(late[i], "BEGIN");
        }
        publish(other, "before");
        reader_catch_up(reader);
        for (size_t i = 0; i < n_late; i++)
                database_exec(late[i], "SELECT count(courier.publish('test.late', to_json(i))) "
                                       "FROM generate_series(1, 20) AS i");
        reader_catch_up(reader);
        cr_expect_str_eq(deliveries(reader, 0), "before");
        for (size_t i = 0; i < n_late; i++) {
                database_exec(late[i], "COMMIT");
                PQfinish(late[i]);
        }
        reader_catch_up(reader);
        cr_expect_eq(reader->n_deliveries, 1 + 20 * n_late, "%zu deliveries", reader->n_deliveries);
        reader_close(reader);
        PQfinish(other);
        test_database_drop(&fixture);
}

/* Half of it was written when the reader last looked. */
Test(reader, looks_once_at_each_row_of_a_long_transaction)
{
        static const char half[] = "SELECT count(courier.publish('test.bulk', to_json(i))) "
                                   "FROM generate_series(1, 10000) AS i";
        struct test_database fixture = test_database_make();
        PGconn *bulk = database_connect(fixture.app);
        struct reader *reader = reader_open(fixture.relay,
            &(struct reader_options){.start = START_BEGINNING, .max_in_flight = 200});
        int64_t n_looked_at;

        database_exec(bulk, "BEGIN");
        database_exec(bulk, half);
        publish(fixture.admin, "other");
        reader_catch_up(reader);
        database_exec(bulk, half);
        database_exec(bulk, "COMMIT");
        reader_catch_up(reader);
        cr_assert_eq(reader->n_deliveries, 20001);
        reader_close(reader);
        database_await_no_relay(fixture.admin);
        n_looked_at = database_integer(fixture.admin,
            "SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_user_tables"
            " WHERE relname LIKE 'outbox%'");

        cr_expect_lt(n_looked_at, 60000, "it has looked at %lld rows", (long long)n_looked_at);
        PQfinish(bulk);
        test_database_drop(&fixture);
}

Test(reader, resumes_in_the_middle_of_a_difference)
{
        struct test_database fixture = test_database_make();
        struct reader_options options = {.start = START_BEGINNING, .max_in_flight = 10};
        struct reader *reader;
        size_t n_before;
        int64_t settled;

        database_exec(fixture.admin, "SELECT count(courier.publish('test.topic', to_json(i))) "
                                     "FROM generate_series(1, 1000) AS i");
        reader = reader_open(fixture.relay, &options);
        while (reader->n_deliveries < 300)
                uv_run(&reader->loop, UV_RUN_ONCE);
        n_before = reader->n_deliveries;
        reader_close(reader); /* as a crash would */
        /* What it had sent is still done: a settle that was under way counts. */
        database_await_no_relay(fixture.admin);
        settled = database_integer(
            fixture.admin, "SELECT last_id FROM courier.cursor WHERE until_snapshot IS NOT NULL");
        cr_assert(settled > 0 && (size_t)settled <= n_before);
        cr_assert(n_before - (size_t)settled <= 10, "more than the window would be repeated");
        reader = reader_open(fixture.relay, &options);
        reader_catch_up(reader);

        cr_expect(reader->n_deliveries == 1000 - (size_t)settled);
        cr_expect(reader->ids[0] == settled + 1);
        reader_close(reader);
        test_database_drop(&fixture);
}

Test(reader, reads_nothing_again_after_everything_is_settled)
{
        struct test_database fixture = test_database_make();
        PGconn *app = database_connect(fixture.app);
        struct reader *reader = reader_open(fixture.relay, &from_the_beginning);

        publish(app, "once");
        reader_catch_up(reader);
        cr_assert(reader->n_deliveries == 1);
        reader_close(reader);
        reader = reader_open(fixture.relay, &from_the_beginning);
        reader_catch_up(reader);

        cr_expect(reader->n_deliveries == 0);
        reader_close(reader);
        PQfinish(app);
        test_database_drop(&fixture);
}

Test(reader, lets_only_its_topics_through)
{
        struct test_database fixture = test_database_make();
        char orders[] = "orders.*";
        char odd[] = "odd_%\\\"topic";
        char *const topics[] = {orders, odd};
        PGconn *app = database_connect(fixture.app);
        struct reader *reader;

        database_exec(app, "SELECT courier.publish('orders.created', '\"1\"')");
        database_exec(app, "SELECT courier.publish('refunds.created', '\"2\"')");
        database_exec(app, "SELECT courier.publish('orders', '\"3\"')");
        database_exec(app, "SELECT courier.publish('odd_%\\\"topic', '\"4\"')");
        database_exec(app, "SELECT courier.publish('oddxx\\\"topic', '\"5\"')");
        reader = reader_open(fixture.relay, &(struct reader_options){.start = START_BEGINNING,
                                                .routing = {.topics = topics, .n_topics = 2}});
        reader_catch_up(reader);

        cr_expect_str_eq(deliveries(reader, 0), "1 4");
        reader_close(reader);
        PQfinish(app);
        test_database_drop(&fixture);
}

Test(reader, passes_over_many_events_of_other_topics)
{
        struct test_database fixture = test_database_make();
        char rare[] = "rare";
        char *const topics[] = {rare};
        struct reader *reader;

        database_exec(fixture.admin,
            "INSERT INTO courier.outbox (topic, payload) SELECT 'common', '0' "
            "FROM generate_series(1, 120000)");
        database_exec(fixture.admin, "SELECT courier.publish('rare', '\"found\"')");
        reader = reader_open(fixture.relay, &(struct reader_options){.start = START_BEGINNING,
                                                .routing = {.topics = topics, .n_topics = 1}});
        reader_catch_up(reader);

        cr_expect_str_eq(deliveries(reader, 0), "found");
        cr_expect(reader->n_pages >= 3, "one statement must not scan without a bound");
        reader_close(reader);
        test_database_drop(&fixture);
}

Test(reader, bounds_a_page_in_bytes)
{
        struct test_database fixture = test_database_make();
        struct reader *reader;

        /* Small ones first, so that the guess is wrong; compressible, so that the stored size
         * is. */
        database_exec(fixture.admin, "SELECT count(courier.publish('t', to_json(i))) "
                                     "FROM generate_series(1, 100) AS i");
        database_exec(fixture.admin,
            "SELECT count(courier.publish('t', to_json(repeat('x', 300000)))) "
            "FROM generate_series(1, 20)");
        database_exec(fixture.admin, "SELECT count(courier.publish('t', data => "
                                     "decode(repeat('00', 300000), 'hex'))) "
                                     "FROM generate_series(1, 20)");
        reader = reader_open(fixture.relay,
            &(struct reader_options){.start = START_BEGINNING, .max_in_flight_bytes = 1 << 20});
        reader_catch_up(reader);

        cr_expect(reader->n_deliveries == 140);
        for (size_t i = 1; i < reader->n_deliveries; i++)
                cr_assert(reader->ids[i] == reader->ids[i - 1] + 1);
        cr_expect(reader->n_pages >= 40, "twenty large events came on one page");
        reader_close(reader);
        test_database_drop(&fixture);
}

Test(reader, draws_no_transaction_id_while_nothing_happens)
{
        struct test_database fixture = test_database_make();
        struct reader *reader = reader_open(fixture.relay, &from_the_beginning);
        size_t n_pages;
        char *before;
        char *after;

        reader_catch_up(reader);
        before =
            database_value(fixture.admin, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text");
        n_pages = reader->n_pages;
        while (reader->n_pages < n_pages + 20)
                reader_catch_up(reader);
        after =
            database_value(fixture.admin, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text");

        cr_expect_str_eq(before, after);
        free(before);
        free(after);
        reader_close(reader);
        test_database_drop(&fixture);
}

Test(reader, owns_a_lane_alone)
{
        struct test_database fixture = test_database_make();
        struct reader *owner = reader_open(fixture.relay, &from_the_beginning);
        struct reader *second = reader_open(fixture.relay, &from_the_beginning);
        struct reader *other_sink = reader_open(
            fixture.relay, &(struct reader_options){.start = START_BEGINNING, .sink = "other"});

        cr_expect(owner->is_owned && !owner->is_elsewhere);
        cr_expect(!second->is_owned && second->is_elsewhere);
        cr_expect(other_sink->is_owned);
        reader_close(owner);
        reader_close(second);
        second = reader_open(fixture.relay, &from_the_beginning);
        cr_expect(second->is_owned);
        reader_close(second);
        reader_close(other_sink);
        test_database_drop(&fixture);
}

Test(reader, cannot_settle_a_lane_that_was_taken)
{
        struct test_database fixture = test_database_make();
        PGconn *app = database_connect(fixture.app);
        struct reader *reader = reader_open(fixture.relay, &from_the_beginning);
        char *before;
        char *after;

        database_exec(fixture.admin, "UPDATE courier.cursor SET epoch = epoch + 1");
        before = database_value(fixture.admin, "SELECT cursor::text FROM courier.cursor");
        publish(app, "a");
        while (!reader->is_down) {
                lane_ring(&reader->lane);
                uv_run(&reader->loop, UV_RUN_ONCE);
        }
        after = database_value(fixture.admin, "SELECT cursor::text FROM courier.cursor");

        cr_expect_str_eq(before, after);
        free(before);
        free(after);
        reader_close(reader);
        PQfinish(app);
        test_database_drop(&fixture);
}

Test(reader, refuses_a_cursor_of_another_cluster)
{
        struct test_database fixture = test_database_make();
        struct reader *reader = reader_open(fixture.relay, &from_the_beginning);

        reader_close(reader);
        database_exec(
            fixture.admin, "UPDATE courier.cursor SET system_identifier = system_identifier + 1");
        reader = reader_open(fixture.relay, &from_the_beginning);

        cr_expect(reader->refused.kind == ERROR_SCHEMA);
        cr_expect(strstr(reader->refused.text, "pgcourier rebase") != NULL);
        reader_close(reader);
        test_database_drop(&fixture);
}

/* ---- the floor ---------------------------------------------------------------------------- */

struct drawing {
        const char *dsn;
        atomic_bool *stop;
};

static void *draw_ids(void *context)
{
        const struct drawing *drawing = context;
        PGconn *connection = database_connect(drawing->dsn);

        while (!atomic_load(drawing->stop))
                database_exec(connection, "SELECT count(nextval('courier.outbox_id_seq')) "
                                          "FROM generate_series(1, 2000)");
        PQfinish(connection);
        return NULL;
}

/* nextval() changes the sequence's tuple in place, and for a moment what a plain SELECT would
 * see is up to 32 ahead of any id drawn. A floor that is too high loses events. */
Test(reader, never_reads_a_floor_above_what_was_drawn)
{
        struct test_database fixture = test_database_make();
        struct reader *reader = reader_open(fixture.relay, &from_the_beginning);
        atomic_bool stop = false;
        struct drawing drawing = {.dsn = fixture.dsn, .stop = &stop};
        pthread_t thread;
        int n_too_high = 0;

        publish(fixture.admin, "the first id");
        reader_catch_up(reader);
        pthread_create(&thread, NULL, draw_ids, &drawing);
        for (int n = 0; n < 4000; n++) {
                size_t n_pages = reader->n_pages;
                int64_t drawn;

                lane_ring(&reader->lane);
                while (reader->n_pages == n_pages)
                        uv_run(&reader->loop, UV_RUN_ONCE);
                drawn = database_integer(
                    fixture.admin, "SELECT pg_sequence_last_value('courier.outbox_id_seq')");
                if (reader->lane.stream.next_page.from->floor > drawn)
                        n_too_high++;
        }
        atomic_store(&stop, true);
        pthread_join(thread, NULL);

        cr_expect(n_too_high == 0);
        reader_close(reader);
        test_database_drop(&fixture);
}

/* ---- sixteen writers ---------------------------------------------------------------------- */

static void check_history(const struct writers *writers, const struct reader *reader)
{
        struct history history = {0};
        struct filter_result verdict;

        for (size_t i = 0; i < reader->n_deliveries; i++)
                history_note(&history, reader->payloads[i]);
        verdict = history_judge(&history, writers);
        cr_expect_eq(verdict.n_lost, 0, "%zu were lost", verdict.n_lost);
        cr_expect_eq(verdict.n_repeated, 0, "%zu came twice", verdict.n_repeated);
        cr_expect_eq(verdict.n_misordered, 0, "%zu out of order", verdict.n_misordered);
        cr_expect_eq(verdict.n_uncommitted, 0, "%zu were never committed", verdict.n_uncommitted);
        cr_expect_str_empty(verdict.first_fault);
        history_deinit(&history);
}

static void read_what_sixteen_writers_write(uint32_t max_in_flight)
{
        struct test_database fixture = test_database_make();
        struct writers *writers;
        struct reader *reader = reader_open(fixture.relay,
            &(struct reader_options){.start = START_BEGINNING, .max_in_flight = max_in_flight});

        writers = writers_start(
            fixture.app, &(struct writer_options){
                             .n_writers = 16, .n_transactions = 200, .seed = max_in_flight});
        reader_follow(reader, writers_have_ended, writers);
        writers_stop(writers);
        reader_catch_up(reader);

        cr_expect(reader->n_pages > 100, "the reader was not busy while they wrote");
        check_history(writers, reader);
        writers_destroy(writers);
        reader_close(reader);
        test_database_drop(&fixture);
}

Test(reader, misses_nothing_of_sixteen_writers_in_small_pages)
{
        read_what_sixteen_writers_write(40);
}

Test(reader, misses_nothing_of_sixteen_writers_in_large_pages)
{
        read_what_sixteen_writers_write(2000);
}
