/* Databases that are not in UTF8: no relay gets as far as to deliver from one. */
#include "base/alloc.h"
#include "support/postgres.h"
#include "support/program.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define REFUSAL "and pgcourier needs UTF8"

static char *make_database(const char *encoding)
{
        char *dsn = postgres_dsn(postgres_shared(), "postgres", "postgres");
        PGconn *admin = database_connect(dsn);
        char *sql = xasprintf("CREATE DATABASE \"%s\" ENCODING '%s' LOCALE 'C' TEMPLATE template0",
            encoding, encoding);

        database_exec(admin, sql);
        PQfinish(admin);
        free(sql);
        free(dsn);
        return postgres_dsn(postgres_shared(), encoding, "postgres");
}

static void expect_refusal(struct program_run run, int code, const char *encoding)
{
        const char *said = strstr(run.out, REFUSAL) != NULL ? run.out : run.err;

        cr_expect_eq(run.code, code, "%d: %s%s", run.code, run.out, run.err);
        cr_expect_not_null(strstr(said, REFUSAL), "%s%s", run.out, run.err);
        cr_expect_not_null(strstr(said, encoding), "%s%s", run.out, run.err);
        cr_expect_not_null(strstr(said, "CREATE DATABASE"), "%s%s", run.out, run.err);
        program_run_free(&run);
}

/* Its statements are understood in any encoding: what it finds is said, not why it cannot look. */
static void expect_diagnosis(const char *config_path)
{
        struct program_run run = program_run(NULL, "doctor", "-c", config_path, NULL);

        cr_expect_not_null(
            strstr(run.out, "is a superuser, which the relay does not need"), "%s", run.out);
        cr_expect_null(strstr(run.out, "no equivalent in encoding"), "%s", run.out);
        program_run_free(&run);
}

/* As another tool may have made it. */
static void make_schema(const char *dsn)
{
        struct program_run run = program_run(NULL, "migrate", "--print", NULL);
        PGconn *admin = database_connect(dsn);

        cr_assert_eq(PQsetClientEncoding(admin, "UTF8"), 0);
        database_exec(admin, run.out);
        PQfinish(admin);
        program_run_free(&run);
}

static void expect_refusals(const char *encoding)
{
        char *dsn = make_database(encoding);
        char *text = xasprintf(
            "postgres: {dsn: \"%s\"}\nsinks: [{name: out, topics: ['**'], stdout: {}}]\n", dsn);
        char *path = program_file("config.yaml", text, strlen(text));

        expect_refusal(program_run(NULL, "migrate", "--dsn", dsn, NULL), 6, encoding);
        expect_refusal(program_run(NULL, "check", "--connect", "-c", path, NULL), 6, encoding);
        make_schema(dsn);
        expect_refusal(program_run(NULL, "check", "--connect", "-c", path, NULL), 6, encoding);
        expect_refusal(program_run(NULL, "doctor", "-c", path, NULL), 1, encoding);
        expect_diagnosis(path);
        expect_refusal(program_run(NULL, "run", "-c", path, NULL), 6, encoding);
        expect_refusal(program_run(NULL, "run", "--once", "-c", path, NULL), 6, encoding);
        free(path);
        free(text);
        free(dsn);
}

Test(encodings, sql_ascii_is_refused)
{
        expect_refusals("SQL_ASCII");
}

Test(encodings, latin1_is_refused)
{
        expect_refusals("LATIN1");
}
