/* Recurring events: list and remove them. SQL makes them. */
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/table.h"
#include "operator/schedule_list.h"

#include <stdio.h>
#include <string.h>

enum { JSON, FAIL_EMPTY };

static const struct command_option list_options[] = {
    [JSON] = {"json", 0, NULL, false, "for list: print JSON, one object a line"},
    [FAIL_EMPTY] = {"fail-empty", 0, NULL, false, "for list: end with 8 if there are none"},
    {0},
};

static const struct table_column columns[] = {
    {"NAME", SCHEDULE_NAME, CELL_LONG},
    {"TICKS", SCHEDULE_TIMING, CELL_WORD},
    {"NEXT", SCHEDULE_NEXT, CELL_WORD},
    {"LAST", SCHEDULE_LAST, CELL_WORD},
    {"TOPIC", SCHEDULE_TOPIC, CELL_LONG},
    {"MISSED", SCHEDULE_MISSED, CELL_WORD},
    {"ERROR", SCHEDULE_LAST_ERROR, CELL_LONG},
    {0},
};

/* Puts what the server refused into the words of the command line. A publisher may not read the
 * schema's version, so an old schema shows as an object that does not exist. */
static void refused(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error)
{
        (void)arguments;
        if (error->kind == ERROR_PERMISSION)
                error_set(error, ERROR_PERMISSION,
                    "%s. An administrator can allow it: GRANT courier_publisher TO \"%s\"",
                    blocking_conn_message(conn), blocking_conn_user(conn));
        else if (error->kind == ERROR_SCHEMA)
                error_set(error, ERROR_SCHEMA, "%s. See `pgcourier migrate status`",
                    blocking_conn_message(conn));
        /* character_not_in_repertoire: only the name can be the cause. */
        else if (strcmp(blocking_conn_sqlstate(conn), "22021") == 0)
                error_set(
                    error, ERROR_USAGE, "the name is not valid: %s", blocking_conn_message(conn));
}

static bool print(const struct rows *rows, const struct arguments *arguments, struct error *error)
{
        if (rows_count(rows) == 0 && arguments_has(arguments, FAIL_EMPTY))
                return error_set(error, ERROR_EMPTY, "there are no schedules");
        if (rows_count(rows) == 0)
                fputs("there are no schedules; SELECT courier.schedule(…) makes one\n", stderr);
        else if (arguments_has(arguments, JSON))
                table_print_json(rows, SCHEDULE_JSON);
        else
                return table_print(columns, rows, error);
        return true;
}

static bool run_list(const struct arguments *arguments, struct error *error)
{
        struct blocking_conn *conn = command_connect(arguments, error);
        struct rows *rows =
            conn != NULL ? schedule_list(conn, arguments_has(arguments, JSON), error) : NULL;
        bool ok = rows != NULL && print(rows, arguments, error);

        rows_free(rows);
        return ok;
}

static bool run_remove(const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[0];
        struct blocking_conn *conn = command_connect(arguments, error);
        bool existed;

        if (conn == NULL || !schedule_remove(conn, name, &existed, error))
                return false;
        if (!existed)
                return error_set(error, ERROR_EMPTY,
                    "there is no schedule \"%.255s\"; see `pgcourier schedule list`", name);
        printf("removed %s\n", name);
        return true;
}

static const struct command list_command = {
    .name = "list",
    .usage = "[--json] [--fail-empty] [--dsn DSN | -c FILE]",
    .options = list_options,
    .run = run_list,
};

static const struct command remove_command = {
    .name = "remove",
    .usage = "NAME [--dsn DSN | -c FILE]",
    .min_operands = 1,
    .max_operands = 1,
    .run = run_remove,
};

const struct command schedule_command = {
    .name = "schedule",
    .summary = "list and remove recurring events",
    .details =
        "`schedule list` shows the recurring events: when they tick, when next and when last, in\n"
        "UTC. If the next tick has passed, no relay runs, or ERROR says what is wrong.\n"
        "`schedule remove` removes one; what it has published stays. SQL makes them:\n"
        "\n"
        "  SELECT courier.schedule('report', 'reports.daily', '{}', at => '06:30');\n"
        "\n"
        "The role must be a member of courier_publisher or courier_relay. With neither --dsn nor\n"
        "-c the environment names the database (PGHOST, PGUSER, PGDATABASE …).\n",
    .subcommands = (const struct command *const[]){&list_command, &remove_command, NULL},
    .database = DATABASE,
    .answer_timeout_ms = 30000,
    .refused = refused,
};
