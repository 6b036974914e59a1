#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/sink_name.h"
#include "operator/pause_rows.h"

#include <stdio.h>

enum { FAIL_EMPTY };

static const struct command_option options[] = {
    [FAIL_EMPTY] = {"fail-empty", 0, NULL, false, "end with 8 if the sink is not paused"},
    {0},
};

/* A misspelt name is worth an error; the name of a sink that merely is not paused is not. */
static bool was_not_paused(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error)
{
        const char *sink = arguments->operands[0];
        const char *config_path = arguments->config_path;

        if (config_path != NULL && !sink_name_check(conn, sink, config_path, error))
                return false;
        if (arguments_has(arguments, FAIL_EMPTY))
                return error_set(error, ERROR_EMPTY, "%.64s is not paused", sink);
        fprintf(stderr, "%s is not paused\n", sink);
        return true;
}

static bool resume(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error)
{
        const char *sink = arguments->operands[0];
        struct rows *rows = pauses_remove(conn, sink, error);
        bool ok = true;

        if (rows == NULL)
                return false;
        if (rows_count(rows) == 0)
                ok = was_not_paused(conn, arguments, error);
        else
                printf("%s goes on\n", sink);
        rows_free(rows);
        return ok;
}

static bool run_resume(const struct arguments *arguments, struct error *error)
{
        struct blocking_conn *conn = sink_name_check_form(arguments->operands[0], error)
                                         ? command_connect(arguments, error)
                                         : NULL;

        return conn != NULL && resume(conn, arguments, error);
}

const struct command resume_command = {
    .name = "resume",
    .summary = "end the pause of a sink",
    .usage = "SINK [--fail-empty] [--dsn DSN | -c FILE]",
    .details =
        "Removes every pause of the sink, by whomever. Where the relay had paused it, because\n"
        "its destination refused it, the relay tries at once: do it after the settings were\n"
        "changed. The role must be a member of courier_relay.\n",
    .options = options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_resume,
    .database = DATABASE_AND_SINKS,
    .needs_schema = true,
    .answer_timeout_ms = 30000,
};
