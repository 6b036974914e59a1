/* `pgcourier attach TABLE`: makes a tap of an application's outbox table, or prints the SQL for a
 * migration that makes it. */
#include "base/bytes.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/tap/tap_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        LAYOUT,
        NAME,
        TOPIC,
        KEY,
        TYPE,
        PAYLOAD,
        DATA,
        HEADERS,
        EVENT_ID,
        DELIVER_AT,
        ONLY_IF,
        EACH,
        OPS,
        DONE,
        DONE_SET,
        DEAD_SET,
        WHEN,
        AFTER,
        EXISTING,
        LOCK_TIMEOUT,
        PRINT
};

static const struct command_option options[] = {
    [LAYOUT] = {"layout", 0, "LAYOUT", false,
        "what its columns mean, a row of courier.layout;\ndefault: the one that fits"},
    [NAME] = {"name", 0, "NAME", false, "of the tap; default: that of the table"},
    [TOPIC] = {"topic", 0, "EXPR", false,
        "an SQL expression over the columns of a row, as in\nthe options below; in place of the "
        "layout's"},
    [KEY] = {"key", 0, "EXPR", false, "events of one key keep their order"},
    [TYPE] = {"type", 0, "EXPR", false, "the event's type"},
    [PAYLOAD] = {"payload", 0, "EXPR", false, "JSON; or a text, or bytes"},
    [DATA] = {"data", 0, "EXPR", false, "bytes, instead of a payload"},
    [HEADERS] = {"headers", 0, "EXPR", false, "a JSON object"},
    [EVENT_ID] = {"event-id", 0, "EXPR", false,
        "a uuid, or what one is made of; default: the primary\nkey"},
    [DELIVER_AT] = {"deliver-at", 0, "EXPR", false, "not before that time"},
    [ONLY_IF] = {"only-if", 0, "EXPR", false, "a condition: other rows are no events"},
    [EACH] = {"each", 0, "FROM-ITEM", false,
        "makes several events of a row:\n'jsonb_array_elements(operations) AS op'"},
    [OPS] = {"ops", 0, "insert,update", true, "an UPDATE makes an event, too; default: insert"},
    [DONE] = {"done", 0, "mark|delete|keep", false,
        "what becomes of the row of a delivered event;\ndefault: as the layout says"},
    [DONE_SET] = {"done-set", 0, "LIST", false, "the mark: 'processed_at = now(), status = 2'"},
    [DEAD_SET] = {"dead-set", 0, "LIST", false,
        "the mark if a sink gave the event up;\ndefault: that of --done-set"},
    [WHEN] = {"when", 0, "taken|delivered", false,
        "mark it within the INSERT, so that the application's\nown relay finds nothing; or when "
        "all sinks have the\nevent; default: delivered"},
    [AFTER] = {"after", 0, "SINK", true,
        "mark it when this sink has it; may be given several\ntimes; default: all sinks that take "
        "it"},
    [EXISTING] = {"existing", 0, NULL, false,
        "rows that are there already and not done are events,\ntoo: none is missing, none comes "
        "twice"},
    [LOCK_TIMEOUT] = TAP_OPTION_LOCK_TIMEOUT,
    [PRINT] = {"print", 0, NULL, false, "print SQL for a migration, and change nothing"},
    {0},
};

static const struct tap_parameter parameters[] = {
    {NAME, "name", TAP_TEXT},
    {LAYOUT, "layout", TAP_TEXT},
    {TOPIC, "topic", TAP_TEXT},
    {KEY, "key", TAP_TEXT},
    {TYPE, "type", TAP_TEXT},
    {PAYLOAD, "payload", TAP_TEXT},
    {DATA, "data", TAP_TEXT},
    {HEADERS, "headers", TAP_TEXT},
    {EVENT_ID, "event_id", TAP_TEXT},
    {DELIVER_AT, "deliver_at", TAP_TEXT},
    {ONLY_IF, "only_if", TAP_TEXT},
    {EACH, "each", TAP_TEXT},
    {OPS, "ops", TAP_LIST},
    {DONE, "done", TAP_TEXT},
    {DONE_SET, "done_set", TAP_TEXT},
    {DEAD_SET, "dead_set", TAP_TEXT},
    {WHEN, "done_when", TAP_TEXT},
    {AFTER, "done_after", TAP_LIST},
    {EXISTING, "existing", TAP_PUBLISH},
    {LOCK_TIMEOUT, "lock_timeout", TAP_TIME},
};

#define N_PARAMETERS (sizeof parameters / sizeof *parameters)
#define N_PLANNED    (N_PARAMETERS - 2) /* all but what says how it is made */

/* Each line of it is a comment. */
static void append_comment(struct bytes *text, const char *name, const char *value)
{
        bytes_printf(text, "--   %-10s ", name);
        for (; *value != '\0'; value++) {
                bytes_append(text, value, 1);
                if (*value == '\n')
                        bytes_append_text(text, "--     ");
        }
        bytes_append_text(text, "\n");
}

/* What was not given, as courier.attach() completes it: of the fields before the mapping each
 * becomes an argument; those of the mapping that are the layout's are told. */
static void complete(
    struct tap_call_values *values, const struct rows *plan, struct bytes *out_mapping)
{
        static const char *const explicit[] = {"name", "layout", "done", "done_when"};

        for (int row = 0; row < rows_count(plan); row++) {
                const char *field = rows_text(plan, row, TAP_FIELD);
                const char *value = rows_text(plan, row, TAP_FIELD_VALUE);
                bool is_argument = false;

                if (strcmp(field, "table") == 0) {
                        values->call.table = value;
                        continue;
                }
                for (size_t i = 0; i < sizeof explicit / sizeof *explicit; i++)
                        is_argument |= strcmp(field, explicit[i]) == 0;
                if (is_argument)
                        tap_call_set(values, field, value);
                else if (tap_call_value(values, field) == NULL)
                        append_comment(out_mapping, field, value);
        }
        if (tap_call_value(values, "existing") == NULL)
                tap_call_set(values, "existing", "skip");
}

static void print_sql(struct tap_call_values *values, const struct rows *plan)
{
        struct bytes mapping = {0};
        struct bytes sql = {0};
        const char *layout;

        complete(values, plan, &mapping);
        layout = tap_call_value(values, "layout");
        printf("-- Rows of %s become events, in the transaction that %s them.\n",
            values->call.table,
            tap_call_value(values, "ops") != NULL ? "inserts or updates" : "inserts");
        if (layout != NULL)
                printf("-- Of the layout %s:\n", layout);
        else if (mapping.length > 0)
                puts("-- By default:");
        if (mapping.length > 0)
                fputs(mapping.data, stdout);
        tap_append_call(&sql, &values->call);
        fputs(sql.data, stdout);
        bytes_deinit(&sql);
        bytes_deinit(&mapping);
}

static bool print(struct blocking_conn *conn, struct tap_call_values *values, struct error *error)
{
        const struct tap_call planned = {
            "courier.attach_plan", values->call.table, values->arguments, N_PLANNED};
        struct rows *plan = tap_plan(conn, &planned, error);

        tap_print_notices(conn);
        if (plan == NULL)
                return false;
        print_sql(values, plan);
        rows_free(plan);
        return true;
}

static bool run_attach(const struct arguments *arguments, struct error *error)
{
        static const struct tap_maker maker = {
            "courier.attach", "attached", parameters, N_PARAMETERS, PRINT, print};

        return tap_command_make(arguments, &maker, error);
}

static bool run_guard(const struct arguments *arguments, struct error *error)
{
        const char *word = arguments->operands[0];
        const bool is_wanted = strcmp(word, "on") == 0;
        struct blocking_conn *conn;

        if (!is_wanted && strcmp(word, "off") != 0)
                return error_set(
                    error, ERROR_USAGE, "attach guard: \"%.64s\" is neither on nor off", word);
        conn = command_connect(arguments, error);
        if (conn == NULL || !tap_guard(conn, is_wanted, error))
                return false;
        printf("the guard is %s\n", word);
        return true;
}

static const struct command guard_command = {
    .name = "guard",
    .usage = "on|off",
    .min_operands = 1,
    .max_operands = 1,
    .run = run_guard,
};

const struct command attach_command = {
    .name = "attach",
    .summary = "make events of the rows of an outbox table that is there already",
    .usage =
        "TABLE [--layout LAYOUT] [--topic EXPR]... [--done mark|delete|keep]\n"
        "                 [--when taken|delivered] [--existing] [--print] [--dsn DSN | -c FILE]",
    .details =
        "TABLE   from now on each row that is inserted into it is an event, in the same\n"
        "        transaction, and the application goes on as before. If no layout fits its\n"
        "        columns, give --topic, and --payload or --data\n"
        "detect  says what attach would take the columns for, what is to be known of the table,\n"
        "        and the command to run; changes nothing\n"
        "list    all taps, attached tables and captures, and whether they are as they were made\n"
        "show    one with its mapping and its SQL\n"
        "check   compiles each tap, and ends with 1 unless all are ok: for a pipeline, after\n"
        "        migrations\n"
        "remove  from now on the table's rows are no events; the table is as it was before\n"
        "guard   installs an event trigger, as a superuser: after ALTER TABLE of a tapped table\n"
        "        the tap follows renamed columns, and a change that would break it is refused\n"
        "\n"
        "Taps belong to the database's schema. --print writes a call of courier.attach() for a\n"
        "migration, with the layout and the modes that were found; it does the same as this\n"
        "command. The role must be able to act as the owner of the table, and that owner\n"
        "must be a member of courier_attacher. A table that is called list is attached by its\n"
        "full name: public.list. With neither --dsn nor -c the environment names the database\n"
        "(PGHOST, PGUSER …).\n",
    .options = options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_attach,
    .subcommands = (const struct command *const[]){&attach_detect_command, &tap_list_command,
        &tap_show_command, &tap_check_command, &tap_remove_command, &guard_command, NULL},
    .database = DATABASE,
    .refused = tap_refused,
};
