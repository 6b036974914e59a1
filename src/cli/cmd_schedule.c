/* Recurring events: what there is, and away with one. SQL makes them. */
#include "cli/commands.h"
#include "cli/subcommand.h"
#include "cli/table.h"
#include "operator/schedule_list.h"
#include "pg/blocking_conn.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_TIMEOUT_MS 30000

enum { JSON, FAIL_EMPTY, DSN, CONFIG };

#define CONNECT (1U << DSN | 1U << CONFIG)

static const struct command_option options[] = {
    [JSON] = {"json", 0, NULL, false, "for list: print JSON, one object a line"},
    [FAIL_EMPTY] = {"fail-empty", 0, NULL, false, "for list: end with 8 if there are none"},
    [DSN] = {"dsn", 0, "DSN", false, "the database: postgresql://… or host=…"},
    [CONFIG] = {"config", 'c', "FILE", false, "the database of this configuration"},
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
 * schema's version, so a schema that is too old shows as something that is not there. */
static bool refused(struct blocking_conn *conn, struct error *error)
{
        if (error->kind == ERROR_PERMISSION)
                return error_set(error, ERROR_PERMISSION,
                    "%s. An administrator can allow it: GRANT courier_publisher TO \"%s\"",
                    blocking_conn_message(conn), blocking_conn_user(conn));
        if (error->kind == ERROR_SCHEMA)
                return error_set(error, ERROR_SCHEMA, "%s. See `pgcourier migrate status`",
                    blocking_conn_message(conn));
        /* character_not_in_repertoire: only the name can be the cause. */
        if (strcmp(blocking_conn_sqlstate(conn), "22021") == 0)
                return error_set(
                    error, ERROR_USAGE, "the name is not valid: %s", blocking_conn_message(conn));
        return false;
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

static struct blocking_conn *connect(const struct arguments *arguments, struct error *error)
{
        return connect_for_command(arguments_value(arguments, DSN),
            arguments_value(arguments, CONFIG), ANSWER_TIMEOUT_MS, error);
}

static bool run_list(const struct arguments *arguments, struct error *error)
{
        struct blocking_conn *conn = connect(arguments, error);
        struct rows *rows;
        bool ok;

        if (conn == NULL)
                return false;
        rows = schedule_list(conn, arguments_has(arguments, JSON), error);
        ok = rows != NULL ? print(rows, arguments, error) : refused(conn, error);
        rows_free(rows);
        blocking_conn_close(conn);
        return ok;
}

static bool run_remove(const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[1];
        struct blocking_conn *conn = connect(arguments, error);
        bool existed;
        bool ok;

        if (conn == NULL)
                return false;
        ok = schedule_remove(conn, name, &existed, error) || refused(conn, error);
        blocking_conn_close(conn);
        if (ok && !existed)
                return error_set(error, ERROR_EMPTY,
                    "there is no schedule \"%.255s\"; see `pgcourier schedule list`", name);
        if (ok)
                printf("removed %s\n", name);
        return ok;
}

static const struct subcommand subcommands[] = {
    {"list", CONNECT | 1U << JSON | 1U << FAIL_EMPTY, 0, 0, run_list},
    {"remove", CONNECT, 1, 1, run_remove},
    {0},
};

static bool run_schedule(const struct arguments *arguments, struct error *error)
{
        return subcommands_run(arguments, error);
}

const struct command schedule_command = {
    .name = "schedule",
    .summary = "list and remove recurring events",
    .usage = "list [--json] [--fail-empty] [--dsn DSN | -c FILE]\n"
             "       pgcourier schedule remove NAME [--dsn DSN | -c FILE]",
    .details =
        "`schedule list` shows the recurring events: when they tick, when next and when last, in\n"
        "UTC. A next tick that has passed means that no relay runs; or see under ERROR.\n"
        "`schedule remove` removes one; what it has published stays. SQL makes them:\n"
        "\n"
        "  SELECT courier.schedule('report', 'reports.daily', '{}', at => '06:30');\n"
        "\n"
        "The role must be a member of courier_publisher or courier_relay. With neither --dsn nor\n"
        "-c the environment names the database (PGHOST, PGUSER, PGDATABASE …).\n",
    .options = options,
    .subcommands = subcommands,
    .max_operands = UINT_MAX,
    .run = run_schedule,
};
