/* Settles in which deliveries end: delivered, dead letters, removed by hand. */
#include "outbox/session.h"
#include "settle_fixture.h"

Test(settle_ends, removes_delivered_rows)
{
        struct fixture fixture = set_up();

        publish_and_park(&fixture, 3);
        verdicts_add(&fixture.verdicts, VERDICT_DELIVERED, 2, true);
        settle(&fixture);

        expect_value(fixture.admin, in_order, "1:retry 3:blocked");
        expect_value(fixture.admin, "SELECT count(*) FROM courier.dead_letter", "0");
        cr_expect(fixture.rig->n_missing == 0);
        tear_down(&fixture);
}

static const char dead_letters[] =
    "SELECT string_agg(concat_ws(' ', sink, lane, outbox_id, coalesce(target, '-'), reason,"
    " attempts, coalesce(first_error, '-'), first_failed_at IS NOT NULL, error, is_redriven),"
    " E'\\n' ORDER BY id) FROM courier.dead_letter";

Test(settle_ends, makes_dead_letters_of_events_from_the_stream)
{
        struct fixture fixture = set_up();

        publish(fixture.admin, 3);
        give_up(&fixture, 2, false, DEAD_TOO_LARGE, "", "too many bytes");
        give_up(&fixture, 1, false, DEAD_REJECTED, "http://host/path", "400: no")->n_attempts = 1;
        give_up(&fixture, 3, false, DEAD_UNJUDGED, "", "not judged");
        settle(&fixture);

        expect_value(fixture.admin, dead_letters,
            "test 0 2 - too_large 0 - f too many bytes f\n"
            "test 0 1 http://host/path rejected 1 400: no t 400: no f\n"
            "test 0 3 - unjudged 0 - f not judged f");
        expect_value(fixture.admin,
            "SELECT count(*) FROM courier.dead_letter AS d"
            " JOIN courier.outbox AS o ON o.id = d.outbox_id"
            " WHERE (d.event_id, d.topic, d.key, d.created_at)"
            " = (o.event_id, o.topic, o.key, o.created_at)",
            "3");
        expect_value(fixture.admin, "SELECT count(*) FROM courier.parked", "0");
        tear_down(&fixture);
}

Test(settle_ends, makes_dead_letters_of_parked_rows)
{
        struct fixture fixture = set_up();

        publish(fixture.admin, 4);
        for (int id = 1; id <= 3; id++)
                fail(&fixture, id, false, "the first");
        verdicts_add(&fixture.verdicts, VERDICT_PARK, 4, false)->state = PARKED_BLOCKED;
        settle(&fixture);
        database_exec(
            fixture.admin, "UPDATE courier.parked SET is_redriven = true WHERE outbox_id = 2");
        give_up(&fixture, 3, true, DEAD_ATTEMPTS, "a@b", "the last")->n_attempts = 7;
        give_up(&fixture, 2, true, DEAD_AGE, "stream", "too old")->n_attempts = 2;
        give_up(&fixture, 1, true, DEAD_SKIPPED, "", "")->n_attempts = 1;
        give_up(&fixture, 4, true, DEAD_REJECTED, "", "at once")->n_attempts = 1;
        settle(&fixture);

        expect_value(fixture.admin, dead_letters,
            "test 0 3 a@b attempts 7 the first t the last f\n"
            "test 0 2 stream age 2 the first t too old t\n"
            "test 0 1 - skipped 1 the first t the first f\n"
            "test 0 4 - rejected 1 at once t at once f");
        expect_value(fixture.admin, "SELECT count(*) FROM courier.parked", "0");
        tear_down(&fixture);
}

static const char odd_json[] = "{ \"a\" : 1,\t\"a\":2 ,\n  \"\\u00e9\" : [ 1.0e0,-0 ] }";

static void publish_odd_bodies(PGconn *admin)
{
        database_exec(admin, "SELECT courier.publish('t', E'{ \"a\" : 1,\\t\"a\":2 ,\\n"
                             "  \"\\\\u00e9\" : [ 1.0e0,-0 ] }', headers => '{\"h\": [1]}')");
        database_exec(
            admin, "SELECT courier.publish('t', data => '\\x00ff0a0d5c22', type => 'bytes')");
        database_exec(admin, "SELECT courier.publish('t', to_json(repeat('wide ', 100000)))");
}

static const char bodies_are_the_same[] =
    "SELECT count(*) FROM %s AS copy JOIN courier.outbox AS o ON o.id = copy.outbox_id"
    " WHERE copy.payload::text IS NOT DISTINCT FROM o.payload::text"
    " AND copy.data IS NOT DISTINCT FROM o.data AND copy.type IS NOT DISTINCT FROM o.type"
    " AND copy.headers::text IS NOT DISTINCT FROM o.headers::text";

/* People know sinks and receivers; the shards of a sink may be others when it is redriven. */
Test(settle_ends, makes_dead_letters_of_a_shard_those_of_its_sink)
{
        struct fixture fixture = set_up();

        publish_and_park(&fixture, 1);
        publish(fixture.admin, 1);
        database_exec(fixture.admin,
            "UPDATE courier.cursor SET lane = -2; UPDATE courier.parked SET lane = -2");
        snprintf(fixture.rig->store->lane, sizeof fixture.rig->store->lane, "-2");
        verdicts_add(&fixture.verdicts, VERDICT_DEAD, 1, true)->reason = DEAD_REJECTED;
        verdicts_add(&fixture.verdicts, VERDICT_DEAD, 2, false)->reason = DEAD_REJECTED;
        settle(&fixture);
        expect_value(fixture.admin,
            "SELECT string_agg(outbox_id || ' in ' || lane, ', ' ORDER BY id)"
            " FROM courier.dead_letter",
            "1 in 0, 2 in 0");
        tear_down(&fixture);
}

Test(settle_ends, copies_bodies_byte_for_byte)
{
        struct fixture fixture = set_up();
        char *parked = xasprintf(bodies_are_the_same, "courier.parked");
        char *dead = xasprintf(bodies_are_the_same, "courier.dead_letter");
        const struct parked_batch *batch;

        publish_odd_bodies(fixture.admin);
        for (int id = 1; id <= 3; id++)
                fail(&fixture, id, false, "failed");
        settle(&fixture);
        expect_value(fixture.admin, parked, "3");
        batch = store_rig_read_due(fixture.rig);
        cr_assert(batch->n_rows == 3);
        cr_expect(batch->rows[0].event.is_json && !batch->rows[1].event.is_json);
        cr_expect_str_eq((const char *)batch->rows[0].event.payload, odd_json);
        cr_expect(batch->rows[1].event.payload_bytes == 6);
        cr_expect(memcmp(batch->rows[1].event.payload, "\x00\xff\x0a\x0d\x5c\x22", 6) == 0);
        cr_expect(batch->rows[2].event.payload_bytes == 500002);

        for (int id = 1; id <= 3; id++)
                give_up(&fixture, id, true, DEAD_ATTEMPTS, "", "failed");
        settle(&fixture);
        expect_value(fixture.admin, dead, "3");
        free(parked);
        free(dead);
        tear_down(&fixture);
}

Test(settle_ends, reports_rows_that_were_removed_and_settles_the_rest)
{
        struct fixture fixture = set_up();

        publish_and_park(&fixture, 4);
        publish(fixture.admin, 3);
        database_exec(fixture.admin, "DELETE FROM courier.parked WHERE outbox_id <= 3");
        database_exec(fixture.admin, "DELETE FROM courier.outbox WHERE id IN (5, 6)");
        verdicts_add(&fixture.verdicts, VERDICT_PARK, 1, true);
        verdicts_add(&fixture.verdicts, VERDICT_DELIVERED, 2, true);
        give_up(&fixture, 3, true, DEAD_AGE, "", "old");
        fail(&fixture, 4, true, "still here");
        fail(&fixture, 5, false, "gone");
        give_up(&fixture, 6, false, DEAD_REJECTED, "", "gone");
        fail(&fixture, 7, false, "still here");
        settle(&fixture);

        cr_expect(fixture.rig->n_missing == 5, "%" PRIu64, fixture.rig->n_missing);
        expect_value(fixture.admin, in_order, "4:retry 7:retry");
        tear_down(&fixture);
}
