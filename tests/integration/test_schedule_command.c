/* `pgcourier schedule`: what it makes, shows and changes. */
#include "base/alloc.h"
#include "support/postgres_expect.h"
#include "support/program.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define SCHEDULE(...) program_run(NULL, "schedule", __VA_ARGS__, NULL)

/* NULL: whatever it is. */
static bool is_as_expected(const char *out, const char *expected)
{
        return expected == NULL || strcmp(out, expected) == 0;
}

#define expect_run(run, expected_code, expected_out, expected_err)                                 \
        do {                                                                                       \
                struct program_run actual = (run);                                                 \
                cr_expect_eq(actual.code, (expected_code), "exit code %d, said: %s%s",             \
                    actual.code, actual.out, actual.err);                                          \
                cr_expect(is_as_expected(actual.out, (expected_out)), "out: %s", actual.out);      \
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
        static const char expected[] = "NAME   TICKS                          STATE  NEXT          "
                                       "       LAST                 TOPIC"
                                       "    MISSED ERROR\n"
                                       "beat   every 1 hour 30 mins           active "
                                       "2999-01-01T12:00:00Z                      "
                                       "ops.beat all    \n"
                                       "report at 06:30 mon,fri Europe/Berlin active "
                                       "2999-01-04T05:30:00Z 2026-01-01T00:00:00Z "
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

Test(schedule_command, makes_one_of_what_it_is_told)
{
        char *dsn = postgres_new_database(postgres_shared());
        char *app = dsn_as_user(dsn, "app");
        PGconn *connection = database_connect(dsn);

        expect_run(SCHEDULE("add", "close", "--topic", "books.close", "--cron", "0 18 * * friL",
                       "--time-zone", "europe/berlin", "--payload", "{\"n\": \"{{tick}}\"}",
                       "--starting", "2999-01-01T00:00Z", "--until", "2999-12-31T00:00Z", "--times",
                       "9", "--jitter", "10 minutes", "--missed", "all", "--overlap", "queue",
                       "--key", "k", "--type", "y", "--dsn", app),
            0, "close: next tick 2999-01-25T17:00:00Z\n", "");
        expect_value(connection,
            "SELECT (topic, cron, time_zone, payload, until - starting, times, jitter, missed, "
            "overlap,"
            " key, type) FROM courier.schedule",
            "(books.close,\"0 18 * * friL\",Europe/Berlin,\"{\"\"n\"\": \"\"{{tick}}\"\"}\",\"364 "
            "days\",9,"
            "00:10:00,all,queue,k,y)");
        expect_run(SCHEDULE("add", "at", "--topic", "t", "--at", "06:30", "--days", "mon,FRI",
                       "--starting", "2999-01-01T00:00Z", "--dsn", app),
            0, "at: next tick 2999-01-04T06:30:00Z\n", "");
        expect_value(connection, "SELECT (days, payload) FROM courier.schedule WHERE name = 'at'",
            "(\"{mon,fri}\",{})");
        expect_run(SCHEDULE("add", "at", "--topic", "t", "--every", "1 hour", "--until",
                       "2020-01-01", "--dsn", app),
            0, "at: has ended, there is no tick\n", "");
        PQfinish(connection);
        free(app);
        free(dsn);
}

Test(schedule_command, says_what_is_wrong_with_a_new_one)
{
        char *dsn = postgres_new_database(postgres_shared());

        expect_run(SCHEDULE("add", "s", "--topic", "t", "--cron", "0 0 * * mon-fru", "--dsn", dsn),
            2, "",
            "0 0 * * mon-fru\n            ^\npgcourier: schedule 's': cron: 'fru' is no day of "
            "week. Write");
        expect_run(SCHEDULE("add", "s", "--topic", "t", "--cron", "", "--dsn", dsn), 2, "",
            "\n^\npgcourier: schedule 's': cron: the minute is missing. Write");
        expect_run(SCHEDULE("add", "s", "--topic", "t", "--dsn", dsn), 2, "",
            "give one of every, at and cron");
        expect_run(SCHEDULE("add", "s", "--every", "1 hour", "--dsn", dsn), 2, "",
            "schedule add needs --topic");
        expect_run(SCHEDULE("add", "s", "--topic", "t", "--every", "soon", "--dsn", dsn), 2, "",
            "invalid input syntax for type interval: \"soon\"");
        expect_run(
            SCHEDULE("add", "s", "--topic", "t", "--every", "1h", "--payload", "{", "--dsn", dsn),
            2, "", "invalid input syntax for type json");
        expect_run(SCHEDULE("add", "s", "--topic", "", "--every", "1h", "--dsn", dsn), 2, "",
            "schedule s: topic must not be empty");
        free(dsn);
}

Test(schedule_command, shows_its_next_ticks)
{
        char *dsn = database_with_schedules();
        char *app = dsn_as_user(dsn, "app");
        PGconn *connection = database_connect(dsn);

        expect_run(SCHEDULE("next", "report", "--count", "2", "--dsn", app), 0,
            "TICK                 DUE\n"
            "2999-01-04T05:30:00Z 2999-01-04T05:30:00Z\n"
            "2999-01-07T05:30:00Z 2999-01-07T05:30:00Z\n",
            "");
        expect_run(SCHEDULE("next", "beat", "--count", "1", "--json", "--dsn", app), 0,
            "{\"tick\":\"2999-01-01T12:00:00.000000Z\",\"due_at\":\"2999-01-01T12:00:00.000000Z\"}"
            "\n",
            "");
        expect_run(SCHEDULE("pause", "beat", "--dsn", app), 0, "paused beat\n", "");
        expect_run(SCHEDULE("next", "beat", "--dsn", app), 0, "", "it is paused or has ended");
        expect_run(SCHEDULE("next", "bet", "--dsn", app), 8, "",
            "there is no schedule \"bet\"; did you mean \"beat\"?");
        PQfinish(connection);
        free(app);
        free(dsn);
}

Test(schedule_command, pauses_resumes_and_runs)
{
        char *dsn = database_with_schedules();
        char *app = dsn_as_user(dsn, "app");
        PGconn *connection = database_connect(dsn);
        struct program_run run;
        char *said;

        expect_run(SCHEDULE("pause", "beat", "--dsn", app), 0, "paused beat\n", "");
        run = SCHEDULE("list", "--dsn", app);
        cr_expect_not_null(
            strstr(run.out, "beat   every 1 hour 30 mins           paused        "), "%s", run.out);
        program_run_free(&run);
        run = SCHEDULE("run", "beat", "--dsn", app);
        said = database_value(
            connection, "SELECT 'published ' || event_id || E'\\n' FROM courier.outbox");
        cr_expect_str_eq(run.out, said);
        program_run_free(&run);
        free(said);
        expect_run(SCHEDULE("resume", "beat", "--dsn", app), 0, "resumed beat\n", "");
        expect_value(
            connection, "SELECT count(*) FROM courier.schedule WHERE paused_at IS NOT NULL", "0");
        expect_run(SCHEDULE("pause", "x", "--dsn", app), 8, "", "there is no schedule \"x\"");
        expect_run(SCHEDULE("resume", "x", "--dsn", app), 8, "", "there is no schedule \"x\"");
        expect_run(SCHEDULE("run", "x", "--dsn", app), 8, "", "there is no schedule \"x\"");
        PQfinish(connection);
        free(app);
        free(dsn);
}

Test(schedule_command, shows_one_and_its_history)
{
        char *dsn = database_with_schedules();
        char *app = dsn_as_user(dsn, "app");
        char *relay = dsn_as_user(dsn, "relay");
        PGconn *connection = database_connect(dsn);
        struct program_run run;
        json_t *shown;
        const char *state, *by;
        json_t *history;

        database_exec(connection, "INSERT INTO courier.sink (name, fans_out) VALUES ('bus', false);"
                                  "UPDATE courier.schedule SET skipped = 4, payload = "
                                  "'{\"secret\":\n 1}' WHERE name = 'beat';"
                                  "SELECT courier.run_schedule('beat')");
        run = SCHEDULE("show", "beat", "--dsn", relay);
        cr_expect_not_null(
            strstr(run.out, "name        beat\nstate       active\nticks       every 1 hour 30"
                            " mins\nstarting    2999-01-01T12:00:00Z\n"),
            "%s", run.out);
        cr_expect_not_null(strstr(run.out, "skipped     4\n"), "%s", run.out);
        cr_expect_not_null(strstr(run.out, "secret"), "%s", run.out);
        cr_expect_not_null(strstr(run.out, " by hand bus  waiting "), "%s", run.out);
        program_run_free(&run);

        /* A publisher sees neither payload nor deliveries. */
        run = SCHEDULE("show", "beat", "--dsn", app);
        cr_expect_eq(run.code, 0, "%s", run.err);
        cr_expect_not_null(strstr(run.out, "skipped     4\n"), "%s", run.out);
        cr_expect(
            strstr(run.out, "secret") == NULL && strstr(run.out, "waiting") == NULL, "%s", run.out);
        program_run_free(&run);

        run = SCHEDULE("show", "beat", "--json", "--dsn", relay);
        shown = json_loads(run.out, 0, NULL);
        cr_assert_eq(json_unpack(shown, "{s:s, s:[o,*]}", "state", &state, "history", &history), 0,
            "%s", run.out);
        cr_expect_str_eq(state, "active");
        cr_assert_eq(json_unpack(history, "{s:b, s:[{s:s,*},*]}", "run_by_hand", &(int){0},
                         "deliveries", "sink", &by),
            0);
        cr_expect_str_eq(by, "bus");
        json_decref(shown);
        program_run_free(&run);
        run = SCHEDULE("show", "beat", "--json", "--dsn", app);
        cr_expect(run.code == 0 && strstr(run.out, "secret") == NULL, "%s%s", run.out, run.err);
        program_run_free(&run);
        expect_run(SCHEDULE("show", "x", "--dsn", relay), 8, "", "there is no schedule \"x\"");
        expect_run(
            SCHEDULE("show", "beat", "--events", "x", "--dsn", relay), 2, "", "--events: \"x\"");
        PQfinish(connection);
        free(relay);
        free(app);
        free(dsn);
}

static const char crontab[] = "# work\n"
                              "MAILTO = root\n"
                              "\n"
                              "*/5 * * * *\t/bin/fetch.sh 'it''s' 50\\% >> log\n"
                              "CRON_TZ=\"Europe/Berlin\"\n"
                              "  0 9 * * mon   /opt/fetch.sh \"x\"\n"
                              "@daily ls%input\n"
                              "@reboot start\n"
                              "1 2 3 4 5\n";

Test(schedule_command, makes_schedules_of_a_crontab)
{
        char *dsn = postgres_new_database(postgres_shared());
        char *app = dsn_as_user(dsn, "app");
        char *path = program_file("crontab", crontab, strlen(crontab));
        char *notes = xasprintf("%s:2: the environment's MAILTO is left out\n"
                                "%s:7: the command's input, behind %%, is left out\n"
                                "%s:8: @reboot is no time\n"
                                "%s:9: no command stands behind the times\n"
                                "3 schedules, and nothing is changed; --apply makes them\n",
            path, path, path, path);
        PGconn *connection = database_connect(dsn);
        struct program_run run;

        run = SCHEDULE("import", path, "--dsn", app);
        cr_expect_eq(run.code, 0);
        cr_expect_str_eq(run.out,
            "SELECT courier.schedule('fetch-sh', 'cron.fetch-sh', '{\"command\": \"/bin/fetch.sh"
            " ''it''''s'' 50% >> log\"}', cron => '*/5 * * * *');\n"
            "SELECT courier.schedule('fetch-sh-2', 'cron.fetch-sh-2', E'{\"command\":"
            " \"/opt/fetch.sh \\\\\"x\\\\\"\"}', cron => '0 9 * * mon', time_zone => "
            "'Europe/Berlin');\n"
            "SELECT courier.schedule('ls', 'cron.ls', '{\"command\": \"ls\"}', cron => '@daily',"
            " time_zone => 'Europe/Berlin');\n");
        cr_expect_str_eq(run.err, notes);
        expect_value(connection, "SELECT count(*) FROM courier.schedule", "0");
        /* What it prints does the same as --apply. */
        database_exec(connection, run.out);
        database_exec(connection, "CREATE TABLE was AS SELECT name, cron, time_zone, payload::text"
                                  " FROM courier.schedule; DELETE FROM courier.schedule");
        program_run_free(&run);
        run = SCHEDULE("import", path, "--apply", "--dsn", app);
        cr_expect(run.code == 0 && strstr(run.err, "\nmade 3 schedules\n") != NULL, "%s", run.err);
        program_run_free(&run);
        expect_value(connection,
            "SELECT count(*) FROM courier.schedule AS s JOIN was USING (name, cron, time_zone)"
            " WHERE s.payload::text = was.payload",
            "3");
        expect_run(SCHEDULE("import", path, "--apply", "--dsn", app), 0, NULL, "made 3 schedules");
        PQfinish(connection);
        free(notes);
        free(path);
        free(app);
        free(dsn);
}

Test(schedule_command, imports_nothing_if_a_line_is_refused)
{
        static const char lines[] = "0 0 * * mon-fru a\n* * * * * b\n0 0 30 2 * c\n@hourly d\n";
        char *dsn = postgres_new_database(postgres_shared());
        char *path = program_file("crontab", lines, strlen(lines));
        PGconn *connection = database_connect(dsn);

        database_exec(connection, "SELECT courier.schedule('d', 'mine', '{}', at => '6:30')");
        expect_run(SCHEDULE("import", path, "--apply", "--dsn", dsn), 2, NULL,
            ":1: schedule 'a': cron: 'fru' is no day of week\n");
        expect_run(SCHEDULE("import", path, "--apply", "--dsn", dsn), 2, NULL,
            ":3: schedule 'c': cron: no year has such a day\n");
        expect_run(SCHEDULE("import", path, "--apply", "--dsn", dsn), 2, NULL,
            ":4: there is a schedule \"d\" already, with the topic mine\n"
            "pgcourier: 3 are refused, so nothing is changed");
        expect_value(connection, "SELECT string_agg(topic, ' ') FROM courier.schedule", "mine");
        expect_run(SCHEDULE("import", "--dsn", dsn), 2, "", "needs either a file or --pg-cron");
        expect_run(
            SCHEDULE("import", path, "--pg-cron", "--dsn", dsn), 2, "", "needs either a file or");
        PQfinish(connection);
        free(path);
        free(dsn);
}

/* Nothing of a file is passed over in silence, and no terminal obeys it. */
Test(schedule_command, notes_what_no_crontab_has)
{
        static const char with_nul[] = "@daily a\n\0@hourly b\n";
        static const char odd[] = "@daily %x\nMAILTO\033[2J = root\n";
        char *dsn = postgres_new_database(postgres_shared());
        char *path = program_file("crontab", with_nul, sizeof with_nul - 1);

        expect_run(
            SCHEDULE("import", path, "--apply", "--dsn", dsn), 2, "", "holds a NUL byte, so it is");
        free(path);
        path = program_file("crontab", odd, strlen(odd));
        expect_run(SCHEDULE("import", path, "--dsn", dsn), 0, "",
            ":1: no command stands behind the times\n");
        expect_run(SCHEDULE("import", path, "--dsn", dsn), 0, "",
            ":2: the environment's MAILTO?[2J is left out\n");
        free(path);
        free(dsn);
}

Test(schedule_command, leaves_the_user_of_a_system_crontab_out)
{
        static const char line[] = "17 * * * * root cd / && run-parts\n@daily root\n";
        char *dsn = postgres_new_database(postgres_shared());
        char *path = program_file("crontab", line, strlen(line));

        expect_run(SCHEDULE("import", path, "--system", "--time-zone", "Asia/Tokyo", "--dsn", dsn),
            0,
            "SELECT courier.schedule('cd', 'cron.cd', '{\"command\": \"cd / && run-parts\"}',"
            " cron => '17 * * * *', time_zone => 'Asia/Tokyo');\n",
            ":1: the user root is left out\n");
        free(path);
        free(dsn);
}

/* The extension is not here; its table is all that is read. */
Test(schedule_command, makes_schedules_of_the_jobs_of_pg_cron)
{
        char *dsn = postgres_new_database(postgres_shared());
        PGconn *connection = database_connect(dsn);

        expect_run(
            SCHEDULE("import", "--pg-cron", "--dsn", dsn), 8, "", "there is no table cron.job");
        database_exec(connection,
            "CREATE SCHEMA cron; CREATE TABLE cron.job (jobid bigint, schedule text, command text,"
            " database text, active boolean, jobname name); INSERT INTO cron.job VALUES"
            " (1, '30 3 * * 6', 'DELETE FROM x', current_database(), true, NULL),"
            " (2, '0 0 $ * *', 'VACUUM', current_database(), true, 'clean'),"
            " (3, '10 seconds', 'CALL p()', current_database(), true, 'clean'),"
            " (4, '* * * * *', 'x', 'elsewhere', true, 'b'),"
            " (5, '* * * * *', 'x', current_database(), false, 'c')");
        expect_run(SCHEDULE("import", "--pg-cron", "--dsn", dsn), 0,
            "SELECT courier.schedule('DELETE', 'cron.DELETE', '{\"command\": \"DELETE FROM x\"}',"
            " cron => '30 3 * * 6', time_zone => 'GMT');\n"
            "SELECT courier.schedule('clean', 'cron.clean', '{\"command\": \"VACUUM\"}',"
            " cron => '0 0 L * *', time_zone => 'GMT');\n"
            "SELECT courier.schedule('clean-2', 'cron.clean-2', '{\"command\": \"CALL p()\"}',"
            " every => '10 seconds', time_zone => 'GMT');\n",
            "pg_cron:job 4: it runs in the database elsewhere\npg_cron:job 5: it is not active\n3 "
            "sch");
        PQfinish(connection);
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
        expect_run(SCHEDULE("list", "--dsn", dsn), 0, "",
            "there are no schedules; `pgcourier schedule add` makes one");
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
            "schedule remove takes no --json; it is for: list, show, next");
        expect_run(SCHEDULE("--json"), 2, "",
            "schedule needs a subcommand. Possible: add, list, show, next, run, pause, "
            "resume, remove, import");
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
