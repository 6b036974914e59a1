/* The taps that there are: list, show, check and remove, for `attach` and for `capture`. */
#include "cli/connect.h"
#include "cli/doctor/report.h"
#include "cli/table.h"
#include "cli/tap/tap_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REMOVE_LOCK_TIMEOUT };

static const struct command_option remove_options[] = {
    [REMOVE_LOCK_TIMEOUT] = TAP_OPTION_LOCK_TIMEOUT, {0}};

static const struct table_column columns[] = {
    {"NAME", TAP_NAME, CELL_WORD},
    {"KIND", TAP_KIND, CELL_WORD},
    {"TABLE", TAP_TABLE, CELL_LONG},
    {"LAYOUT", TAP_LAYOUT, CELL_OPTIONAL},
    {"DONE", TAP_DONE, CELL_OPTIONAL},
    {"STATE", TAP_STATE, CELL_WORD},
    {"DETAIL", TAP_DETAIL, CELL_OPTIONAL},
    {0},
};

static bool is_capture(const struct arguments *arguments)
{
        return strcmp(arguments->root->name, "capture") == 0;
}

static struct rows *read_taps(const struct arguments *arguments, struct error *error)
{
        struct blocking_conn *conn = command_connect(arguments, error);

        return conn != NULL ? taps_read(conn, is_capture(arguments) ? "capture" : NULL, error)
                            : NULL;
}

static void say_none(const struct arguments *arguments)
{
        fprintf(
            stderr, is_capture(arguments)
                        ? "no table is captured; `pgcourier capture add TABLE` does it\n"
                        : "no table is attached or captured; `pgcourier attach TABLE` does it\n");
}

static bool run_list(const struct arguments *arguments, struct error *error)
{
        struct rows *rows = read_taps(arguments, error);
        bool ok = true;

        if (rows == NULL)
                return false;
        if (rows_count(rows) == 0 && arguments_has(arguments, SMALL_LIST_FAIL_EMPTY))
                ok = error_set(error, ERROR_EMPTY, "there are no taps");
        else if (rows_count(rows) == 0)
                say_none(arguments);
        else if (arguments_has(arguments, SMALL_LIST_JSON))
                table_print_json(rows, TAP_JSON);
        else
                ok = table_print(columns, rows, error);
        rows_free(rows);
        return ok;
}

/* Connects. NULL also if there is no such tap, or it is none for this command. */
static struct blocking_conn *find_tap(const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[0];
        struct blocking_conn *conn = command_connect(arguments, error);
        struct rows *rows = conn != NULL ? tap_kind(conn, name, error) : NULL;
        bool ok = rows != NULL;

        if (ok && rows_count(rows) == 0)
                ok = tap_missing(conn, name, error);
        else if (ok && is_capture(arguments) && strcmp(rows_text(rows, 0, 0), "capture") != 0)
                ok = error_set(error, ERROR_EMPTY,
                    "%s is no capture; see `pgcourier attach show %s`", name, name);
        rows_free(rows);
        return ok ? conn : NULL;
}

static bool print_source(struct blocking_conn *conn, const char *name, struct error *error)
{
        struct rows *rows = tap_source(conn, name, error);

        if (rows == NULL)
                return false;
        putchar('\n');
        table_print_text(rows_text(rows, 0, 0), 0);
        putchar('\n');
        rows_free(rows);
        return true;
}

static bool run_show(const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[0];
        struct blocking_conn *conn = find_tap(arguments, error);
        bool as_json = arguments_has(arguments, ONLY_JSON);
        struct rows *rows = NULL;

        if (conn != NULL)
                rows = as_json ? tap_show_json(conn, name, error) : tap_show(conn, name, error);
        if (rows == NULL)
                return false;
        if (as_json)
                table_print_json(rows, 0);
        else
                table_print_fields(rows);
        rows_free(rows);
        return as_json || print_source(conn, name, error);
}

/* Where a check runs, people read the log of a pipeline: each tap has a line. */
static bool run_check(const struct arguments *arguments, struct error *error)
{
        struct rows *rows = read_taps(arguments, error);
        struct report *report;

        if (rows == NULL)
                return false;
        report = report_create(arguments_has(arguments, ONLY_JSON));
        for (int i = 0; i < rows_count(rows); i++) {
                const char *name = rows_text(rows, i, TAP_NAME);
                const char *state = rows_text(rows, i, TAP_STATE);
                if (strcmp(state, "ok") == 0)
                        report_ok(report, name, "%s", rows_text(rows, i, TAP_TABLE));
                else
                        report_fail(report, ERROR_SYSTEM, name, rows_text(rows, i, TAP_REMEDY),
                            "%s: %s", state, rows_text(rows, i, TAP_DETAIL));
        }
        if (rows_count(rows) == 0)
                say_none(arguments);
        rows_free(rows);
        return report_finish(report, error);
}

static bool run_remove(const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[0];
        struct blocking_conn *conn = NULL;
        char *lock_timeout = NULL;
        bool ok;

        if (tap_read_time(arguments, REMOVE_LOCK_TIMEOUT, &lock_timeout, error))
                conn = find_tap(arguments, error);
        ok = conn != NULL && tap_remove(conn, name, lock_timeout, error);
        if (ok)
                printf("removed %s\n", name);
        free(lock_timeout);
        return ok;
}

const struct command tap_list_command = {
    .name = "list",
    .usage = "[--fail-empty] [--json]",
    .options = small_list_options,
    .run = run_list,
};

const struct command tap_show_command = {
    .name = "show",
    .usage = "NAME [--json]",
    .options = only_json_options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_show,
};

const struct command tap_check_command = {
    .name = "check",
    .usage = "[--json]",
    .options = only_json_options,
    .run = run_check,
};

const struct command tap_remove_command = {
    .name = "remove",
    .usage = "NAME [--lock-timeout TIME]",
    .options = remove_options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_remove,
};
