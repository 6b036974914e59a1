/*
 * Events that wait, cancelled and rescheduled: sql/0017_waiting.sql, and the statements that park
 * and claim against a real server. The races are played step by step: the lane is the test's store,
 * and the application's transaction another session.
 */
#include "settle_fixture.h"
#include "support/program.h"

#define EVENT(n)  "'00000000-0000-4000-8000-00000000000" #n "'::uuid"
#define CANCEL(n) "SELECT courier.cancel(" EVENT(n) ")"
#define PARKED                                                                                     \
        "SELECT coalesce(string_agg(outbox_id::text, ' ' ORDER BY outbox_id), '') FROM "           \
        "courier.parked"

/* Event n has the id n, and EVENT(n): n is 1 to 9. All are due in an hour. */
static void delay(struct fixture *fixture, int n_events)
{
        char sql[256];

        for (int n = 1; n <= n_events; n++) {
                snprintf(sql, sizeof sql,
                    "SELECT courier.publish('t', '%d', deliver_at => now() + interval '1 hour',"
                    " event_id => '00000000-0000-4000-8000-00000000000%d')",
                    n, n);
                database_exec(fixture->admin, sql);
        }
}

static void park(struct fixture *fixture, int first, int last)
{
        struct verdicts verdicts = {0};

        for (int id = first; id <= last; id++)
                verdicts_add(&verdicts, VERDICT_PARK, id, false)->state = PARKED_DELAYED;
        cr_assert(store_rig_settle(fixture->rig, &verdicts));
}

static void delay_and_park(struct fixture *fixture, int n_events)
{
        delay(fixture, n_events);
        park(fixture, 1, n_events);
}

/* As if so much time had gone by. */
static void let_time_pass(struct fixture *fixture)
{
        database_exec(fixture->admin,
            "UPDATE courier.outbox SET created_at = created_at - interval '2 hours',"
            " deliver_at = deliver_at - interval '2 hours';"
            "UPDATE courier.parked SET due_at = due_at - interval '2 hours',"
            " waits_until = waits_until - interval '2 hours';"
            "UPDATE courier.delay SET deliver_at = deliver_at - interval '2 hours'");
}

static void expect_claimed(struct fixture *fixture, const char *ids)
{
        cr_expect_str_eq(store_rig_ids(store_rig_read_due(fixture->rig)), ids);
}

struct waiting {
        PGconn *admin;
        const char *what; /* the lock is of */
};

static bool is_one_waiting(void *context)
{
        const struct waiting *waiting = context;
        char sql[160];

        snprintf(sql, sizeof sql, "SELECT count(*) FROM pg_locks WHERE NOT granted AND %s",
            waiting->what);
        return database_integer(waiting->admin, sql) == 1;
}

static void await_lock(struct fixture *fixture, const char *what)
{
        struct waiting waiting = {fixture->admin, what};

        wait_until(is_one_waiting, &waiting, 30000, "a session that waits for a lock");
}

/* To PQsendQuery(). */
static void expect_answer(PGconn *session, const char *expected)
{
        PGresult *result = PQgetResult(session);

        cr_expect_str_eq(PQgetvalue(result, 0, 0), expected, "%s", PQresultErrorMessage(result));
        PQclear(result);
        cr_expect(PQgetResult(session) == NULL);
}

static PGconn *begin(struct fixture *fixture, const char *sql)
{
        PGconn *session = database_connect(fixture->dsn);

        database_exec(session, "BEGIN");
        expect_value(session, sql, "t");
        return session;
}

static void finish(PGconn *session, const char *sql)
{
        database_exec(session, sql);
        PQfinish(session);
}

Test(waiting_store, an_event_that_is_cancelled_before_a_lane_has_it_is_not_parked)
{
        struct fixture fixture = set_up();

        delay(&fixture, 2);
        expect_value(fixture.admin, CANCEL(1), "t");
        expect_value(fixture.admin, CANCEL(1), "f");
        park(&fixture, 1, 2);
        expect_value(fixture.admin, PARKED, "2");
        let_time_pass(&fixture);
        expect_claimed(&fixture, "2");
        tear_down(&fixture);
}

Test(waiting_store, an_event_that_is_cancelled_while_it_is_parked_is_removed)
{
        struct fixture fixture = set_up();

        delay_and_park(&fixture, 3);
        expect_value(fixture.admin, CANCEL(2), "t");
        expect_value(fixture.admin, PARKED, "1 3");
        let_time_pass(&fixture);
        expect_claimed(&fixture, "1 3");
        expect_value(fixture.admin, CANCEL(2), "f");
        tear_down(&fixture);
}

Test(waiting_store, a_rollback_takes_a_cancellation_back)
{
        struct fixture fixture = set_up();
        PGconn *session;

        delay_and_park(&fixture, 2);
        session = begin(&fixture, CANCEL(1));
        database_exec(session, "SAVEPOINT before");
        expect_value(session, CANCEL(2), "t");
        database_exec(session, "ROLLBACK TO before");
        finish(session, "ROLLBACK");
        let_time_pass(&fixture);
        expect_claimed(&fixture, "1 2");
        tear_down(&fixture);
}

Test(waiting_store, only_what_waits_can_be_cancelled)
{
        struct fixture fixture = set_up();

        delay_and_park(&fixture, 1);
        database_exec(fixture.admin,
            "SELECT courier.publish('t', '2', event_id => " EVENT(
                2) ");"
                   "SELECT courier.publish('t', '3', deliver_at => now() - interval '1 s',"
                   " event_id => " EVENT(3) ")");
        let_time_pass(&fixture);
        for (int n = 1; n <= 4; n++) {
                char sql[120];

                snprintf(sql, sizeof sql,
                    "SELECT courier.cancel('00000000-0000-4000-8000-00000000000%d')", n);
                expect_value(fixture.admin, sql, "f");
                snprintf(sql, sizeof sql,
                    "SELECT courier.reschedule('00000000-0000-4000-8000-00000000000%d', "
                    "'infinity')",
                    n);
                expect_value(fixture.admin, sql, "f");
        }
        expect_value(fixture.admin, "SELECT courier.cancel(NULL)", "f");
        expect_value(fixture.admin, "SELECT count(*) FROM courier.delay", "0");
        expect_claimed(&fixture, "1");
        tear_down(&fixture);
}

/* The time comes while the transaction that cancels goes on. */
Test(waiting_store, a_claim_leaves_what_is_being_cancelled)
{
        struct fixture fixture = set_up();
        const struct parked_batch *batch;
        PGconn *session;

        delay_and_park(&fixture, 3);
        session = begin(&fixture, CANCEL(1));
        let_time_pass(&fixture);
        batch = store_rig_read_due(fixture.rig);
        cr_expect_str_eq(store_rig_ids(batch), "2 3");
        cr_expect(
            batch->next_due_ms > 0 && batch->next_due_ms <= 100, "%" PRId64, batch->next_due_ms);
        finish(session, "COMMIT");
        expect_claimed(&fixture, "2 3");
        expect_value(fixture.admin, PARKED, "2 3");
        tear_down(&fixture);
}

Test(waiting_store, a_claim_brings_what_was_not_cancelled_after_all)
{
        struct fixture fixture = set_up();
        PGconn *session;

        delay_and_park(&fixture, 1);
        session = begin(&fixture, CANCEL(1));
        let_time_pass(&fixture);
        expect_claimed(&fixture, "");
        finish(session, "ROLLBACK");
        expect_claimed(&fixture, "1");
        tear_down(&fixture);
}

/* The lane reads the event only when its time has come, which the cancellation did not see. */
Test(waiting_store, what_is_being_cancelled_may_be_parked_late)
{
        struct fixture fixture = set_up();
        PGconn *session;

        delay(&fixture, 1);
        session = begin(&fixture, CANCEL(1));
        let_time_pass(&fixture);
        cr_expect(store_rig_read_page(fixture.rig)->is_delayed[0], "it is overdue, and not parked");
        park(&fixture, 1, 1);
        expect_claimed(&fixture, "");
        finish(session, "COMMIT");
        expect_claimed(&fixture, "");
        expect_value(fixture.admin, PARKED, "");
        tear_down(&fixture);
}

/* A session of many. They stand before all others in the order of the time. */
Test(waiting_store, what_is_being_cancelled_holds_up_nothing_else)
{
        struct fixture fixture = set_up();
        const struct parked_request request = {.max_rows = 5, .max_bytes = 1 << 20};
        PGconn *session = database_connect(fixture.dsn);

        database_exec(fixture.admin,
            "SELECT courier.publish('t', to_json(i), deliver_at => now() + interval '1 hour'"
            " + i * interval '1 ms') FROM generate_series(1, 40) AS i");
        for (int i = 0; i < 4; i++)
                park(&fixture, i * 10 + 1, i * 10 + 10);
        database_exec(session, "BEGIN");
        expect_value(session,
            "SELECT bool_and(courier.cancel(event_id)) FROM courier.outbox WHERE id <= 32", "t");
        let_time_pass(&fixture);
        cr_expect_str_eq(
            store_rig_ids(store_rig_read_parked(fixture.rig, &request)), "33 34 35 36 37");
        finish(session, "COMMIT");
        expect_claimed(&fixture, "33 34 35 36 37 38 39 40");
        tear_down(&fixture);
}

/* Two lanes: the one has claimed the event, the other has not. */
Test(waiting_store, once_a_lane_has_claimed_it_is_too_late)
{
        struct fixture fixture = set_up();

        delay_and_park(&fixture, 2);
        database_exec(fixture.admin, "INSERT INTO courier.parked (sink, lane, outbox_id, state, "
                                     "due_at, event_id, topic, payload, created_at)"
                                     " SELECT 'other', 0, outbox_id, state, due_at, event_id, "
                                     "topic, payload, created_at FROM courier.parked");
        database_exec(fixture.admin,
            "UPDATE courier.parked SET due_at = now(), waits_until = now() WHERE outbox_id = 1;"
            "UPDATE courier.outbox SET deliver_at = now(), created_at = "
            "created_at - interval '1 hour'"
            " WHERE id = 1");
        expect_claimed(&fixture, "1");
        /* The clock is set back. */
        database_exec(fixture.admin,
            "UPDATE courier.outbox SET deliver_at = clock_timestamp() + interval '10 min'"
            " WHERE id = 1;"
            "UPDATE courier.parked SET due_at = o.deliver_at, waits_until = o.deliver_at"
            " FROM courier.outbox AS o WHERE id = outbox_id;"
            "SELECT setval('courier.delay_reached', (extract(epoch FROM clock_timestamp()"
            " + interval '20 min') * 1000000)::bigint)");
        expect_value(fixture.admin, CANCEL(1), "f");
        expect_value(fixture.admin, CANCEL(2), "t");
        tear_down(&fixture);
}

Test(waiting_store, a_claim_notes_up_to_which_time_it_came)
{
        struct fixture fixture = set_up();

        delay_and_park(&fixture, 1);
        let_time_pass(&fixture);
        expect_claimed(&fixture, "1");
        expect_value(fixture.admin,
            "SELECT last_value BETWEEN extract(epoch FROM clock_timestamp() - interval '1 hour') * "
            "1000000"
            " AND extract(epoch FROM clock_timestamp()) * 1000000 FROM courier.delay_reached",
            "t");
        /* Another relay's clock was ahead. */
        database_exec(fixture.admin, "SELECT setval('courier.delay_reached', 9000000000000000)");
        expect_claimed(&fixture, "1");
        expect_value(
            fixture.admin, "SELECT last_value FROM courier.delay_reached", "9000000000000000");
        tear_down(&fixture);
}

#define DUE_IN(n)                                                                                  \
        "SELECT round(extract(epoch FROM due_at - now()) / 60) FROM courier.parked"                \
        " WHERE outbox_id = " #n
#define RESCHEDULE(n, minutes)                                                                     \
        "SELECT courier.reschedule(" EVENT(n) ", now() + interval '" #minutes " min')"

Test(waiting_store, an_event_is_rescheduled_before_and_after_it_is_parked)
{
        struct fixture fixture = set_up();

        delay(&fixture, 4);
        expect_value(fixture.admin, RESCHEDULE(1, 10), "t");
        expect_value(fixture.admin, RESCHEDULE(2, 90), "t");
        park(&fixture, 1, 4);
        expect_value(fixture.admin, RESCHEDULE(3, 20), "t");
        expect_value(fixture.admin, RESCHEDULE(4, 80), "t");
        expect_value(fixture.admin, DUE_IN(1), "10");
        expect_value(fixture.admin, DUE_IN(2), "90");
        expect_value(fixture.admin, DUE_IN(3), "20");
        expect_value(fixture.admin, DUE_IN(4), "80");
        expect_value(fixture.admin, RESCHEDULE(1, 30), "t"); /* again */
        expect_value(fixture.admin, DUE_IN(1), "30");

        expect_value(fixture.admin, "SELECT courier.reschedule(" EVENT(1) ", '-infinity')", "t");
        expect_value(fixture.admin, "SELECT courier.reschedule(" EVENT(2) ", NULL)", "t");
        expect_value(fixture.admin, "SELECT courier.reschedule(" EVENT(3) ", 'infinity')", "t");
        expect_claimed(&fixture, "1 2");
        expect_value(fixture.admin, CANCEL(1), "f");
        expect_value(fixture.admin, CANCEL(3), "t");
        expect_value(fixture.admin, RESCHEDULE(3, 5), "f");
        expect_value(fixture.admin, PARKED, "1 2 4");
        tear_down(&fixture);
}

/* The lane's row has the time of before. */
Test(waiting_store, a_claim_moves_a_row_whose_event_was_rescheduled)
{
        struct fixture fixture = set_up();

        delay_and_park(&fixture, 2);
        expect_value(fixture.admin, RESCHEDULE(1, 90), "t");
        database_exec(
            fixture.admin, "UPDATE courier.parked SET due_at = now(), waits_until = now()");
        expect_claimed(&fixture, "2");
        expect_value(fixture.admin, DUE_IN(1), "90");
        tear_down(&fixture);
}

/* Neither transaction sees what the other writes. */
Test(waiting_store, an_event_that_is_parked_while_it_is_moved_comes_at_the_new_time)
{
        struct fixture fixture = set_up();
        PGconn *session;

        delay(&fixture, 2);
        session = begin(&fixture, RESCHEDULE(1, 10));
        database_exec(session, "SET CONSTRAINTS ALL IMMEDIATE"); /* as in COMMIT */
        park(&fixture, 1, 2);
        expect_claimed(&fixture, ""); /* 2 is not due; 1 is being changed */
        finish(session, "COMMIT");
        expect_claimed(&fixture, "");
        expect_value(fixture.admin, DUE_IN(1), "10");
        expect_value(fixture.admin, DUE_IN(2), "60");
        tear_down(&fixture);
}

Test(waiting_store, who_moves_an_event_waits_for_those_who_are_just_parking_it)
{
        struct fixture fixture = set_up();
        PGconn *session = database_connect(fixture.dsn);
        PGconn *parker = database_connect(fixture.dsn);

        delay(&fixture, 1);
        database_exec(parker, "BEGIN; SELECT courier.delayed_until(ARRAY[" EVENT(
                                  1) "], ARRAY[now()]);"
                                     "INSERT INTO courier.parked (sink, lane, outbox_id, state, "
                                     "due_at, event_id, topic, payload, created_at)"
                                     " SELECT 'test', 0, id, 'delayed', deliver_at, event_id, "
                                     "topic, payload, created_at FROM courier.outbox");
        PQsendQuery(session, RESCHEDULE(1, 10));
        await_lock(&fixture, "relation = 'courier.delay_gate'::regclass");
        finish(parker, "COMMIT");
        expect_answer(session, "t");
        expect_value(fixture.admin, DUE_IN(1), "10");
        PQfinish(session);
        tear_down(&fixture);
}

/* Its snapshot does not show the row. */
Test(waiting_store, what_a_transaction_could_not_see_is_moved_by_maintain)
{
        struct fixture fixture = set_up();
        PGconn *session = database_connect(fixture.dsn);

        delay(&fixture, 2);
        database_exec(session, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT");
        park(&fixture, 1, 2);
        expect_value(session, RESCHEDULE(1, 10), "t");
        expect_value(session, CANCEL(2), "t");
        finish(session, "COMMIT");
        expect_value(fixture.admin, DUE_IN(1), "60");
        database_exec(fixture.admin, "SELECT courier.maintain()");
        expect_value(fixture.admin, DUE_IN(1), "10");
        let_time_pass(&fixture);
        expect_claimed(&fixture, "1");
        tear_down(&fixture);
}

Test(waiting_store, of_two_transactions_that_change_an_event_one_waits)
{
        struct fixture fixture = set_up();
        PGconn *first, *second = database_connect(fixture.dsn);

        delay_and_park(&fixture, 1);
        first = begin(&fixture, RESCHEDULE(1, 10));
        PQsendQuery(second, CANCEL(1));
        await_lock(&fixture, "locktype = 'advisory' AND classid = 1668248947");
        finish(first, "COMMIT");
        expect_answer(second, "t");
        PQfinish(second);
        expect_value(fixture.admin, PARKED, "");
        tear_down(&fixture);
}

/* As `pgcourier parked retry` and `pgcourier dead redrive` do. */
Test(waiting_store, what_came_before_its_time_by_hand_cannot_be_taken_back)
{
        struct fixture fixture = set_up();
        struct program_run run;

        delay_and_park(&fixture, 3);
        run = program_run(
            NULL, "parked", "retry", "1", "--sink", "test", "--yes", "--dsn", fixture.dsn, NULL);
        cr_assert_eq(run.code, 0, "%s", run.err);
        program_run_free(&run);
        database_exec(fixture.admin,
            "UPDATE courier.parked SET is_redriven = true, due_at = now() WHERE outbox_id = 2");
        expect_claimed(&fixture, "1 2");
        verdicts_add(&fixture.verdicts, VERDICT_DELIVERED, 1, true);
        verdicts_add(&fixture.verdicts, VERDICT_DELIVERED, 2, true);
        settle(&fixture);
        for (int i = 0; i < 2; i++) {
                expect_value(fixture.admin, i == 0 ? CANCEL(1) : CANCEL(2), "f");
                expect_value(fixture.admin, i == 0 ? RESCHEDULE(1, 9) : RESCHEDULE(2, 9), "f");
        }
        expect_value(fixture.admin, CANCEL(3), "t");
        tear_down(&fixture);
}

Test(waiting_store, a_copy_of_a_cancelled_event_is_removed_when_it_is_due)
{
        struct fixture fixture = set_up();

        delay(&fixture, 2);
        expect_value(fixture.admin, CANCEL(1), "t");
        database_exec(fixture.admin,
            "INSERT INTO courier.parked (sink, lane, outbox_id, state, due_at, is_redriven,"
            "  event_id, topic, payload, created_at)"
            " SELECT 'test', 0, id, 'delayed', now(), true, event_id, topic, payload, created_at"
            " FROM courier.outbox");
        expect_claimed(&fixture, "2");
        expect_value(fixture.admin, PARKED, "2");
        tear_down(&fixture);
}

/* Of the outbox nothing is left: what is parked tells when the event is due. */
Test(waiting_store, an_event_that_outlived_the_outbox_can_be_changed)
{
        struct fixture fixture = set_up();

        delay_and_park(&fixture, 3);
        expect_value(fixture.admin, RESCHEDULE(2, 90), "t");
        expect_value(fixture.admin, CANCEL(3), "t");
        database_exec(fixture.admin, "SELECT courier.maintain()");
        expect_value(fixture.admin, "SELECT count(*) FROM courier.delay", "2");

        database_exec(fixture.admin, "TRUNCATE courier.outbox;"
                                     "DELETE FROM courier.outbox_partition WHERE lower = 1;"
                                     "SELECT courier.forget_delays()");
        expect_value(fixture.admin, "SELECT count(*) FROM courier.delay", "0");
        expect_value(fixture.admin, RESCHEDULE(1, 10), "t");
        expect_value(fixture.admin, DUE_IN(1), "10");
        expect_value(fixture.admin, CANCEL(2), "t");
        expect_value(fixture.admin, CANCEL(3), "f");
        expect_value(fixture.admin, PARKED, "1");
        tear_down(&fixture);
}

Test(waiting_store, a_dead_letter_keeps_the_cancellation)
{
        struct fixture fixture = set_up();

        delay_and_park(&fixture, 1);
        database_exec(fixture.admin,
            "INSERT INTO courier.dead_letter (sink, lane, outbox_id, reason, attempts, error, "
            "event_id, topic,"
            "  payload, created_at)"
            " SELECT sink, lane, outbox_id, 'skipped', 0, '', event_id, topic, payload, created_at"
            " FROM courier.parked");
        expect_value(fixture.admin, CANCEL(1), "t");
        database_exec(fixture.admin, "TRUNCATE courier.outbox;"
                                     "DELETE FROM courier.outbox_partition WHERE lower = 1;"
                                     "SELECT courier.forget_delays()");
        expect_value(fixture.admin, "SELECT count(*) FROM courier.delay", "1");
        tear_down(&fixture);
}

Test(waiting_store, publishers_may_change_events_and_not_read_them)
{
        struct fixture fixture = set_up();
        char *dsn = dsn_as_user(fixture.dsn, "app");
        PGconn *app = database_connect(dsn);

        delay_and_park(&fixture, 1);
        expect_value(app, RESCHEDULE(1, 10), "t");
        expect_value(app, CANCEL(1), "t");
        expect_error(app, "SELECT FROM courier.delay", "42501", "permission denied");
        expect_error(
            app, "SELECT courier.find_delayed(" EVENT(1) ")", "42501", "permission denied");
        expect_error(
            app, "SELECT courier.change_delay(" EVENT(1) ", NULL)", "42501", "permission denied");
        PQfinish(app);
        free(dsn);
        tear_down(&fixture);
}

/* The session that cancels is gone, and a crash does not end what it has prepared. */
Test(waiting_store, a_cancellation_may_be_prepared)
{
        struct postgres *postgres = postgres_start();
        char *dsn = postgres_new_database(postgres);
        struct fixture fixture = {.dsn = dsn};
        PGconn *session;

        database_exec_once(dsn, "ALTER SYSTEM SET max_prepared_transactions = 4");
        postgres_stop(postgres);
        postgres_start_again(postgres);
        fixture.admin = database_connect(dsn);
        fixture.rig = store_rig_open(dsn);
        delay_and_park(&fixture, 3);
        session = begin(&fixture, CANCEL(1));
        finish(session, "PREPARE TRANSACTION 'one'");
        session = begin(&fixture, CANCEL(2));
        finish(session, "PREPARE TRANSACTION 'two'");
        database_exec(fixture.admin, "SET lock_timeout = '10ms'");
        expect_error(fixture.admin, CANCEL(1), "55P03", "lock timeout");
        database_exec(fixture.admin,
            "UPDATE courier.parked SET due_at = now(), waits_until = now() WHERE outbox_id = 3");
        expect_claimed(&fixture, "3");
        database_exec(fixture.admin, "COMMIT PREPARED 'one'");
        database_exec(fixture.admin, "ROLLBACK PREPARED 'two'");
        expect_value(fixture.admin, PARKED, "2 3");
        tear_down(&fixture);
}
