/* What is wrong does not stop the checks that do not depend on it. */
#include "cli/doctor/report.h"

#include "cli/commands.h"
#include "config/config.h"
#include "pg/blocking_conn.h"
#include "pg/dsn.h"

enum { CONFIG, CONNECT, JSON };

static const struct command_option options[] = {
    [CONFIG] = {"config", 'c', "FILE", false, "the configuration; required"},
    [CONNECT] = {"connect", 0, NULL, false,
        "connect to PostgreSQL and to each sink as well;\nsends no event"},
    [JSON] = {"json", 0, NULL, false, "print one JSON object"},
    {0},
};

static void check_configured_database(const struct config *config, struct report *report)
{
        struct blocking_conn *conn = check_connection(config, report);

        if (conn != NULL)
                check_database(conn, &config->postgres, config, report);
        blocking_conn_close(conn);
}

static void check_config(const char *path, bool connects, struct report *report)
{
        struct error error = {0};
        struct config *config = config_load(path, &error);
        bool may_free = true;

        if (config == NULL) {
                report_fail(report, error.kind, "config",
                    "Correct the file or its path, then check again", "%s", error.text);
                return;
        }
        if (dsn_check(config->postgres.dsn, &error)) {
                report_ok(report, "config", "%s is valid", path);
                if (connects)
                        check_configured_database(config, report);
        } else {
                report_fail(report, error.kind, "config", "Correct postgres.dsn", "%s", error.text);
        }
        may_free = check_sinks(config, connects, report);
        if (may_free)
                config_free(config);
}

static bool run_check(const struct arguments *arguments, struct error *error)
{
        struct report *report;

        if (!arguments_has(arguments, CONFIG))
                return error_set(
                    error, ERROR_USAGE, "check needs a configuration: pgcourier check -c FILE");
        report = report_create(arguments_has(arguments, JSON));
        check_config(arguments_value(arguments, CONFIG), arguments_has(arguments, CONNECT), report);
        return report_finish(report, error);
}

const struct command check_command = {
    .name = "check",
    .summary = "check the configuration, and what it names",
    .usage = "-c FILE [--connect] [--json]",
    .details =
        "Checks the file alone; with --connect also what would keep `run` from working:\n"
        "PostgreSQL's version, the schema, the role's rights, the doorbell, and whether each\n"
        "sink can be reached. Prints a line for each finding: ok, warn or fail. The first\n"
        "failure decides on the exit code.\n",
    .options = options,
    .run = run_check,
};
