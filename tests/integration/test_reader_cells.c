/*
 * Where the ids of one page end: at the end of a cell (src/outbox/page_text.h), which may lie in a
 * partition, at its end, or in the default partition; with transactions that began long ago, and a
 * moment ago.
 */
#include "support/postgres.h"
#include "support/reader.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CELL = 262144 };

static struct test_database fixture;
static PGconn *fast, *old, *slow;
static struct reader *reader;

static void begin(void)
{
        fixture = test_database_make();
        fast = database_connect(fixture.app);
        old = database_connect(fixture.app);
        slow = database_connect(fixture.app);
        reader = reader_open(fixture.relay, &(struct reader_options){.start = START_BEGINNING});
}

static void end(void)
{
        reader_close(reader);
        PQfinish(fast);
        PQfinish(old);
        PQfinish(slow);
        test_database_drop(&fixture);
}

TestSuite(reader_cells, .init = begin, .fini = end);

static void publish(PGconn *connection, int n)
{
        for (int i = 0; i < n; i++)
                database_exec(connection, "SELECT courier.publish('t', '1')");
}

static void go_to(int64_t last_id)
{
        char sql[96];

        snprintf(sql, sizeof sql, "SELECT setval('courier.outbox_id_seq', %" PRId64 ")", last_id);
        database_exec(fixture.admin, sql);
}

/* So many ids from `first` on, in this order, came since `at`. */
static void expect_ids(size_t at, int64_t first, size_t n)
{
        cr_assert_leq(at + n, reader->n_deliveries, "%zu came, the first should be %" PRId64,
            reader->n_deliveries - at, first);
        for (size_t i = 0; i < n; i++)
                cr_assert_eq(reader->ids[at + i], first + (int64_t)i,
                    "%" PRId64 " in place of %" PRId64, reader->ids[at + i], first + (int64_t)i);
}

/* The mark is in the cell before, and no id is drawn any more. */
Test(reader_cells, find_a_straggler_behind_the_end_of_a_cell_that_looks_begin_in)
{
        go_to(CELL - 8);
        publish(fast, 4);
        reader_catch_up(reader);
        publish(fast, 6); /* CELL - 3 to CELL + 2 */
        database_exec(slow, "BEGIN");
        publish(slow, 2); /* CELL + 3, CELL + 4 */
        publish(fast, 4);
        reader_catch_up(reader);
        reader_catch_up(reader);
        cr_assert_eq(reader->n_deliveries, 14);
        expect_ids(10, CELL + 5, 4);

        database_exec(slow, "COMMIT");
        reader_catch_up(reader);
        cr_assert_eq(reader->n_deliveries, 16);
        expect_ids(14, CELL + 3, 2);
}

/* What was delivered around the place `last`, which the ids pass. */
static void cross(int64_t last)
{
        size_t at = reader->n_deliveries;

        go_to(last - 10);
        publish(old, 1);  /* last - 9 */
        publish(fast, 3); /* to last - 6 */
        reader_catch_up(reader);
        expect_ids(at, last - 8, 3);
        publish(fast, 1); /* last - 5 */
        reader_catch_up(reader);
        database_exec(slow, "BEGIN");
        publish(slow, 2); /* last - 4, last - 3 */
        publish(fast, 2); /* last - 2, last - 1 */
        reader_catch_up(reader);
        publish(slow, 2); /* last, last + 1 */
        publish(fast, 2); /* last + 2, last + 3 */
        reader_catch_up(reader);
        publish(old, 1);  /* last + 4 */
        publish(slow, 1); /* last + 5 */
        publish(fast, 1); /* last + 6 */
        reader_catch_up(reader);
        cr_assert_eq(reader->n_deliveries, at + 9);
        expect_ids(at + 3, last - 5, 1);
        expect_ids(at + 4, last - 2, 2);
        expect_ids(at + 6, last + 2, 2);
        expect_ids(at + 8, last + 6, 1);

        database_exec(slow, "COMMIT");
        reader_catch_up(reader);
        cr_assert_eq(reader->n_deliveries, at + 14);
        expect_ids(at + 9, last - 4, 2);
        expect_ids(at + 11, last, 2);
        expect_ids(at + 13, last + 5, 1);
}

/* The last two are where the default partition begins, and within it. */
static const int64_t places[] = {CELL, CELL * 2, 1000000, 5000000, CELL *(int64_t)20};

enum { N_PLACES = sizeof places / sizeof *places };

static void expect_old(size_t at)
{
        cr_assert_eq(reader->n_deliveries, at + (size_t)2 * N_PLACES);
        for (size_t i = 0; i < N_PLACES; i++) {
                expect_ids(at + 2 * i, places[i] - 9, 1);
                expect_ids(at + 2 * i + 1, places[i] + 4, 1);
        }
}

Test(reader_cells, miss_nothing_of_old_and_new_transactions_across_cells_and_partitions)
{
        size_t at;

        database_exec(old, "BEGIN");
        for (size_t i = 0; i < N_PLACES; i++)
                cross(places[i]);
        at = reader->n_deliveries;
        database_exec(old, "COMMIT");
        reader_catch_up(reader);
        expect_old(at);
}

/* All of it in the order of ids, if both become visible at once; and a session that begins knows no
 * mark. */
Test(reader_cells, merge_old_and_near_stragglers_and_new_rows)
{
        for (int is_new_session = 0; is_new_session < 2; is_new_session++) {
                int64_t last = CELL * (int64_t)(is_new_session + 1);
                size_t at;

                database_exec(old, "BEGIN");
                go_to(last - 3000);
                publish(old, 2); /* - 2999, - 2998 */
                go_to(last - 10);
                publish(fast, 1);
                reader_catch_up(reader);
                publish(fast, 1);
                reader_catch_up(reader);
                database_exec(slow, "BEGIN");
                publish(slow, 2); /* - 7, - 6 */
                publish(old, 1);  /* - 5 */
                publish(fast, 4); /* to - 1 */
                reader_catch_up(reader);
                at = reader->n_deliveries;
                publish(slow, 2); /* the last, + 1 */
                publish(old, 1);  /* + 2 */
                database_exec(slow, "COMMIT");
                database_exec(old, "COMMIT");
                publish(fast, 2); /* + 3, + 4 */
                if (is_new_session) {
                        reader_close(reader);
                        reader = reader_open(
                            fixture.relay, &(struct reader_options){.start = START_BEGINNING});
                        at = 0;
                }
                reader_catch_up(reader);
                cr_assert_eq(reader->n_deliveries, at + 10);
                expect_ids(at, last - 2999, 2);
                expect_ids(at + 2, last - 7, 3);
                expect_ids(at + 5, last, 5);
        }
}

/* Statements that were prepared before a partition is made or dropped. */
Test(reader_cells, follow_partitions_that_come_and_go)
{
        go_to(CELL - 4);
        publish(fast, 2);
        reader_catch_up(reader);
        database_exec(fixture.admin,
            "BEGIN; ALTER TABLE courier.outbox DETACH PARTITION courier.outbox_p1;"
            " TRUNCATE courier.outbox_p1; COMMIT");
        publish(fast, 4); /* the default partition takes them: CELL - 1 to CELL + 2 */
        reader_catch_up(reader);
        database_exec(fixture.admin,
            "BEGIN; LOCK TABLE courier.outbox; INSERT INTO courier.outbox_p1"
            " OVERRIDING SYSTEM VALUE SELECT * FROM courier.outbox_default; DELETE FROM "
            "courier.outbox_default;"
            " ALTER TABLE courier.outbox ATTACH PARTITION courier.outbox_p1"
            "  FOR VALUES FROM (1) TO (1000001); COMMIT");
        publish(fast, 2);
        reader_catch_up(reader);
        cr_assert_eq(reader->n_deliveries, 8);
        expect_ids(0, CELL - 3, 8);
}
