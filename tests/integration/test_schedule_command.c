/* `pgcourier schedule`: what it lists, and that it removes. */
#include "base/alloc.h"
#include "support/postgres.h"
#include "support/program.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define SCHEDULE(...) program_run(NULL, "schedule", __VA_ARGS__, NULL)

#define expect_run(run, expected_code, expected_out, expected_err)                                 \
        do {                                                                                       \
                struct program_run actual = (run);                                                 \
                cr_expect_eq(actual.code, (expected_code), "exit code %d, said: %s%s",             \
                    actual.code, actual.out, actual.err);                                          \
                cr_expect_str_eq(actual.out, (expected_out), "out: %s", actual.out);               \
                cr_expect_not_null(strstr(actual.err, (expected_err)), "err: %s", actual.err);     \
                program_run_free(&actual);                                                         \
        } while (0)

static char *database_with_schedules(void)
{
        char *dsn = postgres_new_database(postgres_shared());
        PGconn *connection = database_connect(dsn);

        database_exec(connection,
            "SELECT courier.schedule('beat', 'ops.beat', '{}', every => '90 min', missed => 'all',"
            " starting => '2999-01-01 12:00Z');"
            "SELECT courier.schedule('report', 'reports', '{}', at => '06:30', days => '{mon,fri}',"
            " time_zone => 'Europe/Berlin', starting => '2999-01-01Z');"
            "UPDATE courier.schedule SET last_at = '2026-01-01Z', last_error = E'no\\nspace'"
            " WHERE name = 'report'");
        PQfinish(connection);
        return dsn;
}

Test(schedule_command, lists_for_people)
{
        char *dsn = database_with_schedules();
        char *app = dsn_as_user(dsn, "app");
        char *relay = dsn_as_user(dsn, "relay");
        static const char expected[] =
            "NAME   TICKS                          NEXT                 LAST                 TOPIC"
            "    MISSED ERROR\n"
            "beat   every 1 hour 30 mins           2999-01-01T12:00:00Z                      "
            "ops.beat all    \n"
            "report at 06:30 mon,fri Europe/Berlin 2999-01-04T05:30:00Z 2026-01-01T00:00:00Z "
            "reports  one    no\\x0aspace\n";

        /* The role's own settings do not show. */
        setenv("PGOPTIONS", "-c timezone=Asia/Kolkata -c intervalstyle=sql_standard", 1);
        expect_run(SCHEDULE("list", "--dsn", dsn), 0, expected, "");
        expect_run(SCHEDULE("list", "--dsn", app), 0, expected, "");
        expect_run(SCHEDULE("--dsn", relay, "list"), 0, expected, "");
        free(relay);
        free(app);
        free(dsn);
}

Test(schedule_command, lists_for_programs)
{
        char *dsn = database_with_schedules();
        struct program_run run = SCHEDULE("list", "--json", "--dsn", dsn);
        char *second = strchr(run.out, '\n') + 1;
        json_t *beat = json_loads(run.out, JSON_DISABLE_EOF_CHECK, NULL);
        json_t *report = json_loads(second, 0, NULL);
        const char *every, *next_at, *time_zone, *last_error, *day;

        cr_assert_eq(run.code, 0, "%s", run.err);
        cr_assert_eq(
            json_unpack(beat, "{s:s, s:n, s:s}", "every", &every, "at", "next_at", &next_at), 0);
        cr_expect_str_eq(every, "PT1H30M");
        cr_expect_str_eq(next_at, "2999-01-01T12:00:00.000000Z");
        cr_assert_eq(json_unpack(report, "{s:n, s:[s,*], s:s, s:s}", "every", "days", &day,
                         "time_zone", &time_zone, "last_error", &last_error),
            0);
        cr_expect_str_eq(day, "mon");
        cr_expect_str_eq(time_zone, "Europe/Berlin");
        cr_expect_str_eq(last_error, "no\nspace");
        json_decref(beat);
        json_decref(report);
        program_run_free(&run);
        free(dsn);
}

Test(schedule_command, removes_one_and_says_if_there_is_none)
{
        char *dsn = database_with_schedules();
        char *app = dsn_as_user(dsn, "app");

        expect_run(SCHEDULE("remove", "report", "--dsn", app), 0, "removed report\n", "");
        expect_run(SCHEDULE("remove", "report", "--dsn", app), 8, "",
            "there is no schedule \"report\"; see `pgcourier schedule list --dsn '");
        expect_run(SCHEDULE("remove", "beat", "--dsn", dsn), 0, "removed beat\n", "");
        expect_run(SCHEDULE("list", "--dsn", dsn), 0, "", "there are no schedules; SELECT");
        expect_run(SCHEDULE("list", "--json", "--dsn", dsn), 0, "", "there are no schedules");
        expect_run(SCHEDULE("list", "--fail-empty", "--dsn", dsn), 8, "", "there are no schedules");
        free(app);
        free(dsn);
}

Test(schedule_command, refuses_what_it_does_not_understand)
{
        char *dsn = database_with_schedules();

        expect_run(SCHEDULE("lst"), 2, "", "schedule cannot \"lst\"; did you mean \"list\"?");
        expect_run(SCHEDULE("list", "x"), 2, "", "schedule list: unexpected argument \"x\"");
        expect_run(SCHEDULE("remove"), 2, "", "schedule remove: an argument is missing");
        expect_run(SCHEDULE("remove", "x", "--json"), 2, "",
            "schedule remove takes no --json; it is for: list");
        expect_run(
            SCHEDULE("--json"), 2, "", "schedule needs a subcommand. Possible: list, remove");
        expect_run(SCHEDULE("remove", "\xff", "--dsn", dsn), 2, "", "the name is not valid: ");
        free(dsn);
}

Test(schedule_command, says_what_a_role_or_a_schema_lacks)
{
        char *dsn = database_with_schedules();
        char *empty = postgres_new_empty_database(postgres_shared());
        PGconn *connection = database_connect(dsn);
        char *nobody = dsn_as_user(dsn, "nobody");
        char *app = dsn_as_user(dsn, "app");

        database_exec(connection, "DROP ROLE IF EXISTS nobody; CREATE ROLE nobody LOGIN");
        expect_run(SCHEDULE("list", "--dsn", nobody), 7, "",
            "permission denied for schema courier. An administrator can allow it: GRANT "
            "courier_publisher TO \"nobody\"\n");
        expect_run(SCHEDULE("remove", "beat", "--dsn", nobody), 7, "", "GRANT courier_publisher");
        expect_run(
            SCHEDULE("list", "--dsn", empty), 6, "", "See `pgcourier migrate status --dsn '");
        database_exec(connection, "DROP TABLE courier.schedule CASCADE");
        expect_run(SCHEDULE("list", "--dsn", app), 6, "",
            "relation \"courier.schedule\" does not exist. See `pgcourier migrate status --dsn '");
        PQfinish(connection);
        free(app);
        free(nobody);
        free(empty);
        free(dsn);
}
