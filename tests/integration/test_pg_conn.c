#include "pg/pg_conn.h"
#include "pg/pg_error.h"

#include "base/alloc.h"
#include "support/postgres.h"
#include "support/process.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define DEADLINE_MS 30000

/* More than any socket takes at once. */
enum { LARGE_BYTES = 32 << 20 };

static const struct pg_statement length_of = {
    .name = "length_of", .sql = "SELECT length($1::text)", .n_params = 1};

static const struct pg_statement own_xid = {
    .name = "own_xid", .sql = "SELECT pg_current_xact_id()::text"};

static const struct pg_statement listen_bell = {.name = "listen_bell", .sql = "LISTEN bell"};

struct rig {
        uv_loop_t loop;
        uv_prepare_t before_waiting;
        struct pg_conn *conn;
        char *dsn;
        unsigned n_connected;
        unsigned n_lost;
        unsigned n_results;
        char results[64]; /* each after a space */
        struct error error;
        /* Done once: before the loop next waits, and when next notified. */
        void (*before_wait)(struct rig *rig);
        void (*when_notified)(struct rig *rig);
};

static void do_once(struct rig *rig, void (**act)(struct rig *rig))
{
        void (*now)(struct rig *) = *act;

        *act = NULL;
        if (now != NULL)
                now(rig);
}

static void on_connected(void *owner)
{
        struct rig *rig = owner;

        rig->n_connected++;
        pg_conn_prepare(rig->conn, &length_of);
        pg_conn_prepare(rig->conn, &listen_bell);
        pg_conn_execute(rig->conn, &listen_bell, NULL, false, NULL, NULL);
        pg_conn_greeted(rig->conn);
}

static void on_lost(void *owner, const struct error *error, int64_t retry_ms)
{
        struct rig *rig = owner;

        (void)retry_ms;
        rig->n_lost++;
        rig->error = *error;
}

static void on_notification(void *owner, const char *channel)
{
        struct rig *rig = owner;

        cr_assert_str_eq(channel, "bell");
        do_once(rig, &rig->when_notified);
}

static void on_result(void *owner, PGresult *result)
{
        struct rig *rig = owner;

        rig->n_results++;
        strcat(rig->results, " ");
        strncat(rig->results, PQgetvalue(result, 0, 0), 10);
        PQclear(result);
}

/* The relay, too, sends what it has to say here: after the timers and before the loop waits. */
static void on_before_waiting(uv_prepare_t *handle)
{
        struct rig *rig = handle->data;

        do_once(rig, &rig->before_wait);
}

static void ask_length(struct rig *rig, const char *text)
{
        pg_conn_execute(rig->conn, &length_of, &text, false, on_result, rig);
}

static void await(struct rig *rig, const unsigned *count, unsigned n)
{
        while (*count < n)
                cr_assert_neq(uv_run(&rig->loop, UV_RUN_ONCE), 0);
}

static struct rig *rig_open(const char *dsn)
{
        static const struct pg_conn_events events = {
            .on_connected = on_connected, .on_lost = on_lost, .on_notification = on_notification};
        struct rig *rig = xcalloc(1, sizeof *rig);
        struct postgres_config config = {
            .connect_timeout_ms = DEADLINE_MS, .query_timeout_ms = DEADLINE_MS};

        rig->dsn = config.dsn = xstrdup(dsn);
        uv_loop_init(&rig->loop);
        uv_prepare_init(&rig->loop, &rig->before_waiting);
        rig->before_waiting.data = rig;
        uv_prepare_start(&rig->before_waiting, on_before_waiting);
        rig->conn = pg_conn_create(&rig->loop, "test", &config, &events, rig);
        pg_conn_open(rig->conn);
        await(rig, &rig->n_connected, 1);
        ask_length(rig, "four");
        await(rig, &rig->n_results, 1);
        cr_assert_str_eq(rig->results, " 4");
        return rig;
}

static void rig_close(struct rig *rig)
{
        pg_conn_destroy(rig->conn);
        uv_close((uv_handle_t *)&rig->before_waiting, NULL);
        uv_run(&rig->loop, UV_RUN_DEFAULT);
        cr_assert_eq(uv_loop_close(&rig->loop), 0);
        free(rig->dsn);
        free(rig);
}

static bool is_gone(void *context)
{
        return kill(*(pid_t *)context, 0) != 0 && errno == ESRCH;
}

static void end_backend(const struct rig *rig, int by_signal)
{
        pid_t backend = pg_conn_backend_pid(rig->conn);

        kill(backend, by_signal);
        kill(backend, SIGCONT);
        wait_until(is_gone, &backend, DEADLINE_MS, "the server process ends");
}

static void ask_length_of_large(struct rig *rig)
{
        char *large = xcalloc(1, LARGE_BYTES + 1);

        memset(large, 'x', LARGE_BYTES);
        ask_length(rig, large);
        free(large);
}

/* What is too large to be sent at once makes us wait for the socket to be writable. Then the
 * session ends; the third statement at the latest finds out, and libpq closes the socket. The
 * loop, which has not told the kernel yet what we wait for, must not do it now. */
static void send_and_find_out(struct rig *rig)
{
        struct process backend = {.pid = pg_conn_backend_pid(rig->conn)};

        process_signal(&backend, SIGSTOP);
        ask_length_of_large(rig);
        end_backend(rig, SIGTERM);
        for (int i = 0; i < 3; i++)
                ask_length(rig, "unheard");
        cr_assert_eq(rig->n_lost, 0, "told inside the call");
}

/* The same of a session that ends without a word and owes us no answer. */
static void find_out_at_once(struct rig *rig)
{
        end_backend(rig, SIGKILL);
        ask_length_of_large(rig);
        cr_assert_eq(rig->n_lost, 0, "told inside the call");
}

static void expect_loss_and_a_new_session(struct rig *rig)
{
        unsigned n_results;

        await(rig, &rig->n_lost, 1);
        cr_assert_eq(rig->error.kind, ERROR_DATABASE, "%s", rig->error.text);
        cr_assert_not(pg_conn_is_ready(rig->conn));
        n_results = rig->n_results;

        await(rig, &rig->n_connected, 2);
        ask_length(rig, "again");
        await(rig, &rig->n_results, n_results + 1);
}

Test(pg_conn, survives_that_its_session_ends_while_it_sends)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        struct rig *rig = rig_open(dsn);

        rig->before_wait = send_and_find_out;
        expect_loss_and_a_new_session(rig);
        cr_assert_str_eq(rig->results, " 4 5");
        cr_assert_eq(rig->n_lost, 1);
        rig_close(rig);
        free(dsn);
}

Test(pg_conn, survives_that_its_session_ends_while_it_is_notified)
{
        struct postgres *postgres = postgres_start(); /* whose sessions all end with this one */
        char *dsn = postgres_new_empty_database(postgres);
        struct rig *rig = rig_open(dsn);
        PGconn *admin = database_connect(dsn);

        rig->when_notified = find_out_at_once;
        database_exec(admin, "NOTIFY bell");
        PQfinish(admin);
        expect_loss_and_a_new_session(rig);
        cr_assert_str_eq(rig->results, " 4 5");
        rig_close(rig);
        free(dsn);
        postgres_stop(postgres);
}

static void ask_more(void *owner, PGresult *result)
{
        on_result(owner, result);
        for (int i = 0; i < 3; i++)
                ask_length(owner, "unheard");
}

/* The answer is there, and so is the end, when the loop reads both. */
static void let_it_answer_and_end(struct rig *rig)
{
        const char *text = "abc";
        PGconn *admin = database_connect(rig->dsn);
        char *since = database_value(admin, "SELECT clock_timestamp()");
        char *sql = xasprintf("SELECT state = 'idle' AND state_change > '%s' FROM pg_stat_activity"
                              " WHERE pid = %d",
            since, pg_conn_backend_pid(rig->conn));

        pg_conn_execute(rig->conn, &length_of, &text, false, ask_more, rig);
        await_in_database(admin, sql, "its answer");
        end_backend(rig, SIGTERM);
        PQfinish(admin);
        free(since);
        free(sql);
}

/* For the statement whose sync could not be sent, libpq drops what it knew of those before. */
Test(pg_conn, survives_that_its_session_has_ended_when_a_receiver_sends, .timeout = 60)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        struct rig *rig = rig_open(dsn);

        rig->before_wait = let_it_answer_and_end;
        expect_loss_and_a_new_session(rig);
        cr_assert_str_eq(rig->results, " 4 3 5");
        cr_assert_eq(rig->n_lost, 1);
        rig_close(rig);
        free(dsn);
}

Test(pg_conn, sends_more_than_the_socket_takes_at_once)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        struct rig *rig = rig_open(dsn);

        ask_length_of_large(rig);
        ask_length(rig, "last");
        await(rig, &rig->n_results, 3);
        cr_assert_str_eq(rig->results, " 4 33554432 4");
        cr_assert_eq(rig->n_lost, 0);
        rig_close(rig);
        free(dsn);
}

#define DIVIDE                                                                                     \
        "CREATE FUNCTION divide(n integer) RETURNS integer LANGUAGE plpgsql"                       \
        " AS 'BEGIN RETURN 10 / n; END'"
static const struct pg_statement divide = {
    .name = "divide", .sql = "SELECT divide($1::integer)", .n_params = 1};
static const struct pg_statement forbidden = {
    .name = "forbidden", .sql = "SELECT * FROM pg_authid WHERE $1 <> ''", .n_params = 1};

static void ask_after_failure(void *owner, PGresult *result)
{
        struct rig *rig = owner;
        struct error error;

        pg_error_set_refused(&error, result);
        cr_expect_str_eq(error.text, "refused by the server: ERROR:  division by zero");
        PQclear(result);
        strcat(rig->results, " failed");
        ask_length(rig, "seventh");
}

/* A look relies on it: age() tells the next transaction id once for each transaction. */
Test(pg_conn, makes_each_statement_a_transaction_of_its_own)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        struct rig *rig = rig_open(dsn);
        char *second;

        pg_conn_prepare(rig->conn, &own_xid);
        pg_conn_execute(rig->conn, &own_xid, NULL, false, on_result, rig);
        pg_conn_execute(rig->conn, &own_xid, NULL, false, on_result, rig);
        rig->results[0] = '\0';
        await(rig, &rig->n_results, 3);
        cr_expect_lt(
            strtoull(rig->results, &second, 10), strtoull(second, NULL, 10), "%s", rig->results);
        rig_close(rig);
        free(dsn);
}

Test(pg_conn, goes_on_after_a_statement_that_may_fail)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        PGconn *admin = database_connect(dsn);
        struct rig *rig = rig_open(dsn);

        database_exec(admin, DIVIDE);
        pg_conn_prepare(rig->conn, &divide);
        ask_length(rig, "12");
        for (int i = 0; i < 2; i++)
                pg_conn_try(rig->conn, &divide, (const char *const[]){i == 0 ? "5" : "0"}, false,
                    on_result, ask_after_failure, rig);
        ask_length(rig, "123");
        await(rig, &rig->n_results, 5);
        cr_expect_str_eq(rig->results, " 4 2 2 failed 3 7");
        cr_expect_eq(rig->n_lost, 0);
        rig_close(rig);
        PQfinish(admin);
        free(dsn);
}

/* The SQLSTATE, or the first value; in the order in which transactions end. */
static void on_ended(void *owner, PGresult *result)
{
        struct rig *rig = owner;
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

        strcat(rig->results, " ");
        strcat(rig->results, state != NULL ? state : PQgetvalue(result, 0, 0));
        rig->n_results++;
        PQclear(result);
}

/* A statement that succeeds, and whose commit does not. */
#define DEFER                                                                                      \
        "CREATE TABLE parent (id int PRIMARY KEY);"                                                \
        "CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED);"             \
        "CREATE FUNCTION orphan(id int) RETURNS int LANGUAGE sql AS"                               \
        " 'INSERT INTO child VALUES ($1); SELECT $1'"

Test(pg_conn, tells_every_error_of_a_statement_of_others_to_its_caller)
{
        static const struct pg_statement orphan = {
            .name = "orphan", .sql = "SELECT orphan($1)", .n_params = 1};
        static const struct pg_statement missing = {.name = "missing", .sql = "SELECT missing()"};
        char *dsn = postgres_new_empty_database(postgres_shared());
        PGconn *admin = database_connect(dsn);
        struct rig *rig = rig_open(dsn);

        database_exec(admin, DEFER "; INSERT INTO parent VALUES (2)");
        pg_conn_prepare_run(rig->conn, &missing, on_ended, rig);
        pg_conn_prepare(rig->conn, &orphan);
        pg_conn_run(rig->conn, &orphan, (const char *const[]){"1"}, on_ended, rig);
        ask_length(rig, "12");
        pg_conn_run(rig->conn, &orphan, (const char *const[]){"2"}, on_ended, rig);
        pg_conn_run(rig->conn, &orphan, (const char *const[]){"x"}, on_ended, rig);
        await(rig, &rig->n_results, 6);
        cr_expect_str_eq(rig->results, " 4 42883 23503 2 2 22P02");
        cr_expect_eq(rig->n_lost, 0);
        rig_close(rig);
        PQfinish(admin);
        free(dsn);
}

Test(pg_conn, tells_what_the_server_ends_the_session_with)
{
        static const struct pg_statement end = {
            .name = "end", .sql = "SELECT pg_terminate_backend(pg_backend_pid())"};
        char *dsn = postgres_new_empty_database(postgres_shared());
        struct rig *rig = rig_open(dsn);

        pg_conn_prepare(rig->conn, &end);
        pg_conn_run(rig->conn, &end, NULL, on_ended, rig);
        await(rig, &rig->n_lost, 1);
        cr_expect_str_eq(rig->results, " 4 57P01");
        rig_close(rig);
        free(dsn);
}

Test(pg_conn, is_lost_with_errors_that_are_not_the_statements_own, .timeout = 60)
{
        char *dsn = postgres_new_empty_database(postgres_shared()), *user;
        PGconn *admin = database_connect(dsn);
        struct rig *rig;

        database_exec(admin, "DO $$ BEGIN CREATE ROLE nobody_special LOGIN;"
                             " EXCEPTION WHEN duplicate_object THEN NULL; END $$");
        user = dsn_as_user(dsn, "nobody_special");
        rig = rig_open(user);
        pg_conn_prepare(rig->conn, &forbidden);
        pg_conn_try(rig->conn, &forbidden, (const char *const[]){"x"}, false, on_result,
            ask_after_failure, rig);
        await(rig, &rig->n_lost, 1);
        cr_expect_eq(rig->error.kind, ERROR_PERMISSION);
        rig_close(rig);
        PQfinish(admin);
        free(user);
        free(dsn);
}

/* The sync that finds no memory, counted from 1; 0: none does. */
static unsigned failing_sync;

/* Stands in for libpq's own, which calls it for each result, a sync too. */
PGresult *PQmakeEmptyPGresult(PGconn *pq, ExecStatusType status)
{
        PGresult *(*own)(PGconn *, ExecStatusType) = dlsym(RTLD_NEXT, "PQmakeEmptyPGresult");

        if (status == PGRES_PIPELINE_SYNC && failing_sync > 0 && --failing_sync == 0)
                return NULL;
        return own(pq, status);
}

struct last_statement {
        PGconn *admin;
        char *is_answered;
};

static bool is_answered(void *context)
{
        const struct last_statement *last = context;

        return database_integer(last->admin, last->is_answered) == 1;
}

/* All answers are there before libpq reads the first one. */
static void await_listening(PGconn *admin, const struct rig *rig)
{
        struct last_statement last = {.admin = admin,
            .is_answered = xasprintf("SELECT count(*) FROM pg_stat_activity WHERE pid = %d"
                                     " AND state = 'idle' AND query = 'LISTEN bell'",
                pg_conn_backend_pid(rig->conn))};

        wait_until(is_answered, &last, DEADLINE_MS, "the last statement has been answered");
        free(last.is_answered);
}

/* libpq goes on with the next answer then, as if it were the sync's. */
Test(pg_conn, takes_no_answer_for_that_of_another_statement_when_memory_ends, .timeout = 60)
{
        static const struct pg_statement one = {.name = "one", .sql = "SELECT 1"};
        static const struct pg_statement error = {.name = "error", .sql = "SELECT 1 / 0"};
        static const char *const right[] = {
            " 4", " 4", " 4", " 4 1", " 4 1 22012 3", " 4 1 22012 3"};
        char *dsn = postgres_new_empty_database(postgres_shared());
        PGconn *admin = database_connect(dsn);

        for (unsigned i = 0; i < 6; i++) {
                struct rig *rig = rig_open(dsn);

                pg_conn_prepare(rig->conn, &one);
                pg_conn_prepare(rig->conn, &error);
                pg_conn_run(rig->conn, &one, NULL, on_ended, rig);
                pg_conn_run(rig->conn, &error, NULL, on_ended, rig);
                ask_length(rig, "333");
                pg_conn_execute(rig->conn, &listen_bell, NULL, false, NULL, NULL);
                await_listening(admin, rig);
                failing_sync = i + 1;
                await(rig, &rig->n_lost, 1);
                cr_expect_eq(failing_sync, 0);
                cr_expect_str_eq(rig->results, right[i], "sync %u:%s", i + 1, rig->results);
                cr_expect_not_null(strstr(rig->error.text, "memory"), "%s", rig->error.text);
                rig_close(rig);
        }
        PQfinish(admin);
        free(dsn);
}
