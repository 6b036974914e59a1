/* `pgcourier capture`: makes a tap of any table, or prints the SQL that does, for a migration. */
#include "base/bytes.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/tap/tap_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        COLUMNS,
        NAME,
        TOPIC,
        KEY,
        OPS,
        PAYLOAD,
        ONLY_IF,
        WHEN_CHANGED,
        UNCHANGED,
        TYPE,
        HEADERS,
        LEVEL,
        REPLICATED,
        BIGINT_AS,
        REPLACES,
        LOCK_TIMEOUT,
        PRINT
};

static const struct command_option options[] = {
    [COLUMNS] = {"columns", 0, "A,B", true,
        "the columns that may leave the database; '*': all, also\nlater ones; '*,-c': all that "
        "there are "
        "but c; required"},
    [NAME] = {"name", 0, "NAME", false,
        "of the tap; default: that of the one it replaces, else\nof the table"},
    [TOPIC] = {"topic", 0, "TEXT|EXPR", false,
        "a text, or an SQL expression, which has a quote, a\nparenthesis, a blank or |; default: "
        "{{table}}.{{op}}"},
    [KEY] = {"key", 0, "EXPR", false,
        "an SQL expression over the columns: events of one key\nkeep their order; default: the "
        "primary key"},
    [OPS] = {"ops", 0, "A,B", true, "default: insert,update,delete"},
    [PAYLOAD] = {"payload", 0, "new|both|diff|EXPR", false,
        "the row as it is now; with what it was; only what\nchanged; or an expression over old, "
        "new, op;\ndefault: new"},
    [ONLY_IF] = {"only-if", 0, "EXPR", false, "a condition over old and new: 'new.total > 100'"},
    [WHEN_CHANGED] = {"when-changed", 0, "A,B", true,
        "an UPDATE is an event only if one of these columns\nchanged"},
    [UNCHANGED] = {"unchanged", 0, NULL, false, "also an UPDATE that changes none of the columns"},
    [TYPE] = {"type", 0, "EXPR", false, "the event's type"},
    [HEADERS] = {"headers", 0, "EXPR", false, "a JSON object"},
    [LEVEL] = {"level", 0, "statement|row", false,
        "of its triggers; default: row for partitioned tables,\nelse statement"},
    [REPLICATED] = {"replicated", 0, NULL, false, "also what logical replication writes"},
    [BIGINT_AS] = {"bigint-as", 0, "number|text", false,
        "how a bigint is written in JSON; default: number.\nJavaScript reads large numbers "
        "wrongly"},
    [REPLACES] = {"replaces", 0, "NAME", false,
        "a capture of the table, which ends when this one\nbegins"},
    [LOCK_TIMEOUT] = TAP_OPTION_LOCK_TIMEOUT,
    [PRINT] = {"print", 0, NULL, false, "print SQL for a migration, and change nothing"},
    {0},
};

static const struct tap_parameter parameters[] = {
    {NAME, "name", TAP_TEXT},
    {COLUMNS, "columns", TAP_LIST},
    {TOPIC, "topic", TAP_TEXT},
    {KEY, "key", TAP_TEXT},
    {OPS, "ops", TAP_LIST},
    {PAYLOAD, "payload", TAP_TEXT},
    {ONLY_IF, "only_if", TAP_TEXT},
    {WHEN_CHANGED, "when_changed", TAP_LIST},
    {UNCHANGED, "unchanged", TAP_TRUE},
    {TYPE, "type", TAP_TEXT},
    {HEADERS, "headers", TAP_TEXT},
    {LEVEL, "level", TAP_TEXT},
    {REPLICATED, "replicated", TAP_TRUE},
    {BIGINT_AS, "bigint_as", TAP_TEXT},
    {REPLACES, "replaces", TAP_TEXT},
    {LOCK_TIMEOUT, "lock_timeout", TAP_TIME},
};

#define N_PARAMETERS (sizeof parameters / sizeof *parameters)

static bool print(struct blocking_conn *conn, struct tap_call_values *values, struct error *error)
{
        const bool replaces = tap_call_value(values, "replaces") != NULL; /* and has that name */
        struct rows *rows = tap_resolve(
            conn, values->call.table, replaces ? NULL : tap_call_value(values, "name"), error);
        struct bytes sql = {0};

        if (rows == NULL)
                return false;
        values->call.table = rows_text(rows, 0, 0);
        if (!replaces)
                tap_call_set(values, "name", rows_text(rows, 0, 1));
        tap_append_call(&sql, &values->call);
        printf("-- Changes of %s become events, in the transaction that makes them.\n%s",
            values->call.table, sql.data);
        bytes_deinit(&sql);
        rows_free(rows);
        return true;
}

static bool run_add(const struct arguments *arguments, struct error *error)
{
        static const struct tap_maker maker = {
            "courier.capture", "captured", parameters, N_PARAMETERS, PRINT, print};

        if (!arguments_has(arguments, COLUMNS))
                return error_set(error, ERROR_USAGE,
                    "capture add needs --columns: those that may leave the database, as in "
                    "--columns id,status,total; --columns '*' is all of them");
        return tap_command_make(arguments, &maker, error);
}

static const struct command add_command = {
    .name = "add",
    .usage = "TABLE --columns A,B [--ops A,B] [--payload new|both|diff|EXPR]\n"
             "                 [--only-if EXPR] [--when-changed A,B] [--replaces NAME] [--print]",
    .options = options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_add,
};

const struct command capture_command = {
    .name = "capture",
    .summary = "make events of the changes of any table",
    .usage = "each with [--dsn DSN | -c FILE]",
    .details =
        "add     from now on INSERT, UPDATE and DELETE of the table are events, in the same\n"
        "        transaction\n"
        "list    the captures; `pgcourier attach list` has the attached tables as well\n"
        "show    one with its mapping and its SQL\n"
        "check   compiles each capture, and ends with 1 unless all are ok\n"
        "remove  from now on changes of the table are no events\n"
        "\n"
        "Captures belong to the database's schema. --print writes a call of courier.capture()\n"
        "for a migration. A table may be captured several times, by different names. The role\n"
        "must be able to act as the owner of the table, and that owner must be a member of\n"
        "courier_attacher. With neither --dsn nor -c the environment names the database (PGHOST,\n"
        "PGUSER …).\n",
    .subcommands = (const struct command *const[]){&add_command, &tap_list_command,
        &tap_show_command, &tap_check_command, &tap_remove_command, NULL},
    .database = DATABASE,
    .refused = tap_refused,
};
