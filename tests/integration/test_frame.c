/* The frame that a look brings: what its transaction id is, and that the look draws none. */
#include "store_rig.h"
#include "support/postgres.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
        char *dsn;
        PGconn *admin;
        PGconn *writer;
        struct store_rig *rig;
};

static struct fixture set_up(void)
{
        struct fixture fixture = {.dsn = postgres_new_database(postgres_shared())};
        char *app = dsn_as_user(fixture.dsn, "app");

        fixture.admin = database_connect(fixture.dsn);
        fixture.writer = database_connect(app);
        fixture.rig = store_rig_open(fixture.dsn);
        free(app);
        return fixture;
}

static void tear_down(struct fixture *fixture)
{
        store_rig_close(fixture->rig);
        PQfinish(fixture->admin);
        PQfinish(fixture->writer);
        free(fixture->dsn);
}

static int64_t draw_xid(PGconn *connection)
{
        return database_integer(connection, "SELECT pg_current_xact_id()::text::bigint");
}

/* The server is the test's alone, but autovacuum may draw one as well. */
Test(frame, names_the_next_transaction_id_and_draws_none)
{
        struct fixture fixture = set_up();
        bool is_alone = false;

        database_exec(fixture.admin, "SELECT courier.publish('t', '1')");
        for (int i = 0; i < 10 && !is_alone; i++) {
                int64_t before = draw_xid(fixture.admin);
                const struct page *page = store_rig_read_page(fixture.rig);
                int64_t xid = (int64_t)page->start.until->xid;
                int64_t after = draw_xid(fixture.admin);

                cr_assert_eq(page->n_events, 1);
                cr_assert(before < xid && xid <= after, "%lld, %lld, %lld", (long long)before,
                    (long long)xid, (long long)after);
                is_alone = after == before + 1;
        }
        cr_expect(is_alone, "a look draws a transaction id");
        tear_down(&fixture);
}

static int64_t xmax_of(const struct frame *frame)
{
        return strtoll(strchr(frame->snapshot, ':') + 1, NULL, 10);
}

/* Its id of the outbox is not above the frame's floor, and its transaction id not below the
 * snapshot's xmax, unless another one ends meanwhile: only the frame's xid says that it is a
 * straggler. */
Test(frame, stands_above_a_writer_that_its_snapshot_does_not_know)
{
        struct fixture fixture = set_up();
        const struct frame *frame = NULL;
        int64_t xid = 0;

        for (int i = 0; i < 20 && (frame == NULL || xmax_of(frame) > xid); i++) {
                database_exec(fixture.writer, "ROLLBACK");
                database_exec(fixture.writer, "BEGIN; SELECT courier.publish('t', '1')");
                xid = database_integer(
                    fixture.writer, "SELECT pg_current_xact_id_if_assigned()::text::bigint");
                frame = store_rig_read_page(fixture.rig)->start.until;
        }
        cr_assert_leq(xmax_of(frame), xid);
        cr_expect_gt((int64_t)frame->xid, xid);
        cr_expect(stragglers_are_any(frame));
        database_exec(fixture.writer, "COMMIT");
        cr_expect_eq(store_rig_read_page(fixture.rig)->n_events, 1);
        tear_down(&fixture);
}
