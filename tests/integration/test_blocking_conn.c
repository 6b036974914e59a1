#include "pg/blocking_conn.h"

#include "base/alloc.h"
#include "support/postgres.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct blocking_conn *open_or_die(const char *dsn, int64_t answer_timeout_ms)
{
        struct error error = {0};
        struct blocking_conn *conn = blocking_conn_open(
            &(struct blocking_conn_settings){
                .dsn = dsn, .connect_timeout_ms = 10000, .answer_timeout_ms = answer_timeout_ms},
            &error);

        cr_assert_not_null(conn, "%s", error.text);
        return conn;
}

static enum error_kind kind_of_failure(struct blocking_conn *conn, const char *sql)
{
        struct error error = {0};

        cr_assert_not(blocking_conn_run(conn, sql, &error), "%s", sql);
        return error.kind;
}

Test(blocking_conn, names_itself_and_speaks_utf8)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        struct blocking_conn *conn = open_or_die(dsn, 0);
        struct error error;
        struct rows *rows;

        rows = blocking_conn_query(conn,
            "SELECT current_setting('application_name'), current_setting('client_encoding'), NULL",
            NULL, 0, &error);

        cr_assert_not_null(rows, "%s", error.text);
        cr_assert_str_eq(rows_text(rows, 0, 0), "pgcourier");
        cr_assert_str_eq(rows_text(rows, 0, 1), "UTF8");
        cr_assert_null(rows_text(rows, 0, 2));
        rows_free(rows);
        blocking_conn_close(conn);
        free(dsn);
}

Test(blocking_conn, carries_large_values_whole)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        struct blocking_conn *conn = open_or_die(dsn, 60000);
        const size_t n_bytes = 20 << 20;
        char *bytes = xcalloc(1, n_bytes);
        const struct parameter parameter = {.value = bytes, .n_bytes = n_bytes, .is_binary = true};
        struct error error;
        struct rows *rows;

        rows = blocking_conn_query(conn, "SELECT octet_length($1::bytea)", &parameter, 1, &error);

        cr_assert_not_null(rows, "%s", error.text);
        cr_assert_str_eq(rows_text(rows, 0, 0), "20971520");
        rows_free(rows);
        free(bytes);
        blocking_conn_close(conn);
        free(dsn);
}

Test(blocking_conn, tells_failures_apart_and_stays_usable)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        struct blocking_conn *conn = open_or_die(dsn, 0);
        struct error error;

        cr_expect_eq(kind_of_failure(conn, "SELEC"), ERROR_DATABASE);
        cr_expect_eq(kind_of_failure(conn, "SELECT FROM nowhere.thing"), ERROR_SCHEMA);
        cr_expect_eq(kind_of_failure(conn, "SELECT nowhere.thing()"), ERROR_SCHEMA);
        cr_expect_eq(kind_of_failure(conn, "DO $$ BEGIN RAISE insufficient_privilege; END $$"),
            ERROR_PERMISSION);
        cr_expect_eq(
            kind_of_failure(conn, "DO $$ BEGIN RAISE deadlock_detected; END $$"), ERROR_TEMPORARY);
        cr_expect_eq(kind_of_failure(conn, "SET statement_timeout = 1; SELECT pg_sleep(60)"),
            ERROR_TEMPORARY);
        cr_expect(blocking_conn_run(conn, "SELECT 1; SELECT 2", &error));
        cr_expect_str_eq(blocking_conn_sqlstate(conn), "");
        blocking_conn_close(conn);
        free(dsn);
}

Test(blocking_conn, keeps_the_row_that_broke_a_rule_out_of_the_error)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        struct blocking_conn *conn = open_or_die(dsn, 0);
        struct error error;

        cr_assert(blocking_conn_run(
            conn, "CREATE TABLE t (secret text CONSTRAINT be_short CHECK (secret < 'a'))", &error));
        cr_assert_not(blocking_conn_run(conn, "INSERT INTO t VALUES ('hunter2')", &error));

        cr_expect_null(strstr(error.text, "hunter2"), "%s", error.text);
        cr_expect_str_eq(blocking_conn_constraint(conn), "be_short");
        blocking_conn_close(conn);
        free(dsn);
}

Test(blocking_conn, puts_detail_and_hint_on_one_line)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        struct blocking_conn *conn = open_or_die(dsn, 0);
        struct error error;

        cr_assert_not(blocking_conn_run(conn,
            "DO $$ BEGIN RAISE EXCEPTION E'no\\nway' USING DETAIL = 'the why', HINT = 'Do this'; "
            "END $$",
            &error));

        cr_expect_str_eq(error.text, "no; way: the why. Do this");
        blocking_conn_close(conn);
        free(dsn);
}

Test(blocking_conn, keeps_the_notices_of_the_last_statement)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        struct blocking_conn *conn = open_or_die(dsn, 0);
        struct error error;

        cr_expect_str_empty(blocking_conn_notices(conn));
        cr_assert(blocking_conn_run(conn,
            "SET client_min_messages = debug;"
            "DO $$ BEGIN RAISE NOTICE E'one\nand \e[1m'; RAISE WARNING 'two'; RAISE DEBUG 'no';"
            " END $$",
            &error));
        cr_expect_str_eq(blocking_conn_notices(conn), "one; and [1m\ntwo\n");
        kind_of_failure(conn, "DO $$ BEGIN RAISE NOTICE 'three'; PERFORM 1 / 0; END $$");
        cr_expect_str_eq(blocking_conn_notices(conn), "three\n");
        cr_assert(blocking_conn_run(conn, "SELECT 1", &error));
        cr_expect_str_empty(blocking_conn_notices(conn));
        cr_assert(blocking_conn_run(conn,
            "DO $$ BEGIN FOR i IN 1 .. 10000 LOOP RAISE NOTICE 'again'; END LOOP; END $$", &error));
        cr_expect_lt(strlen(blocking_conn_notices(conn)), 10000);
        blocking_conn_close(conn);
        free(dsn);
}

Test(blocking_conn, gives_up_on_a_server_that_does_not_answer)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        struct blocking_conn *conn = open_or_die(dsn, 50);
        struct error error = {0};

        cr_assert_not(blocking_conn_run(conn, "SELECT pg_sleep(600)", &error));

        cr_expect_eq(error.kind, ERROR_DATABASE);
        cr_expect_not_null(strstr(error.text, "has not answered for 0.1 s"), "%s", error.text);
        blocking_conn_close(conn);
        free(dsn);
}

Test(blocking_conn, reports_a_lost_connection)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        struct blocking_conn *conn = open_or_die(dsn, 0);
        struct error error = {0};

        cr_assert_not(
            blocking_conn_run(conn, "SELECT pg_terminate_backend(pg_backend_pid())", &error));
        cr_assert_not(blocking_conn_run(conn, "SELECT 1", &error));

        cr_expect_eq(error.kind, ERROR_DATABASE);
        cr_expect_not_null(strstr(error.text, "lost the connection"), "%s", error.text);
        blocking_conn_close(conn);
        free(dsn);
}

Test(blocking_conn, never_echoes_a_password)
{
        static const char *const bad_dsns[] = {"postgres//app:hunter2@db/shop",
            "password=hunter2 nonsense", "password = 'hunter2",
            "postgresql://app:hunter2@[::1/shop", "postgresql://db/shop?password=hunter2&%zz=1",
            "host=/nonexistent password=hunter2", "passfile hunter2"};
        struct error error;

        for (size_t i = 0; i < sizeof bad_dsns / sizeof *bad_dsns; i++) {
                cr_assert_null(
                    blocking_conn_open(&(struct blocking_conn_settings){.dsn = bad_dsns[i],
                                           .connect_timeout_ms = 1000},
                        &error));
                cr_expect_null(strstr(error.text, "hunter2"), "%s", error.text);
        }
}
