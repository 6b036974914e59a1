/* `pgcourier schedule`: recurring events. All its subcommands but `add` are here. */
#include "base/alloc.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/schedule/schedule_add.h"
#include "cli/table.h"
#include "operator/schedule_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOW_EVENTS, SHOW_JSON };

static const struct command_option show_options[] = {
    [SHOW_EVENTS] = {"events", 0, "N", false, "show so many of its last events; default: 10"},
    [SHOW_JSON] = OPTION_JSON,
    {0},
};

enum { NEXT_COUNT, NEXT_JSON };

static const struct command_option next_options[] = {
    [NEXT_COUNT] = {"count", 0, "N", false, "so many ticks, up to 10000; default: 10"},
    [NEXT_JSON] = OPTION_JSON,
    {0},
};

static const struct table_column columns[] = {
    {"NAME", SCHEDULE_NAME, CELL_LONG},
    {"TICKS", SCHEDULE_TIMING, CELL_WORD},
    {"STATE", SCHEDULE_STATE, CELL_WORD},
    {"NEXT", SCHEDULE_NEXT, CELL_WORD},
    {"LAST", SCHEDULE_LAST, CELL_WORD},
    {"TOPIC", SCHEDULE_TOPIC, CELL_LONG},
    {"MISSED", SCHEDULE_MISSED, CELL_WORD},
    {"SKIPPED", SCHEDULE_SKIPPED, CELL_OPTIONAL},
    {"ERROR", SCHEDULE_LAST_ERROR, CELL_LONG},
    {0},
};

static const struct table_column history_columns[] = {
    {"SCHEDULED FOR", SCHEDULE_HISTORY_FOR, CELL_WORD},
    {"EVENT", SCHEDULE_HISTORY_EVENT, CELL_NUMBER},
    {"RUN", SCHEDULE_HISTORY_BY_HAND, CELL_OPTIONAL},
    {"SINK", SCHEDULE_HISTORY_WHERE, CELL_OPTIONAL},
    {"STATE", SCHEDULE_HISTORY_STATE, CELL_OPTIONAL},
    {"AT", SCHEDULE_HISTORY_AT, CELL_OPTIONAL},
    {"REASON", SCHEDULE_HISTORY_REASON, CELL_OPTIONAL},
    {0},
};

static const struct table_column next_columns[] = {
    {"TICK", SCHEDULE_TICK, CELL_WORD},
    {"DUE", SCHEDULE_TICK_DUE, CELL_WORD},
    {0},
};

/* A line of cron that was refused is shown with the place, as courier.refuse_cron() shows it: in
 * the message its lines stand in one, behind "; ". The error is what is left. */
static void show_place(const char *message, struct error *error)
{
        static const char heading[] = ": The caret shows where:; ";
        const char *shown = strstr(message, heading);
        const char *line = shown != NULL ? shown + strlen(heading) : NULL;
        const char *caret = line != NULL ? strstr(line, "^. ") : NULL;
        const char *end = caret;

        if (caret == NULL)
                return;
        while (end > line && *end != ';')
                end--;
        fprintf(stderr, "%.*s\n%*s\n", (int)(end - line), line, (int)(caret - end) - 1, "^");
        error_set(
            error, ERROR_USAGE, "%.*s. %s", (int)(shown - message), message, caret + strlen("^. "));
}

/* invalid_parameter_value, and what is no interval, time, number or JSON. */
static bool is_of_a_value(const char *sqlstate)
{
        return strncmp(sqlstate, "22", 2) == 0;
}

/* Puts what the server refused into the words of the command line. A publisher may not read the
 * schema's version, so an old schema shows as an object that does not exist. */
static void refused(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error)
{
        const char *constraint = blocking_conn_constraint(conn);

        if (error->kind == ERROR_PERMISSION)
                error_set(error, ERROR_PERMISSION,
                    "%s. An administrator can allow it: GRANT courier_publisher TO \"%s\"",
                    blocking_conn_message(conn), blocking_conn_user(conn));
        else if (error->kind == ERROR_SCHEMA)
                error_set(error, ERROR_SCHEMA, "%s. See `pgcourier migrate status`",
                    blocking_conn_message(conn));
        /* character_not_in_repertoire: only a word of the command line can be the cause. */
        else if (strcmp(blocking_conn_sqlstate(conn), "22021") == 0)
                error_set(error, ERROR_USAGE, "%s is not valid: %s",
                    arguments->command == &schedule_add_command ? "a value" : "the name",
                    blocking_conn_message(conn));
        else if (is_of_a_value(blocking_conn_sqlstate(conn))) {
                error_set(error, ERROR_USAGE, "%s", blocking_conn_message(conn));
                show_place(blocking_conn_message(conn), error);
        } else if (strncmp(blocking_conn_sqlstate(conn), "23", 2) == 0 && *constraint != '\0') {
                char *rule = xstrdup(constraint);

                for (char *at = rule; *at != '\0'; at++)
                        if (*at == '_')
                                *at = ' ';
                error_set(error, ERROR_USAGE, "schedule %.100s: %s", arguments->operands[0], rule);
                free(rule);
        }
}

static bool missing(struct blocking_conn *conn, const char *name, struct error *error)
{
        return name_missing(schedule_names(conn, error), "schedule", "schedule list", name, error);
}

static bool run_list(const struct arguments *arguments, struct error *error)
{
        struct blocking_conn *conn = command_connect(arguments, error);
        struct rows *rows =
            conn != NULL ? schedule_list(conn, arguments_has(arguments, SMALL_LIST_JSON), error)
                         : NULL;
        bool ok = true;

        if (rows == NULL)
                return false;
        if (rows_count(rows) == 0 && arguments_has(arguments, SMALL_LIST_FAIL_EMPTY))
                ok = error_set(error, ERROR_EMPTY, "there are no schedules");
        else if (rows_count(rows) == 0)
                fputs("there are no schedules; `pgcourier schedule add` makes one\n", stderr);
        else if (arguments_has(arguments, SMALL_LIST_JSON))
                table_print_json(rows, SCHEDULE_JSON);
        else
                ok = table_print(columns, rows, error);
        rows_free(rows);
        return ok;
}

/* Checks the number, which the server gets as a text. */
static bool read_count(const struct arguments *arguments, unsigned option, unsigned min,
    char count[12], struct error *error)
{
        unsigned number = 10;

        if (!arguments_count(arguments, option, min, 10000, &number, error))
                return false;
        snprintf(count, 12, "%u", number);
        return true;
}

static bool print_history(
    struct blocking_conn *conn, const char *name, const char *count, struct error *error)
{
        struct rows *rows = schedule_history(conn, name, count, error);
        bool ok = rows != NULL;

        if (ok && rows_count(rows) > 0) {
                putchar('\n');
                ok = table_print(history_columns, rows, error);
        }
        rows_free(rows);
        return ok;
}

static bool run_show(const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[0];
        bool as_json = arguments_has(arguments, SHOW_JSON);
        struct blocking_conn *conn;
        struct rows *rows;
        char count[12];
        bool ok = true;

        if (!read_count(arguments, SHOW_EVENTS, 0, count, error))
                return false;
        conn = command_connect(arguments, error);
        rows = conn != NULL ? schedule_show(conn, name, count, as_json, error) : NULL;
        if (rows == NULL)
                return false;
        if (rows_count(rows) == 0)
                ok = missing(conn, name, error);
        else if (as_json)
                table_print_json(rows, SCHEDULE_JSON);
        else {
                table_print_fields(rows);
                ok = print_history(conn, name, count, error);
        }
        rows_free(rows);
        return ok;
}

/* Without ticks: either there is no such schedule, or it is paused or has ended. */
static bool has_no_ticks(struct blocking_conn *conn, const char *name, struct error *error)
{
        struct rows *rows = schedule_show(conn, name, "0", false, error);
        bool ok = rows != NULL;

        if (ok && rows_count(rows) == 0)
                ok = missing(conn, name, error);
        else if (ok)
                fputs("it is paused or has ended\n", stderr);
        rows_free(rows);
        return ok;
}

static bool run_next(const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[0];
        bool as_json = arguments_has(arguments, NEXT_JSON);
        struct blocking_conn *conn;
        struct rows *rows;
        char count[12];
        bool ok = true;

        if (!read_count(arguments, NEXT_COUNT, 1, count, error))
                return false;
        conn = command_connect(arguments, error);
        rows = conn != NULL ? schedule_next(conn, name, count, as_json, error) : NULL;
        if (rows == NULL)
                return false;
        if (rows_count(rows) == 0)
                ok = has_no_ticks(conn, name, error);
        else if (as_json)
                table_print_json(rows, SCHEDULE_JSON);
        else
                ok = table_print(next_columns, rows, error);
        rows_free(rows);
        return ok;
}

static bool run_now(const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[0];
        struct blocking_conn *conn = command_connect(arguments, error);
        struct rows *rows = conn != NULL ? schedule_run(conn, name, error) : NULL;
        bool ok = true;

        if (rows == NULL)
                return false;
        if (rows_text(rows, 0, 0) == NULL)
                ok = missing(conn, name, error);
        else
                printf("published %s\n", rows_text(rows, 0, 0));
        rows_free(rows);
        return ok;
}

static bool change(const struct arguments *arguments, enum schedule_change what, const char *done,
    struct error *error)
{
        const char *name = arguments->operands[0];
        struct blocking_conn *conn = command_connect(arguments, error);
        bool existed;

        if (conn == NULL || !schedule_change(conn, what, name, &existed, error))
                return false;
        if (!existed)
                return missing(conn, name, error);
        printf("%s %s\n", done, name);
        return true;
}

static bool run_pause(const struct arguments *arguments, struct error *error)
{
        return change(arguments, SCHEDULE_PAUSE, "paused", error);
}

static bool run_resume(const struct arguments *arguments, struct error *error)
{
        return change(arguments, SCHEDULE_RESUME, "resumed", error);
}

static bool run_remove(const struct arguments *arguments, struct error *error)
{
        return change(arguments, SCHEDULE_REMOVE, "removed", error);
}

static const struct command list_command = {
    .name = "list",
    .usage = "[--fail-empty] [--json]",
    .options = small_list_options,
    .run = run_list,
};

static const struct command show_command = {
    .name = "show",
    .usage = "NAME [--events N] [--json]",
    .options = show_options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_show,
};

static const struct command next_command = {
    .name = "next",
    .usage = "NAME [--count N] [--json]",
    .options = next_options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_next,
};

#define OF_A_NAME(word, function)                                                                  \
        {                                                                                          \
                .name = (word), .usage = "NAME", .min_operands = 1, .max_operands = 1,             \
                .run = (function)                                                                  \
        }

static const struct command run_command_now = OF_A_NAME("run", run_now);
static const struct command pause_subcommand = OF_A_NAME("pause", run_pause);
static const struct command resume_subcommand = OF_A_NAME("resume", run_resume);
static const struct command remove_command = OF_A_NAME("remove", run_remove);

const struct command schedule_command = {
    .name = "schedule",
    .summary = "make and look after recurring events",
    .usage = "each with [--dsn DSN | -c FILE]",
    .details =
        "add     makes a recurring event, or replaces the one of that name, as the SQL function\n"
        "        courier.schedule() does. Prints its next tick\n"
        "list    all of them: when they tick, when next and when last, in UTC. If the next tick\n"
        "        has passed, no relay runs, or ERROR says what is wrong\n"
        "show    one, with its last events and what became of them at each sink and receiver; a\n"
        "        member of courier_publisher sees no payload and no deliveries\n"
        "next    its next ticks, and when their events come: later by the jitter\n"
        "run     publishes its event now, besides its ticks, also while it is paused. Prints the\n"
        "        event_id\n"
        "pause   stops its ticks; it keeps its place in the list\n"
        "resume  lets it tick again; the ticks of the pause are left out\n"
        "remove  removes it; what it has published stays\n"
        "import  prints what makes schedules of the lines of a crontab, or of the jobs of "
        "pg_cron:\n"
        "        the topic is cron.NAME, and the payload has the command. Lines that are no\n"
        "        schedule are noted with their number. With --apply it makes the schedules, all\n"
        "        or none\n"
        "\n"
        "Those that change something need courier_publisher, or a member of it; those that read\n"
        "courier_publisher or courier_relay. With neither --dsn nor -c the environment names the\n"
        "database (PGHOST, PGUSER, PGDATABASE …).\n",
    .subcommands = (const struct command *const[]){&schedule_add_command, &list_command,
        &show_command, &next_command, &run_command_now, &pause_subcommand, &resume_subcommand,
        &remove_command, &schedule_import_command, NULL},
    .database = DATABASE,
    .answer_timeout_ms = 30000,
    .refused = refused,
};
