/*
 * What a session sees of the relays that share sinks, and that it takes no shard which a division
 * has removed: the real statements in the test's process, with divisions at their worst moment.
 */
#include "base/alloc.h"
#include "members/view.h"
#include "outbox/outbox.h"
#include "support/postgres_expect.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

static struct test_database database;
static PGconn *admin;
static uv_loop_t loop;
static struct postgres_config config;
static struct outbox *outbox;
static struct lane_store *store; /* shard 0 of two */

static bool is_up, is_owned, is_gone;
static char seen[400]; /* the last view, in words; "as before" */

static void on_up(void *owner)
{
        (void)owner;
        is_up = true;
}

static void on_down(void *owner, const struct error *error, int64_t retry_ms)
{
        (void)owner;
        (void)retry_ms;
        test_abort("the session is lost: %s", error->text);
}

static void on_refused(void *owner, const struct error *error)
{
        (void)owner;
        test_abort("the session is refused: %s", error->text);
}

static const char *owner_name(const struct view *view, size_t shard)
{
        if (view->owners[shard] == NOBODY)
                return "nobody";
        return view->owners[shard] == STRANGER ? "a stranger"
                                               : view->members[view->owners[shard]].name;
}

static void on_members(void *owner, const struct view *view)
{
        int length = 0;

        (void)owner;
        if (view == NULL) {
                snprintf(seen, sizeof seen, "as before");
                return;
        }
        for (size_t i = 0; i < view->n_members; i++)
                length += snprintf(seen + length, sizeof seen - (size_t)length, "%s%s%s, ",
                    view->members[i].name, view->serves[i] ? " serves" : "",
                    view->members[i].is_draining ? " drains" : "");
        for (size_t i = 0; i < view->n_shards; i++)
                length += snprintf(seen + length, sizeof seen - (size_t)length, "%s%s",
                    i > 0 ? "/" : "", owner_name(view, i));
}

static void on_owned(void *owner, const struct cursor *cursor, const struct parked_keys *parked)
{
        (void)owner;
        (void)cursor;
        (void)parked;
        is_owned = true;
}

static void on_owned_elsewhere(void *owner)
{
        (void)owner;
        test_abort("the lane is owned elsewhere");
}

static void on_gone(void *owner)
{
        (void)owner;
        is_gone = true;
}

static void start(void)
{
        static const struct outbox_events events = {
            .on_up = on_up, .on_down = on_down, .on_refused = on_refused, .on_members = on_members};
        static const struct lane_store_events lane_events = {
            .on_owned = on_owned, .on_owned_elsewhere = on_owned_elsewhere, .on_gone = on_gone};
        const struct lane_store_settings settings = {.sink = "bus", .lane = -1, .n_shards = 2};

        database = test_database_make();
        admin = database.admin;
        database_exec(admin, "SELECT courier.agree_shards('bus', 2, false, false, 'test')");
        config = (struct postgres_config){
            .dsn = database.relay, .connect_timeout_ms = 30000, .query_timeout_ms = 30000};
        uv_loop_init(&loop);
        outbox = outbox_create(&loop, &config, &events, NULL);
        store = lane_store_create(outbox, &settings, &lane_events, NULL);
        outbox_open(outbox);
        while (!is_up)
                uv_run(&loop, UV_RUN_ONCE);
}

static void stop(void)
{
        outbox_close(outbox);
        lane_store_destroy(store);
        outbox_destroy(outbox);
        uv_run(&loop, UV_RUN_DEFAULT);
        uv_loop_close(&loop);
        test_database_drop(&database);
}

TestSuite(shards_store, .init = start, .fini = stop, .timeout = 120);

static void expect_seen(void (*look)(struct outbox *), const char *expected)
{
        *seen = '\0';
        look(outbox);
        while (*seen == '\0')
                uv_run(&loop, UV_RUN_ONCE);
        cr_expect_str_eq(seen, expected);
}

static void expect_view(const char *expected)
{
        expect_seen(outbox_read_members, expected);
}

static PGconn *join(const char *name, int shards)
{
        PGconn *session = database_connect(database.relay);
        char *sql = xasprintf(
            "SELECT courier.join_relays('%s', 'host', '1', 1, '{\"bus\": %d}')", name, shards);

        database_exec(session, sql);
        free(sql);
        return session;
}

static void take(PGconn *session, int lane)
{
        char sql[160];

        snprintf(sql, sizeof sql,
            "SELECT pg_advisory_lock(1668248946, lock_id) FROM courier.cursor WHERE lane = %d",
            lane);
        database_exec(session, sql);
}

Test(shards_store, sees_who_serves_a_sink_and_who_has_which_shard)
{
        PGconn *a = join("a", 2), *b = join("b", 3), *stranger = database_connect(database.relay);

        take(a, -1);
        expect_view("a serves, b, a/nobody");
        take(stranger, -2);
        expect_view("a serves, b, a/a stranger");
        database_exec(admin, "UPDATE courier.member SET is_drained = true WHERE name = 'a'");
        expect_view("a serves drains, b, a/a stranger");
        database_exec(admin, "UPDATE courier.member SET is_drained = false;"
                             "UPDATE courier.member SET is_leaving = true WHERE name = 'b'");
        expect_view("a serves, b drains, a/a stranger");
        database_exec(admin, "UPDATE courier.sink SET shards_wanted = 3");
        expect_view("a, b drains, a/a stranger"); /* until it is divided, nobody takes a shard */
        PQfinish(a);
        PQfinish(b);
        PQfinish(stranger);
}

Test(shards_store, looks_closer_when_locks_have_changed)
{
        PGconn *a = join("a", 2);

        take(a, -1);
        expect_view("a serves, a/nobody");
        expect_seen(outbox_look_at_members, "as before");
        PQfinish(a);
        await_in_database(
            admin, "SELECT count(*) = 0 FROM courier.relay_lock", "the session has not ended");
        expect_seen(outbox_look_at_members, "nobody/nobody");
}

static void join_with(const char *shards)
{
        outbox_join(outbox,
            &(struct membership){.name = "r", .host = "host", .weight = 1, .shards = shards});
}

Test(shards_store, tells_the_others_what_it_serves_after_a_reload)
{
        join_with("{\"bus\": 2}");
        expect_view("r serves, nobody/nobody");
        join_with("{}");
        expect_view("r, nobody/nobody");
}

static void await_gone(void)
{
        while (!is_gone && !is_owned)
                uv_run(&loop, UV_RUN_ONCE);
        cr_expect(is_gone);
        cr_expect_not(is_owned);
        expect_value(admin, "SELECT count(*) FROM courier.relay_lock", "0");
}

Test(shards_store, gives_back_the_lock_of_a_shard_of_a_sink_that_has_another_number_by_now)
{
        database_exec(admin, "SELECT courier.divide_sink('bus', 3)");
        lane_store_claim(store);
        await_gone();
}

/* The sink has two shards again, with locks of their own. */
Test(shards_store, gives_back_a_lock_that_was_granted_when_its_shard_was_gone)
{
        lane_store_claim(store);
        await_in_database(
            admin, "SELECT count(*) = 1 FROM courier.relay_lock", "the lock is not asked for");
        database_exec(
            admin, "SELECT courier.divide_sink('bus', 3); SELECT courier.divide_sink('bus', 2)");
        await_gone();
}
