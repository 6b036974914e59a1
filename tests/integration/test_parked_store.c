/* Claiming what is parked: the statements of parked.sql and claim.c against a real server. */
#include "settle_fixture.h"

/* A row that is due in so many milliseconds; with a key unless it is NULL. */
static void park(PGconn *admin, int id, const char *state, const char *key, int due_in_ms)
{
        char *sql = xasprintf(
            "INSERT INTO courier.parked"
            " (sink, lane, outbox_id, state, due_at, event_id, topic, key, payload, created_at)"
            " VALUES ('test', 0, %d, '%s', clock_timestamp() + %d * interval '1 ms',"
            " gen_random_uuid(), 'test.topic', %s%s%s, '\"%d\"', now())",
            id, state, due_in_ms, key != NULL ? "'" : "", key != NULL ? key : "NULL",
            key != NULL ? "'" : "", id);

        database_exec(admin, sql);
        free(sql);
}

Test(parked_store, brings_due_rows_in_the_order_of_their_time)
{
        struct fixture fixture = set_up();

        park(fixture.admin, 1, "delayed", "a", -1000);
        park(fixture.admin, 2, "retry", "b", -3000);
        park(fixture.admin, 3, "retry", NULL, -2000);
        park(fixture.admin, 4, "blocked", "b", -4000);
        park(fixture.admin, 5, "retry", "c", 3600000);
        park(fixture.admin, 6, "delayed", NULL, 3600000);

        cr_expect_str_eq(store_rig_ids(store_rig_read_due(fixture.rig)), "2 3 1");
        tear_down(&fixture);
}

Test(parked_store, leaves_other_sinks_and_lanes_alone)
{
        struct fixture fixture = set_up();
        const char *const keys[] = {"a"};

        for (int id = 1; id <= 3; id++)
                park(fixture.admin, id, "retry", "a", -1000);
        database_exec(
            fixture.admin, "UPDATE courier.parked SET sink = 'other' WHERE outbox_id = 1");
        database_exec(fixture.admin, "UPDATE courier.parked SET lane = 1 WHERE outbox_id = 2");

        cr_expect_str_eq(store_rig_ids(store_rig_read_due(fixture.rig)), "3");
        cr_expect_str_eq(store_rig_ids(store_rig_read_parked(fixture.rig,
                             &(struct parked_request){
                                 .keys = keys, .n_keys = 1, .max_rows = 9, .max_bytes = 999})),
            "3");
        tear_down(&fixture);
}

static double ms_until_due(PGconn *admin)
{
        char *text = database_value(admin, "SELECT extract(epoch FROM due_at - clock_timestamp())"
                                           " * 1000 FROM courier.parked WHERE outbox_id = 1");
        double ms = strtod(text, NULL);

        free(text);
        return ms;
}

Test(parked_store, says_by_the_databases_clock_when_the_next_row_is_due)
{
        struct fixture fixture = set_up();
        double before;
        double after;
        int64_t told;

        cr_expect(store_rig_read_due(fixture.rig)->next_due_ms == -1);
        park(fixture.admin, 1, "delayed", NULL, 600000);
        park(fixture.admin, 2, "retry", NULL, 700000);
        park(fixture.admin, 3, "blocked", "a", 500000);
        park(fixture.admin, 4, "retry", NULL, -1000);
        before = ms_until_due(fixture.admin);
        told = store_rig_read_due(fixture.rig)->next_due_ms;
        after = ms_until_due(fixture.admin);

        cr_expect((double)told >= after, "%" PRId64 " ms, but %f are left", told, after);
        cr_expect((double)told < before + 1, "%" PRId64 " ms, but only %f were left", told, before);
        tear_down(&fixture);
}

Test(parked_store, accepts_rows_that_are_never_due)
{
        struct fixture fixture = set_up();

        park(fixture.admin, 1, "delayed", NULL, 0);
        database_exec(fixture.admin, "UPDATE courier.parked SET due_at = 'infinity'");
        cr_expect(store_rig_read_due(fixture.rig)->n_rows == 0);
        cr_expect(store_rig_read_due(fixture.rig)->next_due_ms == -1);
        tear_down(&fixture);
}

Test(parked_store, brings_the_first_rows_of_each_key_in_order)
{
        struct fixture fixture = set_up();
        const char *const keys[] = {"b", "a", "none"};
        struct parked_request request = {
            .keys = keys, .n_keys = 3, .max_rows = 9, .max_bytes = 1 << 20};

        for (int id = 20; id > 10; id--) /* positions against the order of ids */
                park(fixture.admin, id, "blocked", id % 2 == 0 ? "a" : "b", 0);
        park(fixture.admin, 1, "retry", "c", -1000);
        park(fixture.admin, 2, "delayed", "a", -2000);
        park(fixture.admin, 3, "delayed", "a", 1000000);
        cr_expect_str_eq(
            store_rig_ids(store_rig_read_parked(fixture.rig, &request)), "19 17 15 20 18 16 2 1");

        request.max_rows = 2; /* fewer than keys: one of each, as far as it goes */
        cr_expect_str_eq(store_rig_ids(store_rig_read_parked(fixture.rig, &request)), "19 20 2 1");
        tear_down(&fixture);
}

Test(parked_store, finds_keys_with_any_character)
{
        struct fixture fixture = set_up();
        const char *const keys[] = {
            "a\"b", "back\\slash", "{x,y}", "NULL", "\xc3\xa9 \xe2\x82\xac"};

        for (int i = 0; i < 5; i++)
                park(fixture.admin, i + 1, "blocked", keys[i], 0);
        cr_expect_str_eq(store_rig_ids(store_rig_read_parked(fixture.rig,
                             &(struct parked_request){
                                 .keys = keys, .n_keys = 5, .max_rows = 9, .max_bytes = 999})),
            "1 2 3 4 5");
        tear_down(&fixture);
}

Test(parked_store, brings_nothing_twice_and_nothing_that_is_claimed)
{
        struct fixture fixture = set_up();
        const char *const keys[] = {"a"};
        const int64_t claimed[] = {2, 4};
        struct parked_request request = {
            .keys = keys, .n_keys = 1, .max_rows = 9, .max_bytes = 1 << 20};

        park(fixture.admin, 1, "retry", "a", -1000);
        park(fixture.admin, 2, "blocked", "a", -1000);
        park(fixture.admin, 3, "blocked", "a", -1000);
        park(fixture.admin, 4, "retry", "b", -1000);
        park(fixture.admin, 5, "retry", "c", -1000);
        cr_expect_str_eq(store_rig_ids(store_rig_read_parked(fixture.rig, &request)), "1 2 3 4 5");

        request.claimed = claimed;
        request.n_claimed = 2;
        cr_expect_str_eq(store_rig_ids(store_rig_read_parked(fixture.rig, &request)), "1 3 5");
        tear_down(&fixture);
}

Test(parked_store, says_at_once_when_it_had_to_leave_due_rows)
{
        struct fixture fixture = set_up();
        struct parked_request request = {.max_rows = 2, .max_bytes = 1 << 20};
        const struct parked_batch *batch;

        for (int id = 1; id <= 3; id++)
                park(fixture.admin, id, "retry", NULL, -1000 + id);
        park(fixture.admin, 4, "retry", NULL, 600000);
        batch = store_rig_read_parked(fixture.rig, &request);
        cr_expect_str_eq(store_rig_ids(batch), "1 2");
        cr_expect(batch->next_due_ms == 0);

        request.max_rows = 3; /* exactly as many as there are */
        batch = store_rig_read_parked(fixture.rig, &request);
        cr_expect_str_eq(store_rig_ids(batch), "1 2 3");
        cr_expect(batch->next_due_ms > 0);
        tear_down(&fixture);
}

Test(parked_store, bounds_both_parts_in_bytes_but_brings_the_first)
{
        struct fixture fixture = set_up();
        const char *const keys[] = {"a"};
        struct parked_request request = {
            .keys = keys, .n_keys = 1, .max_rows = 9, .max_bytes = 2500};
        const struct parked_batch *batch;

        for (int id = 1; id <= 8; id++)
                park(fixture.admin, id, id <= 4 ? "blocked" : "retry", id <= 4 ? "a" : NULL, -1000);
        database_exec(
            fixture.admin, /* compressible, so that the stored size is not the payload's */
            "UPDATE courier.parked SET payload = to_json(repeat('x', 998)) WHERE outbox_id <> 8");
        database_exec(fixture.admin,
            "UPDATE courier.parked SET payload = NULL,"
            " data = decode(repeat('00', 1000), 'hex') WHERE outbox_id = 8");
        batch = store_rig_read_parked(fixture.rig, &request);
        cr_expect_str_eq(store_rig_ids(batch), "1 2 5 6");
        cr_expect(batch->bytes == 4000);
        cr_expect(batch->next_due_ms == 0);

        request.max_bytes = 10;
        cr_expect_str_eq(store_rig_ids(store_rig_read_parked(fixture.rig, &request)), "1 5");
        request.max_bytes = UINT64_MAX;
        cr_expect_str_eq(
            store_rig_ids(store_rig_read_parked(fixture.rig, &request)), "1 2 3 4 5 6 7 8");
        tear_down(&fixture);
}

/* A row that is cut from its key's part may be due by itself; it must not fall between the two. */
Test(parked_store, brings_a_due_row_that_its_key_had_no_room_for)
{
        struct fixture fixture = set_up();
        const char *const keys[] = {"a"};

        park(fixture.admin, 1, "retry", "a", -1000);
        park(fixture.admin, 2, "retry", "a", -1000);
        cr_expect_str_eq(store_rig_ids(store_rig_read_parked(fixture.rig,
                             &(struct parked_request){
                                 .keys = keys, .n_keys = 1, .max_rows = 9, .max_bytes = 1})),
            "1 2");
        tear_down(&fixture);
}

Test(parked_store, brings_rows_to_be_skipped_even_if_they_are_blocked)
{
        struct fixture fixture = set_up();
        const struct parked_batch *batch;

        park(fixture.admin, 1, "retry", "a", 600000);
        park(fixture.admin, 2, "blocked", "a", 600000);
        database_exec(fixture.admin, "UPDATE courier.parked SET skip = true,"
                                     " due_at = clock_timestamp() WHERE outbox_id = 2");
        batch = store_rig_read_due(fixture.rig);

        cr_expect_str_eq(store_rig_ids(batch), "2");
        cr_expect(batch->rows[0].is_skipped);
        cr_expect(batch->rows[0].state == PARKED_BLOCKED);
        tear_down(&fixture);
}

Test(parked_store, gives_the_whole_row)
{
        struct fixture fixture = set_up();
        const struct parked_row *row;

        database_exec(fixture.admin,
            "INSERT INTO courier.parked (sink, lane, outbox_id, state, due_at, attempts, "
            "retried_for,"
            " is_redriven, event_id, topic, key, type, payload, headers, created_at)"
            " VALUES ('test', 0, 7, 'delayed', now(), 3, '2 days 00:00:01.5', true,"
            " '00112233-4455-6677-8899-aabbccddeeff', 'orders.created', 'k', 'Created',"
            " '{ \"a\":1,  \"a\":2 }', '{\"tenant\": \"x\"}', '2026-01-02 03:04:05.678901Z')");
        row = &store_rig_read_due(fixture.rig)->rows[0];

        cr_expect(row->event.id == 7);
        cr_expect(row->state == PARKED_DELAYED);
        cr_expect(row->n_attempts == 3);
        cr_expect(row->retried_ms == INT64_C(2) * 24 * 3600 * 1000 + 1500);
        cr_expect(!row->is_skipped);
        cr_expect(row->event.is_redriven);
        cr_expect_str_eq(row->event.event_id, "00112233-4455-6677-8899-aabbccddeeff");
        cr_expect_str_eq(row->event.topic, "orders.created");
        cr_expect_str_eq(row->event.key, "k");
        cr_expect_str_eq(row->event.type, "Created");
        cr_expect(row->event.is_json);
        cr_expect_str_eq((const char *)row->event.payload, "{ \"a\":1,  \"a\":2 }");
        cr_expect(row->event.n_headers == 1);
        cr_expect_str_eq(row->event.headers[0].name, "tenant");
        cr_expect(row->event.created_us == INT64_C(1767323045678901));
        tear_down(&fixture);
}

Test(parked_store, tells_a_new_owner_which_keys_are_parked)
{
        struct fixture fixture = set_up();

        cr_expect_str_eq(fixture.rig->keys, "0:");
        park(fixture.admin, 1, "retry", "waits", 600000);
        park(fixture.admin, 2, "blocked", "waits", 0);
        park(fixture.admin, 3, "retry", "due", -1000);
        park(fixture.admin, 4, "blocked", "freed", 0);
        park(fixture.admin, 5, "blocked", "freed", 0);
        park(fixture.admin, 6, "retry", "skipped", 600000);
        park(fixture.admin, 7, "retry", NULL, 600000);
        park(fixture.admin, 8, "delayed", "later", 600000);
        park(fixture.admin, 9, "delayed", "waits", 600000);
        database_exec(fixture.admin, "UPDATE courier.parked SET skip = true WHERE outbox_id = 6");
        store_rig_close(fixture.rig);
        fixture.rig = store_rig_open(fixture.dsn);

        cr_expect_str_eq(fixture.rig->keys, "7: due=1(waiting) freed=2 skipped=1 waits=2(waiting)");
        tear_down(&fixture);
}

Test(parked_store, marks_the_events_of_a_page_that_are_delayed)
{
        struct fixture fixture = set_up();
        const struct page *page;

        database_exec(fixture.admin, "SELECT courier.publish('t', '1'), courier.publish('t', '2',"
                                     " deliver_at => clock_timestamp() - interval '1 s')");
        page = store_rig_read_page(fixture.rig);
        cr_expect(page->n_events == 2);
        cr_expect(page->is_delayed == NULL);

        database_exec(fixture.admin, "SELECT courier.publish('t', '3', deliver_at => 'infinity')");
        database_exec(fixture.admin, "SELECT courier.publish('t', '4',"
                                     " deliver_at => clock_timestamp() + interval '1 hour')");
        page = store_rig_read_page(fixture.rig);
        cr_assert(page->n_events == 4 && page->is_delayed != NULL);
        cr_expect(!page->is_delayed[0] && !page->is_delayed[1]);
        cr_expect(page->is_delayed[2] && page->is_delayed[3]);
        tear_down(&fixture);
}

/* ---- whatever waits ------------------------------------------------------------------------ */

/* What sessions have done, this one included. PostgreSQL 14 has a process that collects it,
 * which is told of it each half second. */
static int64_t blocks_touched(PGconn *admin)
{
        database_exec(admin, PQserverVersion(admin) < 150000 ? "SELECT pg_sleep(1.5)"
                                                             : "SELECT pg_stat_force_next_flush()");
        return database_integer(admin,
            "SELECT sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::bigint"
            " FROM pg_statio_user_tables WHERE relname = 'parked'");
}

/* The statements are planned while the table is empty, which is when a planner is most easily led
 * astray, and again by a session that finds it full. */
static void use_everything(struct store_rig *rig, int first_id)
{
        const char *const keys[] = {"a", "b"};
        struct verdicts verdicts = {0};

        store_rig_read_parked(rig,
            &(struct parked_request){.keys = keys, .n_keys = 2, .max_rows = 9, .max_bytes = 9});
        verdicts_add(&verdicts, VERDICT_PARK, first_id, true)->state = PARKED_RETRY;
        verdicts_add(&verdicts, VERDICT_PARK, first_id + 1, true)->goes_last = true;
        verdicts_add(&verdicts, VERDICT_DELIVERED, first_id + 2, true);
        verdicts_add(&verdicts, VERDICT_DEAD, first_id + 3, true);
        verdicts_add(&verdicts, VERDICT_PARK, 1, false)->state = PARKED_RETRY;
        cr_assert(store_rig_settle(rig, &verdicts));
}

Test(parked_store, touches_few_rows_however_many_are_parked)
{
        struct fixture fixture = set_up();
        int64_t before;
        int64_t touched;

        database_exec(fixture.admin, "ALTER TABLE courier.parked SET (autovacuum_enabled = false)");
        use_everything(fixture.rig, 50000);
        database_exec(fixture.admin,
            "INSERT INTO courier.parked"
            " (sink, lane, outbox_id, state, due_at, event_id, topic, key, payload, created_at)"
            " SELECT 'test', 0, 100000 + i, 'delayed', now() + interval '1 day', gen_random_uuid(),"
            " 'later', 'a', '{}', now() FROM generate_series(1, 100000) AS i");
        for (int id = 1; id <= 20; id++)
                park(fixture.admin, 50000 + id, id <= 2 ? "retry" : "blocked", id % 2 ? "a" : "b",
                    id <= 2 ? -1000 : 0);
        before = blocks_touched(fixture.admin);
        use_everything(fixture.rig, 50001);
        store_rig_close(fixture.rig);
        fixture.rig = store_rig_open(fixture.dsn);
        use_everything(fixture.rig, 50005);
        store_rig_close(fixture.rig); /* its counts are known now */
        touched = blocks_touched(fixture.admin) - before;

        cr_expect(touched > 50 && touched < 500, "%" PRId64 " blocks", touched);
        fixture.rig = store_rig_open(fixture.dsn);
        tear_down(&fixture);
}
