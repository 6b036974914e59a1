#include "cli/commands.h"
#include "cli/operate.h"
#include "cli/sink_name.h"
#include "operator/pause_rows.h"

#include <stdio.h>

#define ANSWER_TIMEOUT_MS 30000

enum { FAIL_EMPTY, DSN, CONFIG };

static const struct command_option options[] = {
    [FAIL_EMPTY] = {"fail-empty", 0, NULL, false, "end with 8 if the sink is not paused"},
    [DSN] = {"dsn", 0, "DSN", false, "the database: postgresql://… or host=…"},
    [CONFIG] = {"config", 'c', "FILE", false, "the database and the sinks of this configuration"},
    {0},
};

/* A misspelt name is worth an error; the name of a sink that merely is not paused is not. */
static bool was_not_paused(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error)
{
        const char *sink = arguments->operands[0];
        const char *config_path = arguments_value(arguments, CONFIG);

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
                return operate_refused(conn, error);
        if (rows_count(rows) == 0)
                ok = was_not_paused(conn, arguments, error);
        else
                printf("%s goes on\n", sink);
        rows_free(rows);
        return ok;
}

static bool run_resume(const struct arguments *arguments, struct error *error)
{
        struct blocking_conn *conn;
        bool ok;

        if (!sink_name_check_form(arguments->operands[0], error))
                return false;
        conn = operate_connect(arguments_value(arguments, DSN), arguments_value(arguments, CONFIG),
            ANSWER_TIMEOUT_MS, error);
        ok = conn != NULL && resume(conn, arguments, error);
        blocking_conn_close(conn);
        return ok;
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
};
