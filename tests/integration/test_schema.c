/* `pgcourier migrate`: the schema is made once, whole or not at all, however many try at once. */
#include "outbox/schema.h"

#include "base/alloc.h"
#include "support/postgres_expect.h"
#include "support/program.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIGRATE(...) program_run(NULL, "migrate", __VA_ARGS__, NULL)

#define expect_run(run, expected_code, expected_out, expected_err)                                 \
        do {                                                                                       \
                struct program_run actual = (run);                                                 \
                cr_assert_eq(actual.code, (expected_code), "exit code %d, said: %s%s",             \
                    actual.code, actual.out, actual.err);                                          \
                cr_assert_not_null(strstr(actual.out, (expected_out)), "out: %s", actual.out);     \
                cr_assert_not_null(strstr(actual.err, (expected_err)), "err: %s", actual.err);     \
                program_run_free(&actual);                                                         \
        } while (0)

static const char *all_versions(void)
{
        static char text[16];

        snprintf(text, sizeof text, "%d", schema_known_version(&outbox_schema));
        return text;
}

Test(schema, is_made_by_migrate_and_by_no_second_migrate)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        PGconn *connection = database_connect(dsn);

        char *told = xasprintf("nothing to do\nschema courier is at version %s\n", all_versions());

        expect_run(MIGRATE("--dsn", dsn), 0,
            "applied 0001_outbox\napplied 0002_failures\napplied 0003_schedule\n"
            "applied 0004_receivers\n",
            "");
        expect_run(MIGRATE("--dsn", dsn), 0, told, "");

        expect_value(connection, "SELECT count(*) FROM courier.schema_version", all_versions());
        free(told);
        PQfinish(connection);
        free(dsn);
}

Test(schema, has_a_status_before_and_after)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        char *versions = xasprintf(
            "schema version %s, this pgcourier knows %s\n", all_versions(), all_versions());
        char *with_password = xasprintf("%s password=hunter2", dsn);
        struct program_run run = MIGRATE("--dsn", with_password, "status");

        cr_expect_not_null(strstr(run.err, "`pgcourier migrate --dsn '"), "%s", run.err);
        cr_expect_null(strstr(run.err, "hunter2"), "%s", run.err);
        program_run_free(&run);
        free(with_password);
        expect_run(MIGRATE("--dsn", dsn, "status"), 6, "0001_outbox missing\n",
            "pgcourier: schema courier is missing in this database: run `pgcourier migrate --dsn "
            "'");
        expect_run(MIGRATE("--dsn", dsn), 0, "applied", "");
        expect_run(MIGRATE("--dsn", dsn, "status"), 0, "0001_outbox applied 20", "");
        expect_run(MIGRATE("status", "--dsn", dsn), 0, versions, "");
        free(versions);
        free(dsn);
}

Test(schema, is_left_alone_when_newer_than_the_program)
{
        char *dsn = postgres_new_database(postgres_shared());

        database_exec_once(
            dsn, "INSERT INTO courier.schema_version (version, name) VALUES (99, 'later')");

        expect_run(MIGRATE("--dsn", dsn, "status"), 6, "0099_later applied",
            "at version 99, which serves programs of version 99 and later; this pgcourier knows ");
        expect_run(MIGRATE("--dsn", dsn), 6, "", "upgrade pgcourier\n");
        free(dsn);
}

static bool two_wait_for_the_lock(void *context)
{
        return database_integer(context,
                   "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                   " AND database = (SELECT oid FROM pg_database"
                   "                 WHERE datname = current_database())") == 2;
}

/* Both have seen an empty database and wait to change it: the second must notice the first. */
Test(schema, is_made_once_by_two_at_the_same_time)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        PGconn *connection = database_connect(dsn);
        const char *argv[] = {getenv("PGCOURIER"), "migrate", "--dsn", dsn, NULL};
        char *folder = temp_folder();
        char *output_path = xasprintf("%s/output", folder);
        char *output;
        struct process first, second;
        int first_code, second_code;

        database_exec(connection, "SELECT pg_advisory_lock(1668248949, 0)");
        process_start(&first, argv, output_path, false);
        process_start(&second, argv, output_path, false);
        wait_until(two_wait_for_the_lock, connection, 60000, "both wait for the migrations' lock");
        database_exec(connection, "SELECT pg_advisory_unlock(1668248949, 0)");
        first_code = process_wait(&first, 60000);
        second_code = process_wait(&second, 60000);
        output = read_file(output_path);

        cr_assert_eq(first_code, 0, "%s", output);
        cr_assert_eq(second_code, 0, "%s", output);
        cr_assert_not_null(strstr(output, "applied 0001_outbox\n"), "%s", output);
        cr_assert_not_null(
            strstr(output, "0001_outbox was applied by another session meanwhile\n"), "%s", output);
        expect_value(connection, "SELECT count(*) FROM courier.schema_version", all_versions());
        PQfinish(connection);
        free(output);
        free(output_path);
        free(folder);
        free(dsn);
}

/* A relay that sleeps has the doorbell's lock until an event comes, and an upgrade awaits none. */
Test(schema, is_made_while_a_relay_sleeps)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        PGconn *connection = database_connect(dsn);

        database_exec(connection, "SELECT pg_advisory_lock(1668248946, 0)");
        expect_run(MIGRATE("--dsn", dsn), 0, "applied 0001_outbox\n", "");
        PQfinish(connection);
        free(dsn);
}

Test(schema, does_not_depend_on_the_settings_of_the_database)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        PGconn *connection = database_connect(dsn);

        database_exec(connection,
            "DO $$ BEGIN"
            " EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on',"
            "   current_database());"
            " EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable',"
            "   current_database());"
            " EXECUTE format('ALTER DATABASE %I SET search_path = nowhere', current_database());"
            "END $$");

        expect_run(MIGRATE("--dsn", dsn), 0, "applied 0001_outbox\n", "");
        PQfinish(connection);
        free(dsn);
}

/* A cluster of its own: in others the roles exist already. */
Test(schema, is_left_out_whole_by_a_role_that_may_not_create_roles)
{
        struct postgres *postgres = postgres_start_distinct();
        char *dsn = postgres_new_empty_database(postgres);
        char *owner_dsn = dsn_as_user(dsn, "owner");
        PGconn *connection = database_connect(dsn);

        database_exec(connection,
            "CREATE ROLE owner LOGIN;"
            "DO $$ BEGIN"
            " EXECUTE format('ALTER DATABASE %I OWNER TO owner', current_database());"
            "END $$");

        expect_run(MIGRATE("--dsn", owner_dsn), 7, "",
            "Ask an administrator: CREATE ROLE courier_publisher NOLOGIN\n");
        expect_value(connection, "SELECT to_regnamespace('courier') IS NULL", "t");

        database_exec(connection,
            "CREATE ROLE courier_publisher NOLOGIN; CREATE ROLE courier_relay NOLOGIN;"
            "CREATE ROLE courier_attacher NOLOGIN");
        expect_run(MIGRATE("--dsn", owner_dsn), 0, "applied 0001_outbox\n", "");
        PQfinish(connection);
        free(owner_dsn);
        free(dsn);
        postgres_stop(postgres);
}

Test(schema, says_who_may_make_it)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        char *nobody_dsn = dsn_as_user(dsn, "nobody_special");

        database_exec_once(
            dsn, "DROP ROLE IF EXISTS nobody_special; CREATE ROLE nobody_special LOGIN");

        expect_run(MIGRATE("--dsn", nobody_dsn), 7, "", "permission denied for database");
        expect_run(MIGRATE("--dsn", nobody_dsn), 7, "",
            "Use the database's owner or a superuser (--dsn)\n");
        free(nobody_dsn);
        free(dsn);
}

Test(schema, does_not_take_over_a_schema_of_the_same_name)
{
        char *dsn = postgres_new_empty_database(postgres_shared());

        database_exec_once(dsn, "CREATE SCHEMA courier");

        expect_run(MIGRATE("--dsn", dsn), 4, "", "rename or drop it, or use another database\n");
        free(dsn);
}

Test(schema, is_printed_as_it_is_applied)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        struct program_run run = MIGRATE("--print");
        char *file = read_file(PGCOURIER_SQL_FOLDER "/0001_outbox.sql");

        cr_assert_eq(run.code, 0);
        cr_assert_eq(strncmp(run.out, file, strlen(file)), 0, "%s", run.out);
        database_exec_once(dsn, run.out);
        expect_run(MIGRATE("--dsn", dsn, "status"), 0, "0001_outbox applied", "");
        program_run_free(&run);
        free(file);
        free(dsn);
}

Test(schema, is_found_by_the_environment_without_dsn)
{
        struct postgres *postgres = postgres_shared();
        char *dsn = postgres_new_database(postgres);
        PGconn *connection = database_connect(dsn);

        setenv("PGHOST", PQhost(connection), 1);
        setenv("PGPORT", PQport(connection), 1);
        setenv("PGDATABASE", PQdb(connection), 1);
        setenv("PGUSER", "postgres", 1);
        expect_run(MIGRATE("status"), 0, "0001_outbox applied", "");

        setenv("PGHOST", "/nonexistent", 1);
        expect_run(MIGRATE("status"), 4, "",
            "socket? Give --dsn or -c, or set PGHOST, PGUSER, PGDATABASE\n");
        PQfinish(connection);
        free(dsn);
}

Test(schema, is_found_by_a_configuration)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        char *text = xasprintf("postgres: {dsn: \"%s\"}\n"
                               "sinks: [{name: out, topics: [t], stdout: {}}]\n",
            dsn);
        char *path = program_file("config.yaml", text, strlen(text));

        expect_run(MIGRATE("-c", path), 0, "applied 0001_outbox\n", "");
        expect_run(MIGRATE("--dsn", dsn, "status"), 0, "0001_outbox applied", "");
        expect_run(MIGRATE("-c", "/nonexistent"), 3, "", "/nonexistent");
        free(path);
        free(text);
        free(dsn);
}

Test(schema, has_a_version_that_is_judged_with_advice)
{
        struct error error = {0};
        const int ours = schema_known_version(&outbox_schema);

        cr_assert(
            schema_check_version(&outbox_schema, (struct schema_version){ours, ours}, &error));
        cr_assert(
            schema_check_version(&outbox_schema, (struct schema_version){ours + 1, ours}, &error));
        cr_assert(schema_check_version(
            &outbox_schema, (struct schema_version){ours + 2, ours - 1}, &error));
        cr_assert_eq(error.kind, ERROR_NONE);

        cr_assert_not(schema_check_version(&outbox_schema, (struct schema_version){0}, &error));
        cr_assert_eq(error.kind, ERROR_SCHEMA);
        cr_assert_not_null(strstr(error.text, "has to run pgcourier migrate --dsn DSN"));

        cr_assert_not(schema_check_version(
            &outbox_schema, (struct schema_version){ours + 1, ours + 1}, &error));
        cr_assert_eq(error.kind, ERROR_SCHEMA);
        cr_assert_not_null(strstr(error.text, "upgrade pgcourier"));
}

Test(schema, has_migrations_numbered_without_gaps)
{
        int expected = 1;

        for (const struct migration *at = outbox_schema.migrations; at->version != 0; at++)
                cr_assert_eq(at->version, expected++);
        cr_assert_eq(schema_known_version(&outbox_schema), expected - 1);
}

#define MIGRATE_INBOX(...) program_run(NULL, "migrate", "--inbox", __VA_ARGS__, NULL)
#define ACCEPT             "SELECT courier_inbox.accept('billing', '00000000-0000-4000-8000-000000000001')"

Test(inbox_schema, is_made_where_there_is_no_schema_courier)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        PGconn *connection = database_connect(dsn);

        expect_run(MIGRATE_INBOX("status", "--dsn", dsn), 6,
            "0001_inbox missing\n0002_event missing\nschema version 0, this pgcourier knows 2\n",
            "schema courier_inbox is missing in this database: run `pgcourier migrate --inbox "
            "--dsn '");
        expect_run(MIGRATE_INBOX("--dsn", dsn), 0,
            "applied 0001_inbox\napplied 0002_event\nschema courier_inbox is at version 2\n", "");
        expect_run(MIGRATE_INBOX("--dsn", dsn), 0, "nothing to do\n", "");
        expect_run(MIGRATE_INBOX("status", "--dsn", dsn), 0, "0001_inbox applied 20", "");
        expect_value(connection, ACCEPT, "t");
        expect_value(connection, "SELECT to_regnamespace('courier') IS NULL", "t");
        PQfinish(connection);
        free(dsn);
}

Test(inbox_schema, is_made_beside_schema_courier)
{
        char *dsn = postgres_new_database(postgres_shared());

        expect_run(MIGRATE_INBOX("--dsn", dsn), 0, "applied 0001_inbox\napplied 0002_event\n", "");
        expect_run(MIGRATE("--dsn", dsn), 0, "nothing to do\nschema courier is at", "");
        free(dsn);
}

Test(inbox_schema, is_made_in_any_encoding)
{
        static const char *const encodings[] = {"LATIN1", "SQL_ASCII", "EUC_JP"};
        char *dsn = postgres_new_empty_database(postgres_shared());
        PGconn *connection = database_connect(dsn);

        for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++) {
                char *name = xasprintf("inbox_%s", encodings[i]);
                char *create = xasprintf("CREATE DATABASE \"%s\" ENCODING '%s' TEMPLATE template0"
                                         " LOCALE 'C'",
                    name, encodings[i]);
                char *encoded = postgres_dsn(postgres_shared(), name, "postgres");
                PGconn *consumer;

                database_exec(connection, create);
                expect_run(MIGRATE_INBOX("--dsn", encoded), 0,
                    "applied 0001_inbox\napplied 0002_event\n", "");
                consumer = database_connect(encoded);
                expect_value(consumer, ACCEPT, "t");
                PQfinish(consumer);
                free(encoded);
                free(create);
                free(name);
        }
        PQfinish(connection);
        free(dsn);
}

Test(inbox_schema, is_made_once_by_two_at_the_same_time)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        PGconn *connection = database_connect(dsn);
        const char *argv[] = {getenv("PGCOURIER"), "migrate", "--inbox", "--dsn", dsn, NULL};
        struct process both[2];

        database_exec(connection, "SELECT pg_advisory_lock(1768841848, 0)");
        for (int i = 0; i < 2; i++)
                process_start(&both[i], argv, NULL, false);
        wait_until(two_wait_for_the_lock, connection, 60000, "both wait for the migrations' lock");
        database_exec(connection, "SELECT pg_advisory_unlock(1768841848, 0)");
        for (int i = 0; i < 2; i++)
                cr_expect_eq(process_wait(&both[i], 60000), 0);
        expect_value(connection, "SELECT count(*) FROM courier_inbox.schema_version", "2");
        PQfinish(connection);
        free(dsn);
}

Test(inbox_schema, is_printed_as_it_is_applied)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        struct program_run run = MIGRATE_INBOX("--print");
        char *first = read_file(PGCOURIER_SQL_FOLDER "/inbox/0001_inbox.sql");
        char *second = read_file(PGCOURIER_SQL_FOLDER "/inbox/0002_event.sql");

        cr_assert_eq(run.code, 0);
        cr_assert_eq(strncmp(run.out, first, strlen(first)), 0);
        cr_assert_str_eq(run.out + strlen(run.out) - strlen(second), second);
        database_exec_once(dsn, run.out);
        expect_run(MIGRATE_INBOX("--dsn", dsn, "status"), 0, "0001_inbox applied", "");
        expect_run(MIGRATE_INBOX("--print", "--dsn", dsn), 2, "", "--print does not connect");
        program_run_free(&run);
        free(first);
        free(second);
        free(dsn);
}

Test(inbox_schema, does_not_take_over_a_schema_of_the_same_name)
{
        char *dsn = postgres_new_empty_database(postgres_shared());

        database_exec_once(dsn, "CREATE SCHEMA courier_inbox");

        expect_run(
            MIGRATE_INBOX("--dsn", dsn), 4, "", "rename or drop it, or use another database\n");
        free(dsn);
}

Test(inbox_schema, is_left_alone_when_newer_than_the_program)
{
        char *dsn = postgres_new_empty_database(postgres_shared());

        expect_run(MIGRATE_INBOX("--dsn", dsn), 0, "applied", "");
        database_exec_once(
            dsn, "INSERT INTO courier_inbox.schema_version (version, name) VALUES (99, 'later')");
        expect_run(MIGRATE_INBOX("--dsn", dsn), 6, "",
            "schema courier_inbox is at version 99, which serves programs of version 99 and later; "
            "this pgcourier knows 2: "
            "upgrade pgcourier");
        free(dsn);
}

/* A cluster of its own: in others the role exists already. */
Test(inbox_schema, says_who_may_make_it)
{
        struct postgres *postgres = postgres_start_distinct();
        char *dsn = postgres_new_empty_database(postgres);
        char *owner_dsn = dsn_as_user(dsn, "owner");
        char *nobody_dsn = dsn_as_user(dsn, "nobody_special");
        PGconn *connection = database_connect(dsn);

        database_exec(connection,
            "CREATE ROLE owner LOGIN; CREATE ROLE nobody_special LOGIN;"
            "DO $$ BEGIN"
            " EXECUTE format('ALTER DATABASE %I OWNER TO owner', current_database());"
            "END $$");
        expect_run(MIGRATE_INBOX("--dsn", nobody_dsn), 7, "",
            "Use the database's owner or a superuser (--dsn)\n");
        expect_run(MIGRATE_INBOX("status", "--dsn", nobody_dsn), 6, "",
            "nobody_special may not make it; a superuser may: `pgcourier migrate --inbox --dsn '");
        expect_run(MIGRATE_INBOX("--dsn", owner_dsn), 7, "",
            "Ask an administrator: CREATE ROLE courier_consumer NOLOGIN\n");
        expect_value(connection, "SELECT to_regnamespace('courier_inbox') IS NULL", "t");

        database_exec(connection, "CREATE ROLE courier_consumer NOLOGIN");
        expect_run(MIGRATE_INBOX("status", "--dsn", nobody_dsn), 6, "",
            "nobody_special may not make it; its owner may: `");
        expect_run(
            MIGRATE_INBOX("--dsn", owner_dsn), 0, "applied 0001_inbox\napplied 0002_event\n", "");
        PQfinish(connection);
        free(nobody_dsn);
        free(owner_dsn);
        free(dsn);
        postgres_stop(postgres);
}
