/*
 * courier_inbox.accept(): true once for each consumer and event, however sessions meet. Time is moved
 * by courier_inbox.settings: that the ring turned earlier is all that it knows of time.
 */
#include "base/alloc.h"
#include "support/postgres_expect.h"

#include <criterion/criterion.h>
#include <string.h>

#define ID(n)     "'00000000-0000-4000-8000-00000000000" #n "'"
#define ACCEPT(n) "SELECT courier_inbox.accept('billing', " ID(n) ")"

static char *dsn;
static PGconn *first, *second, *admin;

static void start(void)
{
        char *sql = read_file(PGCOURIER_SQL_FOLDER "/inbox/0001_inbox.sql");

        dsn = postgres_new_empty_database(postgres_shared());
        first = database_connect(dsn);
        second = database_connect(dsn);
        admin = database_connect(dsn);
        database_exec(admin, sql);
        /* A session that waits for ever fails. Not by lock_timeout: maintain() would take that for a
         * lock which is not free. */
        database_exec(first, "SET statement_timeout = '20s'");
        database_exec(second, "SET statement_timeout = '20s'");
        database_exec(admin, "SET statement_timeout = '20s'");
        free(sql);
}

static void stop(void)
{
        PQfinish(first);
        PQfinish(second);
        PQfinish(admin);
        free(dsn);
}

TestSuite(inbox, .init = start, .fini = stop);

/* As if the ring had turned that much earlier. */
static void let_pass(const char *interval)
{
        char *sql = xasprintf(
            "UPDATE courier_inbox.settings SET turned_at = turned_at - interval '%s'", interval);

        database_exec(admin, sql);
        free(sql);
}

static void turn(void)
{
        char *said;

        let_pass("30 days");
        said = database_value(admin, "SELECT courier_inbox.maintain()");
        cr_assert_eq(strncmp(said, "turned: ", 8), 0, "%s", said);
        free(said);
}

static void empty_spare(void)
{
        char *said;

        let_pass("1 day");
        said = database_value(admin, "SELECT courier_inbox.maintain()");
        cr_assert_eq(strncmp(said, "emptied ", 8), 0, "%s", said);
        free(said);
}

static bool second_waits_for_first(void *context)
{
        char *sql = xasprintf("SELECT count(*) FROM unnest(pg_blocking_pids(%d)) AS pid"
                              " WHERE pid = %d",
            PQbackendPID(second), PQbackendPID(first));
        const bool waits = database_integer(context, sql) == 1;

        free(sql);
        return waits;
}

static void ask_second(const char *sql)
{
        cr_assert(PQsendQuery(second, sql), "%s", PQerrorMessage(second));
        wait_until(second_waits_for_first, admin, 60000, "the second session waits for the first");
}

/* What the second session is answered: a value, or an SQLSTATE. */
static void expect_second(const char *expected)
{
        PGresult *result = PQgetResult(second);
        const bool is_answered = PQresultStatus(result) == PGRES_TUPLES_OK;
        const char *answer =
            is_answered ? PQgetvalue(result, 0, 0) : PQresultErrorField(result, PG_DIAG_SQLSTATE);

        cr_expect_str_eq(answer, expected, "%s", PQresultErrorMessage(result));
        PQclear(result);
        while ((result = PQgetResult(second)) != NULL)
                PQclear(result);
}

Test(inbox, accepts_an_event_once_for_each_consumer)
{
        expect_value(first, ACCEPT(1), "t");
        expect_value(first, ACCEPT(1), "f");
        expect_value(second, ACCEPT(1), "f");
        expect_value(first, "SELECT courier_inbox.accept('mailing', " ID(1) ")", "t");
        expect_value(first, ACCEPT(2), "t");
        expect_value(first,
            "SELECT string_agg(consumer || right(event_id::text, 1), ' '"
            "  ORDER BY consumer, event_id)"
            " FROM courier_inbox.accepted",
            "billing1 billing2 mailing1");
}

Test(inbox, accepts_an_event_again_whose_transaction_was_rolled_back)
{
        database_exec(first, "BEGIN");
        expect_value(first, ACCEPT(1), "t");
        expect_value(first, ACCEPT(1), "f");
        database_exec(first, "SAVEPOINT s");
        expect_value(first, ACCEPT(2), "t");
        database_exec(first, "ROLLBACK TO s");
        expect_value(first, ACCEPT(2), "t");
        database_exec(first, "ROLLBACK");

        expect_value(first, ACCEPT(1), "t");
        expect_value(second, ACCEPT(2), "t");
}

enum { NO_TURN, TURN };

/* The first session has accepted the event and is still open; then time passes. Returns while the
 * second waits. */
static void let_two_meet(int time_passes)
{
        database_exec(first, "BEGIN");
        expect_value(first, ACCEPT(1), "t");
        if (time_passes == TURN)
                turn();
        ask_second(ACCEPT(1));
}

Test(inbox, lets_the_second_wait_and_refuses_it_if_the_first_commits)
{
        let_two_meet(NO_TURN);
        database_exec(first, "COMMIT");
        expect_second("f");
}

Test(inbox, lets_the_second_wait_and_accepts_if_the_first_rolls_back)
{
        let_two_meet(NO_TURN);
        database_exec(first, "ROLLBACK");
        expect_second("t");
        expect_value(first, ACCEPT(1), "f");
}

/* Whichever slot is the current one at the beginning: the two that are used differ each time. */
Test(inbox, is_exact_while_the_ring_turns)
{
        for (int i = 0; i < 3; i++) {
                let_two_meet(TURN);
                database_exec(first, "COMMIT");
                expect_second("f");
                empty_spare();
                expect_value(first, ACCEPT(1), "f");
                database_exec(first, "SELECT courier_inbox.forget('billing')");

                let_two_meet(TURN);
                database_exec(first, "ROLLBACK");
                expect_second("t");
                empty_spare();
                database_exec(first, "SELECT courier_inbox.forget('billing')");
        }
}

/* What was accepted since its snapshot a transaction cannot see; the unique index can. */
static void expect_serialization_failure(const char *level, bool turns)
{
        char *begin = xasprintf("BEGIN ISOLATION LEVEL %s; SELECT", level);

        database_exec(second, begin); /* the snapshot */
        expect_value(first, ACCEPT(1), "t");
        if (turns)
                turn();
        expect_error(second, ACCEPT(1), "40001", "concurrent");
        database_exec(second, "ROLLBACK");
        database_exec(second, begin);
        expect_value(second, ACCEPT(1), "f");
        expect_value(second, ACCEPT(2), "t");
        expect_value(second, ACCEPT(2), "f");
        database_exec(second, "ROLLBACK");
        database_exec(first, "SELECT courier_inbox.forget('billing')");
        free(begin);
}

Test(inbox, is_exact_at_every_isolation_level)
{
        expect_serialization_failure("REPEATABLE READ", false);
        expect_serialization_failure("SERIALIZABLE", false);
        for (int i = 0; i < 3; i++) {
                expect_serialization_failure("REPEATABLE READ", true);
                empty_spare();
        }
}

/* The transaction believes that the ring stands where it stood in its snapshot, and that the step
 * is due. */
Test(inbox, is_exact_in_a_transaction_that_cannot_see_the_ring_turn)
{
        let_pass("30 days");
        database_exec(second, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT");
        turn();
        empty_spare();
        expect_value(second, ACCEPT(1), "t");
        database_exec(second, "COMMIT");

        expect_value(first, ACCEPT(1), "f");
}

Test(inbox, recognises_an_event_for_the_retention_and_no_longer_than_twice_that)
{
        expect_value(first, ACCEPT(1), "t"); /* at the very beginning of a turn */
        let_pass("30 days - 1 minute");
        expect_value(first, ACCEPT(2), "t"); /* at the very end */
        expect_value(first, ACCEPT(1), "f");
        turn();
        empty_spare();
        let_pass("29 days - 1 minute");
        expect_value(first, ACCEPT(3), "t"); /* would turn the ring if that were due */
        expect_value(first, ACCEPT(2), "f");

        turn();
        expect_value(first, ACCEPT(1), "t");
        expect_value(first, ACCEPT(2), "t");
        expect_value(first, ACCEPT(3), "f");
}

Test(inbox, keeps_no_event_for_ever)
{
        expect_value(first,
            "SELECT count(courier_inbox.accept('billing', gen_random_uuid()))"
            " FROM generate_series(1, 100)",
            "100");
        turn();
        empty_spare();
        expect_value(first, "SELECT count(*) FROM courier_inbox.accepted", "100");
        turn();
        empty_spare();
        expect_value(first, "SELECT count(*) FROM courier_inbox.accepted", "0");
        expect_value(first,
            "SELECT sum(pg_relation_size(format('courier_inbox.slot_%s', n)))"
            " FROM generate_series(0, 2) AS n",
            "0");
}

/* No daemon: the next call does what is due. */
Test(inbox, turns_and_empties_by_itself)
{
        expect_value(first, ACCEPT(1), "t");
        let_pass("30 days");
        expect_value(first, ACCEPT(2), "t");
        expect_value(first, "SELECT current || ' ' || spare_is_empty FROM courier_inbox.settings",
            "1 false");
        let_pass("1 day");
        expect_value(first,
            "SELECT courier_inbox.accept_many('billing', ARRAY[" ID(3) "]::uuid[])"
                                                                       " IS NOT NULL",
            "t");
        expect_value(
            first, "SELECT current || ' ' || spare_is_empty FROM courier_inbox.settings", "1 true");
        expect_value(first, "SELECT count(*) FROM courier_inbox.slot_0", "0");
        expect_value(first, ACCEPT(1), "f");
}

/* A consumer's transaction keeps the locks of the step that it took; no other session waits. */
static void expect_no_wait_for_first(const char *isolation)
{
        char *set = xasprintf("SET default_transaction_isolation = '%s'", isolation);

        database_exec(second, set);
        expect_value(second, "SELECT courier_inbox.accept('mailing', gen_random_uuid())", "t");
        expect_value(second,
            "SELECT count(*) FROM courier_inbox.accept_many('mailing', ARRAY[gen_random_uuid()])",
            "1");
        free(set);
}

Test(inbox, lets_no_session_wait_for_a_transaction_that_turned_the_ring)
{
        expect_value(first, ACCEPT(1), "t");
        let_pass("30 days");
        database_exec(first, "BEGIN");
        expect_value(first, ACCEPT(1), "f"); /* turns, and leaves slot 0 as it is */
        expect_no_wait_for_first("read committed");
        expect_no_wait_for_first("serializable");
        database_exec(first, "COMMIT");

        let_pass("30 days");
        database_exec(first, "BEGIN");
        expect_value(first, ACCEPT(2), "t"); /* empties it, and turns */
        expect_value(admin,
            "SELECT count(*) FROM pg_locks WHERE relation ="
            " 'courier_inbox.slot_0'::regclass AND mode = 'AccessExclusiveLock'",
            "1");
        expect_no_wait_for_first("read committed");
        expect_no_wait_for_first("serializable");
        database_exec(first, "ROLLBACK");

        expect_value(first, "SELECT current FROM courier_inbox.settings", "1");
        database_exec(second, "SET default_transaction_isolation = 'read committed'");
        expect_value(second, ACCEPT(2), "t");
        expect_value(first, "SELECT current FROM courier_inbox.settings", "2");
        expect_value(first, ACCEPT(2), "f");
}

Test(inbox, lets_no_session_wait_for_a_transaction_that_emptied_a_slot)
{
        turn();
        let_pass("1 day");
        database_exec(first, "BEGIN");
        expect_value(first, ACCEPT(1), "t");
        expect_no_wait_for_first("read committed");
        database_exec(first, "COMMIT");
        expect_value(first, "SELECT spare_is_empty FROM courier_inbox.settings", "t");
}

/* An old transaction has used the slot that is to be emptied. */
Test(inbox, does_not_wait_for_a_slot_that_is_in_use)
{
        database_exec(first, "BEGIN");
        expect_value(first, ACCEPT(1), "t");
        turn();
        let_pass("1 day");
        expect_value(admin, "SELECT courier_inbox.maintain()", "slot_0 is in use");
        expect_no_wait_for_first("read committed");
        let_pass("29 days");
        expect_value(admin, "SELECT courier_inbox.maintain()", "slot_0 is in use");
        expect_no_wait_for_first("read committed");

        database_exec(first, "COMMIT");
        expect_value(second, ACCEPT(1), "f");
        expect_value(admin, "SELECT courier_inbox.maintain()", "nothing to do");
        expect_value(admin, "SELECT current FROM courier_inbox.settings", "2");
}

Test(inbox, obeys_another_retention_at_once)
{
        expect_value(first, ACCEPT(1), "t");
        let_pass("7 days");
        expect_value(admin, "SELECT courier_inbox.maintain()", "nothing to do");
        database_exec(admin, "UPDATE courier_inbox.settings SET retention = '7 days'");
        expect_value(admin, "SELECT courier_inbox.maintain()", "turned: slot_1 is the current one");
        expect_error(admin, "UPDATE courier_inbox.settings SET retention = '59 minutes'", "23514",
            "retention_must_be_at_least_an_hour");
        expect_error(admin, "INSERT INTO courier_inbox.settings DEFAULT VALUES", "23505", "");
}

Test(inbox, accepts_many_at_once)
{
        expect_value(first, ACCEPT(2), "t");
        expect_value(first,
            "SELECT array_agg(id) = ARRAY[" ID(1) "," ID(3) "]::uuid[] FROM"
                                                            " courier_inbox.accept_many('billing',"
                                                            "  ARRAY[" ID(3) "," ID(1) "," ID(
                                                                2) "," ID(3) "]::uuid[]) AS id",
            "t");
        expect_value(first, ACCEPT(3), "f");
        turn();
        expect_value(first,
            "SELECT count(*) FROM courier_inbox.accept_many('billing',"
            " ARRAY[" ID(1) "," ID(2) "," ID(3) "," ID(4) "]::uuid[])",
            "1");
        expect_value(first, "SELECT count(*) FROM courier_inbox.accept_many('billing', '{}')", "0");
}

/* The first has one id and waits for none; the second has another before it comes to that. */
Test(inbox, takes_the_ids_of_a_batch_in_one_order)
{
        database_exec(first, "BEGIN");
        database_exec(second, "BEGIN");
        expect_value(first, ACCEPT(1), "t");
        ask_second("SELECT count(*) FROM courier_inbox.accept_many('billing',"
                   " ARRAY[" ID(3) "," ID(2) "," ID(1) "]::uuid[])");
        expect_value(first,
            "SELECT count(*) FROM courier_inbox.accept_many('billing',"
            " ARRAY[" ID(3) "," ID(1) "]::uuid[])",
            "1");
        database_exec(first, "COMMIT");
        expect_second("1");
        database_exec(second, "COMMIT");
}

Test(inbox, refuses_what_is_no_consumer_and_no_id)
{
        char *long_name = xasprintf("SELECT courier_inbox.accept('%0101d', " ID(1) ")", 0);
        char *longest = xasprintf("SELECT courier_inbox.accept('%0100d', " ID(1) ")", 0);

        expect_error(first, long_name, "22023", "1 to 100 characters");
        expect_value(first, longest, "t");
        expect_error(first, "SELECT courier_inbox.accept('', " ID(1) ")", "22023", "''");
        expect_error(first, "SELECT courier_inbox.accept(E'a\\nb', " ID(1) ")", "22023",
            "no control characters");
        expect_error(first, "SELECT courier_inbox.accept(NULL, " ID(1) ")", "22004", "NULL");
        expect_error(first, "SELECT courier_inbox.accept('billing', NULL)", "22004", "NULL");
        expect_error(first, "SELECT courier_inbox.accept_many('', '{}')", "22023", "''");
        expect_error(first, "SELECT courier_inbox.accept_many('billing', NULL)", "22004", "NULL");
        expect_error(
            first, "SELECT courier_inbox.accept_many('billing', '{NULL}')", "22004", "NULL");
        free(longest);
        free(long_name);
}

Test(inbox, lets_an_event_be_accepted_again_that_is_forgotten)
{
        expect_value(first,
            "SELECT count(courier_inbox.accept('mailing', event_id)) FROM"
            " courier_inbox.accept_many('billing', ARRAY[" ID(1) "," ID(2) "]::uuid[])"
                                                                           " AS event_id",
            "2");
        turn();
        expect_value(first, "SELECT courier_inbox.forget('billing', " ID(1) ")", "1");
        expect_value(first, ACCEPT(1), "t");
        expect_value(first, ACCEPT(2), "f");
        expect_value(first, "SELECT courier_inbox.forget('billing')", "2");
        expect_value(first, ACCEPT(2), "t");
        expect_value(first, "SELECT courier_inbox.accept('mailing', " ID(1) ")", "f");
}

/* Few events that come often, to sessions that do not agree on the isolation level, around a turn. */
Test(inbox, accepts_no_event_twice_in_a_crowd)
{
        enum { N_SESSIONS = 8, N_ROUNDS = 240, N_EVENTS = 120 };
        PGconn *sessions[N_SESSIONS];
        unsigned state = 17;
        int n_refused = 0;

        database_exec(admin, "CREATE TABLE done (id integer)");
        for (int i = 0; i < N_SESSIONS; i++) {
                sessions[i] = database_connect(dsn);
                if (i % 2 != 0)
                        database_exec(
                            sessions[i], "SET default_transaction_isolation = 'repeatable read'");
        }
        for (int round = 0; round < N_ROUNDS; round++) {
                if (round == N_ROUNDS / 3)
                        turn();
                if (round == N_ROUNDS * 2 / 3)
                        empty_spare();
                state = state * 1103515245 + 12345;
                for (int i = 0; i < N_SESSIONS; i++) {
                        char *sql = xasprintf("INSERT INTO done SELECT %u WHERE"
                                              " courier_inbox.accept('billing', md5('%u')::uuid)",
                            (state >> 16) % N_EVENTS, (state >> 16) % N_EVENTS);
                        cr_assert(PQsendQuery(sessions[i], sql));
                        free(sql);
                }
                for (int i = 0; i < N_SESSIONS; i++) {
                        PGresult *result;
                        while ((result = PQgetResult(sessions[i])) != NULL) {
                                const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
                                n_refused += sqlstate != NULL;
                                cr_assert(sqlstate == NULL || strcmp(sqlstate, "40001") == 0, "%s",
                                    PQresultErrorMessage(result));
                                PQclear(result);
                        }
                }
        }
        expect_value(admin, "SELECT count(*) - count(DISTINCT id) FROM done", "0");
        expect_value(admin,
            "SELECT count(DISTINCT id) = (SELECT count(*) FROM courier_inbox.accepted) FROM done",
            "t");
        cr_log_info("%d transactions had to be repeated", n_refused);
        for (int i = 0; i < N_SESSIONS; i++)
                PQfinish(sessions[i]);
}

Test(inbox, lets_a_consumer_accept_and_nothing_else)
{
        char *app_dsn;
        PGconn *app;

        database_exec(admin, "DROP ROLE IF EXISTS biller; CREATE ROLE biller LOGIN;"
                             "GRANT courier_consumer TO biller");
        app_dsn = dsn_as_user(dsn, "biller");
        app = database_connect(app_dsn);
        expect_value(app, ACCEPT(1), "t");
        expect_value(app,
            "SELECT count(*) FROM courier_inbox.accept_many('billing',"
            " ARRAY[" ID(1) "," ID(2) "]::uuid[])",
            "1");
        let_pass("30 days");
        expect_value(app, ACCEPT(1), "f"); /* and turns the ring */
        expect_value(admin, "SELECT current FROM courier_inbox.settings", "1");
        expect_error(app, "SELECT courier_inbox.maintain()", "42501", "permission denied");
        expect_error(app, "SELECT courier_inbox.forget('billing')", "42501", "permission denied");
        expect_error(app, "SELECT courier_inbox.refuse('')", "42501", "permission denied");
        PQfinish(app);
        free(app_dsn);

        expect_value(admin,
            "SELECT coalesce(string_agg(relname || ' ' || what, ', '), 'none') FROM pg_class,"
            " unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[]) AS what"
            " WHERE relnamespace = 'courier_inbox'::regnamespace AND relkind IN ('r', 'v')"
            " AND has_table_privilege('biller', pg_class.oid, what)",
            "none");
        expect_value(admin,
            "SELECT count(*) FROM (SELECT nspacl FROM pg_namespace WHERE nspname = 'courier_inbox'"
            " UNION ALL SELECT coalesce(proacl, acldefault('f', proowner)) FROM pg_proc"
            "  WHERE pronamespace = 'courier_inbox'::regnamespace) AS of (acl),"
            " aclexplode(acl) WHERE grantee = 0",
            "0");
        expect_value(admin,
            "SELECT coalesce(string_agg(proname, ', '), 'none') FROM pg_proc"
            " WHERE pronamespace = 'courier_inbox'::regnamespace"
            " AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)",
            "none");
        database_exec(admin, "DROP ROLE biller");
}
