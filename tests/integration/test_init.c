/* `pgcourier init`: by flags and at a terminal, between a real database and a file. */
#include "base/alloc.h"
#include "support/postgres.h"
#include "support/terminal.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void free_text(char **text)
{
        free(*text);
}

#define OWNED __attribute__((cleanup(free_text))) char *

static bool file_has(const char *path, const char *text)
{
        OWNED content = read_file(path);

        return strstr(content, text) != NULL;
}

static char *path_in(const char *folder, const char *name)
{
        return xasprintf("%s/%s", folder, name);
}

static void expect_said(const struct program_run *run, const char *text)
{
        if (strstr(run->out, text) == NULL && strstr(run->err, text) == NULL)
                test_abort("\"%s\" is not in:\n%s%s", text, run->out, run->err);
}

static void expect_code(const struct program_run *run, int code)
{
        if (run->code != code)
                test_abort("ended with %d, not %d:\n%s%s", run->code, code, run->out, run->err);
}

static void expect_private(const char *path)
{
        struct stat status;

        cr_assert_eq(stat(path, &status), 0);
        cr_assert_eq(status.st_mode & 0777, 0600);
}

Test(init, writes_a_file_that_check_accepts_and_says_what_the_database_lacks)
{
        OWNED folder = temp_folder();
        OWNED path = path_in(folder, "shop.yaml");
        OWNED admin = postgres_new_empty_database(postgres_shared());
        struct program_run run = program_run(NULL, "init", "--dsn", admin, "--sink",
            "redis=redis://127.0.0.1:1", "--sink", "http=http://127.0.0.1:1/$x", "--sink", "stdout",
            "--sink", "email=smtp://127.0.0.1:1", "--from", "shop@example.org", "--sink",
            "nats=nats://127.0.0.1:1", "--sink", "rabbitmq=amqp://[::1]:1", "--topics",
            "orders.*,!orders.draft", "-o", path, "--admin", NULL);
        struct program_run check;

        expect_code(&run, 0);
        expect_said(&run, "miss  schema: the database has no schema courier");
        expect_said(&run, "Make it:\n        pgcourier migrate --dsn '");
        expect_said(&run, "CREATE ROLE pgcourier LOGIN; GRANT courier_relay TO pgcourier;");
        expect_private(path);
        check = program_run(NULL, "check", "-c", path, NULL);
        expect_code(&check, 0);
        cr_assert(file_has(path, "topics: [\"orders.*\", \"!orders.draft\"]"));
        cr_assert(file_has(path, "listen: 127.0.0.1:8477\n"));
        program_run_free(&check);
        program_run_free(&run);
}

/* Whether the package of Kafka is there is for `check` to say. */
Test(init, writes_a_file_for_kafka_without_its_package)
{
        OWNED folder = temp_folder();
        OWNED path = path_in(folder, "shop.yaml");
        struct program_run run = program_run(NULL, "init", "--dsn", "host=/nonexistent", "--sink",
            "kafka=127.0.0.1:1", "-o", path, "--yes", NULL);

        expect_code(&run, 0);
        cr_assert(file_has(path, "brokers: [\"127.0.0.1:1\"]\n"));
        program_run_free(&run);
}

/* The command that it prints works as it stands. */
Test(init, names_who_may_make_the_schema)
{
        OWNED folder = temp_folder();
        OWNED path = path_in(folder, "shop.yaml");
        OWNED admin = postgres_new_empty_database(postgres_shared());
        PGconn *connection = database_connect(admin);
        OWNED owner = xasprintf(" user=%s'\n", PQuser(connection));
        OWNED stranger = NULL;
        struct program_run run;

        database_exec(connection, "DO $$ BEGIN CREATE ROLE stranger LOGIN; EXCEPTION WHEN"
                                  " duplicate_object THEN NULL; END $$");
        PQfinish(connection);
        stranger = dsn_as_user(admin, "stranger");
        run = program_run(
            NULL, "init", "--dsn", stranger, "--sink", "stdout", "-o", path, "--yes", NULL);
        expect_code(&run, 0);
        expect_said(&run, owner);
        expect_said(&run, "no schema courier. stranger may not make it; its owner may:\n"
                          "        pgcourier migrate --dsn '");
        cr_expect_null(strstr(run.out, "user=stranger"), "%s", run.out);
        program_run_free(&run);
}

Test(init, makes_the_schema_and_names_the_grant_that_a_role_lacks)
{
        OWNED folder = temp_folder();
        OWNED path = path_in(folder, "shop.yaml");
        OWNED dsn = postgres_new_empty_database(postgres_shared());
        OWNED stranger = dsn_as_user(dsn, "stranger");
        PGconn *admin = database_connect(dsn);
        struct program_run made;
        struct program_run lacks;

        database_exec(admin, "CREATE ROLE stranger LOGIN");
        made = program_run(
            NULL, "init", "--dsn", dsn, "--sink", "stdout", "--apply-schema", "-o", path, NULL);
        expect_code(&made, 0);
        expect_said(&made, "ok    schema: made, version ");
        lacks = program_run(
            NULL, "init", "--dsn", stranger, "--sink", "stdout", "-o", path, "--force", NULL);
        expect_code(&lacks, 0);
        expect_said(&lacks, "ok    schema: there is one");
        expect_said(&lacks, "GRANT courier_relay TO stranger;");

        database_exec(admin, "GRANT courier_relay TO stranger");
        program_run_free(&lacks);
        lacks = program_run(
            NULL, "init", "--dsn", stranger, "--sink", "stdout", "-o", path, "--force", NULL);
        expect_said(&lacks, "ok    role: stranger is a member of courier_relay");
        program_run_free(&lacks);
        program_run_free(&made);
        PQfinish(admin);
}

Test(init, puts_a_password_into_a_file_of_its_own)
{
        OWNED folder = temp_folder();
        OWNED path = path_in(folder, "shop.yaml");
        OWNED password_path = path_in(folder, "shop.yaml.password");
        struct program_run run = program_run(NULL, "init", "--dsn",
            "postgresql://app:se%27cr%24et@127.0.0.1:1/shop?connect_timeout=1", "--sink", "stdout",
            "-o", path, NULL);

        expect_code(&run, 0);
        expect_said(&run, "miss  database: ");
        expect_private(path);
        expect_private(password_path);
        cr_assert(file_has(password_path, "se'cr$et\n"));
        cr_assert_not(file_has(path, "cr$"));
        cr_assert_null(strstr(run.out, "cr$et"));
        cr_assert_null(strstr(run.err, "cr$et"));
        program_run_free(&run);
}

Test(init, replaces_no_file_unless_it_is_forced)
{
        OWNED path = program_file("shop.yaml", "mine", 4);
        struct program_run run = program_run(
            NULL, "init", "--dsn", "host=/nonexistent", "--sink", "stdout", "-o", path, NULL);

        expect_code(&run, 2);
        expect_said(&run, "is there already; --force replaces it");
        cr_assert(file_has(path, "mine"));
        program_run_free(&run);
        run = program_run(NULL, "init", "--dsn", "host=/nonexistent", "--sink", "stdout", "-o",
            path, "--force", NULL);
        expect_code(&run, 0);
        cr_assert_not(file_has(path, "mine"));
        program_run_free(&run);
}

Test(init, leaves_nothing_behind_when_something_is_wrong)
{
        OWNED folder = temp_folder();
        OWNED path = path_in(folder, "shop.yaml");
        static const char *const wrong[][2] = {
            {"pulsar=pulsar://x",
                "is not redis=URL, http=URL, email=URL, nats=URL, "
                "rabbitmq=URL, kafka=HOST:PORT, postgres=SCHEMA.FUNCTION or stdout"},
            {"kafka=kafka://x", "sinks[0].kafka.brokers[0]"},
            {"nats=nats://app:secret@127.0.0.1", "holds a password"},
            {"redis=redis://app:secret@127.0.0.1", "holds a password"},
            {"redis=nowhere", "sinks[0].redis.url"},
            {"email=smtp://127.0.0.1", "--from ADDRESS"},
            {"http", "needs a URL"},
        };

        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
                struct program_run run = program_run(NULL, "init", "--dsn",
                    "host=/nonexistent password=x", "--sink", wrong[i][0], "-o", path, NULL);
                cr_assert_neq(run.code, 0);
                expect_said(&run, wrong[i][1]);
                cr_assert_null(strstr(run.err, "secret"));
                program_run_free(&run);
        }
        cr_assert_eq(rmdir(folder), 0, "something is left in %s", folder);
}

Test(init, asks_for_what_is_not_given)
{
        OWNED folder = temp_folder();
        OWNED path = path_in(folder, "shop.yaml");
        OWNED typed = xasprintf(
            "%s\nhost=/nonexistent\nhttp\nhttp://127.0.0.1:1/hook\ny\nstdout\nn\norders.*\ny\n",
            path);
        struct program_run run = terminal_run("Which file to write", typed, "init", NULL);
        struct program_run check;

        expect_code(&run, 0);
        expect_said(&run, "Which database");
        check = program_run(NULL, "check", "-c", path, NULL);
        expect_code(&check, 0);
        cr_assert(file_has(path, "url: \"http://127.0.0.1:1/hook\""));
        cr_assert(file_has(path, "  - name: stdout\n    topics: [\"orders.*\"]"));
        cr_assert(file_has(path, "\nadmin:\n"));
        program_run_free(&check);
        program_run_free(&run);
}
