/* The progress of many lanes in one statement, all of it or none. */
#include "store_rig.h"
#include "support/postgres.h"
#include "support/process.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* A lane that lane 0's lock covers. */
struct covered {
        struct lane_store *store;
        struct cursor cursor;
        bool is_owned, is_settled;
        enum cursor_room room;
};

static void on_owned(void *owner, const struct cursor *cursor, const struct parked_keys *parked)
{
        struct covered *covered = owner;

        (void)parked;
        cursor_assign(&covered->cursor, cursor);
        covered->is_owned = true;
}

static void on_settled(void *owner, enum cursor_room room)
{
        struct covered *covered = owner;

        covered->room = room;
        covered->is_settled = true;
}

static const struct lane_store_events events = {.on_owned = on_owned, .on_settled = on_settled};

static void run_until(struct store_rig *rig, const bool *done)
{
        while (!*done && !rig->is_down)
                uv_run(&rig->loop, UV_RUN_ONCE);
}

static void open_covered(
    struct store_rig *rig, struct covered *covered, const struct lane_store_settings *settings)
{
        *covered = (struct covered){0};
        covered->store = lane_store_create(rig->outbox, settings, &events, covered);
        lane_store_claim(covered->store);
        run_until(rig, &covered->is_owned);
        cr_assert(covered->is_owned);
}

struct fixture {
        char *dsn;
        PGconn *admin;
        struct store_rig *rig;
        struct covered lanes[2];
};

static struct fixture set_up(void)
{
        struct fixture fixture = {.dsn = postgres_new_database(postgres_shared())};

        fixture.admin = database_connect(fixture.dsn);
        fixture.rig = store_rig_open(fixture.dsn);
        return fixture;
}

static void open_both(struct fixture *fixture)
{
        for (int i = 0; i < 2; i++)
                open_covered(fixture->rig, &fixture->lanes[i],
                    &(struct lane_store_settings){
                        .sink = "test", .lane = i + 1, .is_covered = true});
}

static void tear_down(struct fixture *fixture)
{
        struct lane_store *stores[] = {fixture->lanes[0].store, fixture->lanes[1].store};

        store_rig_close(fixture->rig);
        for (int i = 0; i < 2; i++) {
                cursor_deinit(&fixture->lanes[i].cursor);
                lane_store_destroy(stores[i]);
        }
        PQfinish(fixture->admin);
        free(fixture->dsn);
}

static void settle_both(struct fixture *fixture)
{
        struct list no_verdicts;

        list_init(&no_verdicts);
        for (int i = 0; i < 2; i++) {
                struct settlement settlement = {.verdicts = &no_verdicts};

                fixture->lanes[i].cursor.last_id = 10 + i;
                settlement.cursor = fixture->lanes[i].cursor;
                lane_store_settle(fixture->lanes[i].store, &settlement);
        }
        outbox_flush(fixture->rig->outbox);
}

Test(settle_batch, moves_many_cursors_at_once)
{
        struct fixture fixture = set_up();

        open_both(&fixture);
        settle_both(&fixture);
        run_until(fixture.rig, &fixture.lanes[1].is_settled);
        cr_expect(fixture.lanes[0].is_settled && fixture.lanes[1].is_settled);
        cr_expect_eq(database_integer(fixture.admin,
                         "SELECT count(*) FROM courier.cursor WHERE sink = 'test' AND lane > 0"
                         " AND last_id = 9 + lane AND until_snapshot IS NULL"),
            2);
        cr_expect_eq(database_integer(fixture.admin,
                         "SELECT count(DISTINCT xmin::text) FROM courier.cursor WHERE lane > 0"),
            1, "by one transaction");
        tear_down(&fixture);
}

static void settle_both_again(struct fixture *fixture)
{
        fixture->lanes[0].is_settled = fixture->lanes[1].is_settled = false;
        settle_both(fixture);
        run_until(fixture->rig, &fixture->lanes[1].is_settled);
        cr_assert(fixture->lanes[0].is_settled && fixture->lanes[1].is_settled);
}

static int64_t n_updates(const struct fixture *fixture)
{
        return database_integer(
            fixture->admin, "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'cursor'");
}

static int64_t n_index_scans(const struct fixture *fixture)
{
        return database_integer(fixture->admin,
            "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'cursor_pkey'");
}

/* A session tells the statistics what it has done once a second, all at a time. */
static void settle_until_told(struct fixture *fixture, int64_t n)
{
        while (n_updates(fixture) < n)
                settle_both_again(fixture);
}

Test(settle_batch, goes_straight_to_the_rows_however_many_versions_they_have)
{
        struct fixture fixture = set_up();
        int64_t n_scans;

        open_both(&fixture);
        settle_until_told(&fixture, 10);
        n_scans = n_index_scans(&fixture);
        settle_until_told(&fixture, n_updates(&fixture) + 10);
        cr_expect_eq(n_index_scans(&fixture), n_scans);
        tear_down(&fixture);
}

static int64_t table_bytes(const struct fixture *fixture)
{
        return database_integer(fixture->admin, "SELECT pg_relation_size('courier.cursor')");
}

Test(settle_batch, removes_former_versions_and_needs_no_vacuum)
{
        struct fixture fixture = set_up();
        unsigned n_regained = 0;

        open_both(&fixture);
        for (int i = 0; i < 500; i++) {
                settle_both_again(&fixture);
                cr_assert_neq(fixture.lanes[0].room, ROOM_FULL);
                n_regained += fixture.lanes[0].room == ROOM_REGAINED;
        }
        cr_expect_gt(n_regained, 10);
        cr_expect_eq(table_bytes(&fixture), 8192, "one page");
        tear_down(&fixture);
}

static void settle_until(struct fixture *fixture, enum cursor_room room)
{
        for (int i = 0; i < 200 && fixture->lanes[0].room != room; i++)
                settle_both_again(fixture);
        cr_expect_eq(fixture->lanes[0].room, room);
}

Test(settle_batch, tells_that_a_snapshot_keeps_former_versions_and_when_it_is_gone)
{
        struct fixture fixture = set_up();
        PGconn *reader = database_connect(fixture.dsn);

        open_both(&fixture);
        database_exec(reader, "BEGIN ISOLATION LEVEL REPEATABLE READ");
        database_exec(reader, "SELECT FROM courier.cursor");
        settle_both_again(&fixture);
        settle_until(&fixture, ROOM_FULL);
        fixture.lanes[0].room = ROOM_UNKNOWN;
        settle_until(&fixture, ROOM_FULL);
        database_exec(reader, "COMMIT");
        settle_until(&fixture, ROOM_REGAINED);
        PQfinish(reader);
        tear_down(&fixture);
}

Test(settle_batch, finds_rows_that_another_session_has_moved)
{
        struct fixture fixture = set_up();

        open_both(&fixture);
        settle_both_again(&fixture);
        database_exec(fixture.admin, "VACUUM FULL courier.cursor");
        settle_both_again(&fixture);
        settle_both_again(&fixture);
        tear_down(&fixture);
}

Test(settle_batch, breaks_the_session_when_one_of_the_lanes_was_taken)
{
        struct fixture fixture = set_up();

        open_both(&fixture);
        database_exec(fixture.admin, "UPDATE courier.cursor SET epoch = epoch + 1 WHERE lane = 2");
        settle_both(&fixture);
        run_until(fixture.rig, &fixture.lanes[1].is_settled);
        cr_expect(!fixture.lanes[0].is_settled && !fixture.lanes[1].is_settled);
        cr_expect(strstr(fixture.rig->lost.text, "taken by another relay") != NULL);
        tear_down(&fixture);
}

Test(settle_batch, begins_a_lane_at_its_snapshot_and_not_before)
{
        struct fixture fixture = set_up();
        char *snapshot;

        database_exec(fixture.admin, "SELECT courier.publish('t', '1')");
        snapshot = database_value(fixture.admin, "SELECT pg_current_snapshot()");
        database_exec(fixture.admin, "SELECT courier.publish('t', '2')");
        open_covered(fixture.rig, &fixture.lanes[0],
            &(struct lane_store_settings){.sink = "test",
                .lane = 1,
                .is_covered = true,
                .start_snapshot = snapshot,
                .start_floor = 1});
        open_covered(fixture.rig, &fixture.lanes[1],
            &(struct lane_store_settings){.sink = "test", .lane = 2, .is_covered = true});
        cr_expect_str_eq(fixture.lanes[0].cursor.from->snapshot, snapshot);
        cr_expect_eq(fixture.lanes[0].cursor.from->floor, 1);
        cr_expect_gt(fixture.lanes[0].cursor.from->xid,
            (uint64_t)database_integer(fixture.admin, "SELECT max(txid::text::bigint)"
                                                      " FROM courier.outbox"),
            "the transaction id is drawn after both");
        tear_down(&fixture);
        free(snapshot);
}
