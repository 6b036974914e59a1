/* Settles that park deliveries, against a real server: settle_verdicts.sql and verdicts.c. */
#include "settle_fixture.h"

Test(settle_parking, parks_in_the_order_of_the_verdicts)
{
        struct fixture fixture = set_up();
        static const int ids[] = {5, 2, 9, 1, 7};

        publish(fixture.admin, 9);
        for (int i = 0; i < 5; i++)
                verdicts_add(&fixture.verdicts, VERDICT_PARK, ids[i], false)->state =
                    i == 0 ? PARKED_RETRY : PARKED_BLOCKED;
        settle(&fixture);

        expect_value(fixture.admin, in_order, "5:retry 2:blocked 9:blocked 1:blocked 7:blocked");
        expect_value(fixture.admin,
            "SELECT count(*) FROM courier.parked NATURAL JOIN"
            " (SELECT id AS outbox_id, event_id, topic, key, created_at"
            " FROM courier.outbox) AS event",
            "5");
        tear_down(&fixture);
}

/* Everything the database holds, so that "nothing" can be said of all of it. */
static char *everything(PGconn *admin)
{
        return database_value(admin,
            "SELECT concat((SELECT string_agg(t::text, ';') FROM courier.cursor AS t), '|',"
            " (SELECT string_agg(t::text, ';' ORDER BY position) FROM courier.parked AS t), '|',"
            " (SELECT string_agg(t::text, ';') FROM courier.dead_letter AS t))");
}

Test(settle_parking, writes_nothing_at_all_once_the_lane_was_taken)
{
        struct fixture fixture = set_up();
        char *before;
        char *after;

        publish_and_park(&fixture, 4);
        publish(fixture.admin, 2);
        database_exec(fixture.admin, "UPDATE courier.cursor SET epoch = epoch + 1");
        before = everything(fixture.admin);
        verdicts_add(&fixture.verdicts, VERDICT_PARK, 1, true)->n_attempts = 9;
        verdicts_add(&fixture.verdicts, VERDICT_PARK, 2, true)->goes_last = true;
        verdicts_add(&fixture.verdicts, VERDICT_DELIVERED, 3, true);
        verdicts_add(&fixture.verdicts, VERDICT_DEAD, 4, true);
        verdicts_add(&fixture.verdicts, VERDICT_PARK, 5, false);
        verdicts_add(&fixture.verdicts, VERDICT_DEAD, 6, false);

        cr_expect(!store_rig_settle(fixture.rig, &fixture.verdicts));
        cr_expect(strstr(fixture.rig->lost.text, "taken by another relay") != NULL);
        after = everything(fixture.admin);
        cr_expect_str_eq(before, after);
        free(before);
        free(after);
        tear_down(&fixture);
}

Test(settle_parking, moves_the_cursor_together_with_its_verdicts)
{
        struct fixture fixture = set_up();

        publish(fixture.admin, 1);
        fixture.rig->cursor.last_id = 1;
        verdicts_add(&fixture.verdicts, VERDICT_PARK, 1, false);
        settle(&fixture);

        expect_value(fixture.admin, "SELECT last_id FROM courier.cursor", "1");
        expect_value(fixture.admin,
            "SELECT c.xmin = p.xmin FROM courier.cursor AS c, courier.parked AS p", "t");
        tear_down(&fixture);
}

Test(settle_parking, sends_rows_behind_their_key_in_the_order_of_the_verdicts)
{
        struct fixture fixture = set_up();
        static const int ids[] = {4, 1, 3};

        publish_and_park(&fixture, 5);
        for (int i = 0; i < 3; i++) {
                struct verdict *verdict =
                    verdicts_add(&fixture.verdicts, VERDICT_PARK, ids[i], true);

                verdict->state = PARKED_BLOCKED;
                verdict->goes_last = true;
        }
        verdicts_add(&fixture.verdicts, VERDICT_PARK, 5, true)->state = PARKED_RETRY;
        settle(&fixture);

        expect_value(fixture.admin, in_order, "2:blocked 5:retry 4:blocked 1:blocked 3:blocked");
        tear_down(&fixture);
}

Test(settle_parking, sends_a_row_behind_new_rows)
{
        struct fixture fixture = set_up();
        struct verdict *last;

        publish_and_park(&fixture, 2);
        publish(fixture.admin, 2);
        fixture.rig->cursor.last_id = 4;
        last = verdicts_add(&fixture.verdicts, VERDICT_PARK, 1, true);
        last->state = PARKED_BLOCKED;
        last->goes_last = true;
        verdicts_add(&fixture.verdicts, VERDICT_PARK, 3, false)->state = PARKED_RETRY;
        verdicts_add(&fixture.verdicts, VERDICT_PARK, 4, false)->state = PARKED_BLOCKED;
        settle(&fixture);

        expect_value(fixture.admin, in_order, "2:blocked 3:retry 4:blocked 1:blocked");
        tear_down(&fixture);
}

Test(settle_parking, keeps_the_first_failure_and_the_last)
{
        struct fixture fixture = set_up();
        static const char errors[] =
            "SELECT concat_ws(' / ', coalesce(first_error, 'none'),"
            " coalesce(last_error, 'none'), attempts, retried_for,"
            " first_failed_at IS NOT NULL, last_failed_at > first_failed_at)"
            " FROM courier.parked WHERE outbox_id = 1";
        struct verdict *verdict;

        publish(fixture.admin, 1);
        verdicts_add(&fixture.verdicts, VERDICT_PARK, 1, false)->state = PARKED_BLOCKED;
        settle(&fixture);
        expect_value(fixture.admin, errors, "none / none / 0 / 00:00:00 / f");

        verdict = fail(&fixture, 1, true, "\"odd\" {words}, \\ NULL");
        verdict->n_attempts = 1;
        settle(&fixture);
        expect_value(fixture.admin, errors,
            "\"odd\" {words}, \\ NULL / \"odd\" {words}, \\ NULL / 1 / 00:00:00 / t / f");

        verdict = fail(&fixture, 1, true, "NULL");
        verdict->n_attempts = 2;
        verdict->retried_ms = 90061001;
        settle(&fixture);
        expect_value(
            fixture.admin, errors, "\"odd\" {words}, \\ NULL / NULL / 2 / 25:01:01.001 / t / t");

        /* Moved without an attempt: what is known of failures stays. */
        verdict = verdicts_add(&fixture.verdicts, VERDICT_PARK, 1, true);
        verdict->n_attempts = 2;
        verdict->retried_ms = 90061001;
        settle(&fixture);
        expect_value(
            fixture.admin, errors, "\"odd\" {words}, \\ NULL / NULL / 2 / 25:01:01.001 / t / t");
        tear_down(&fixture);
}

Test(settle_parking, notes_a_failure_that_parks_an_event)
{
        struct fixture fixture = set_up();

        publish(fixture.admin, 1);
        fail(&fixture, 1, false, "refused")->n_attempts = 1;
        settle(&fixture);

        expect_value(fixture.admin,
            "SELECT concat_ws(' ', first_error, last_error, attempts,"
            " first_failed_at = last_failed_at) FROM courier.parked",
            "refused refused 1 t");
        tear_down(&fixture);
}

Test(settle_parking, says_when_it_is_due_by_the_databases_clock)
{
        struct fixture fixture = set_up();
        char *before = database_value(fixture.admin, "SELECT clock_timestamp()");
        char *sql = xasprintf("SELECT string_agg(concat(outbox_id, ':',"
                              " due_at - ms >= '%s' AND due_at - ms <= clock_timestamp()), ' '"
                              " ORDER BY outbox_id) FROM courier.parked,"
                              " LATERAL (SELECT CASE outbox_id WHEN 1 THEN interval '5 s'"
                              " WHEN 4 THEN interval '7 s' ELSE '0' END AS ms) AS later",
            before);

        publish(fixture.admin, 4);
        fail(&fixture, 1, false, "later")->due_ms = 6000; /* now is 1000 */
        fail(&fixture, 2, false, "overdue")->due_ms = 10;
        fail(&fixture, 3, false, "never given")->due_ms = 0;
        fail(&fixture, 4, false, "")->due_ms = 1000;
        settle(&fixture);
        fail(&fixture, 4, true, "again")->due_ms = 8000;
        settle(&fixture);

        expect_value(fixture.admin, sql, "1:t 2:t 3:t 4:t");
        free(sql);
        free(before);
        tear_down(&fixture);
}

Test(settle_parking, delays_until_the_events_own_time)
{
        struct fixture fixture = set_up();

        database_exec(fixture.admin,
            "SELECT courier.publish('t', '1', deliver_at => '2100-01-02 03:04:05.678901Z')");
        database_exec(fixture.admin, "SELECT courier.publish('t', '2', deliver_at => 'infinity')");
        for (int id = 1; id <= 2; id++)
                verdicts_add(&fixture.verdicts, VERDICT_PARK, id, false)->state = PARKED_DELAYED;
        settle(&fixture);

        expect_value(fixture.admin,
            "SELECT bool_and(due_at = deliver_at AND state = 'delayed') FROM courier.parked"
            " JOIN courier.outbox ON id = outbox_id",
            "t");
        tear_down(&fixture);
}

Test(settle_parking, leaves_the_time_of_a_row_that_is_to_be_skipped)
{
        struct fixture fixture = set_up();

        publish_and_park(&fixture, 1);
        database_exec(fixture.admin, "UPDATE courier.parked SET skip = true, due_at = now()");
        fail(&fixture, 1, true, "failed meanwhile")->due_ms = 3600000;
        settle(&fixture);

        expect_value(fixture.admin,
            "SELECT concat_ws(' ', skip, due_at <= now(), last_error) FROM courier.parked",
            "t t failed meanwhile");
        cr_expect_str_eq(store_rig_ids(store_rig_read_due(fixture.rig)), "1");
        tear_down(&fixture);
}

static bool a_session_waits_for_a_lock(void *context)
{
        return database_integer(context, "SELECT count(*) FROM pg_locks WHERE NOT granted") > 0;
}

/* The change by hand commits while the settle already waits for the row. */
Test(settle_parking, sees_a_skip_that_came_at_the_same_moment)
{
        struct fixture fixture = set_up();
        PGconn *observer = database_connect(fixture.dsn);

        publish_and_park(&fixture, 1);
        database_exec(fixture.admin, "BEGIN");
        database_exec(fixture.admin, "UPDATE courier.parked SET skip = true, due_at = now()");
        fail(&fixture, 1, true, "failed meanwhile")->due_ms = 3600000;
        store_rig_start_settle(fixture.rig, &fixture.verdicts);
        while (!a_session_waits_for_a_lock(observer))
                uv_run(&fixture.rig->loop, UV_RUN_NOWAIT);
        database_exec(fixture.admin, "COMMIT");
        while (!fixture.rig->is_answered && !fixture.rig->is_down)
                uv_run(&fixture.rig->loop, UV_RUN_ONCE);

        cr_expect(fixture.rig->n_missing == 0);
        expect_value(fixture.admin,
            "SELECT concat_ws(' ', skip, due_at <= now(), last_error) FROM courier.parked",
            "t t failed meanwhile");
        PQfinish(observer);
        tear_down(&fixture);
}

/* After a cursor was set back by hand, the stream brings what is parked already. */
Test(settle_parking, leaves_a_row_that_is_parked_already)
{
        struct fixture fixture = set_up();

        publish_and_park(&fixture, 2);
        fail(&fixture, 1, false, "again");
        settle(&fixture);

        cr_expect(fixture.rig->n_missing == 0);
        expect_value(fixture.admin, in_order, "1:retry 2:blocked");
        expect_value(
            fixture.admin, "SELECT coalesce(max(last_error), 'none') FROM courier.parked", "none");
        tear_down(&fixture);
}

/* What marks the application's row needs it of a dead letter, and people of both. */
Test(settle_parking, keeps_the_source_of_an_event)
{
        static const char sources[] =
            "SELECT string_agg(format('%s %s %s', outbox_id, source, source_key), ', '"
            " ORDER BY outbox_id) FROM courier.";
        struct fixture fixture = set_up();
        char *parked = xasprintf("%sparked", sources), *dead = xasprintf("%sdead_letter", sources);

        database_exec(fixture.admin,
            "INSERT INTO courier.outbox (topic, payload, source, source_key)"
            " SELECT 'test.topic', '1', 5, 'row ' || i FROM generate_series(1, 3) AS i");
        publish(fixture.admin, 1);
        for (int id = 1; id <= 4; id++)
                if (id != 2)
                        fail(&fixture, id, false, "no");
        give_up(&fixture, 2, false, DEAD_REJECTED, "x", "no");
        settle(&fixture);
        expect_value(fixture.admin, parked, "1 5 row 1, 3 5 row 3, 4  ");
        expect_value(fixture.admin, dead, "2 5 row 2");

        fail(&fixture, 1, true, "no");
        give_up(&fixture, 3, true, DEAD_REJECTED, "x", "no");
        settle(&fixture);
        expect_value(fixture.admin, parked, "1 5 row 1, 4  ");
        expect_value(fixture.admin, dead, "2 5 row 2, 3 5 row 3");
        free(parked);
        free(dead);
        tear_down(&fixture);
}
