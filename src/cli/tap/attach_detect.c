/* `pgcourier attach detect`: what a table looks like, and the command that attaches it. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "cli/connect.h"
#include "cli/remedy.h"
#include "cli/table.h"
#include "cli/tap/tap_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_COLUMN 11

static void print_field(const char *name, const char *value)
{
        if (value == NULL)
                return;
        printf("%-*s", NAME_COLUMN, name);
        table_print_text(value, NAME_COLUMN);
        putchar('\n');
}

static void append_option(struct bytes *command, const char *option, const char *value)
{
        bytes_append_shell_word(command, option);
        bytes_append_shell_word(command, value);
}

static void print_command(struct bytes *command, const char *remarks)
{
        remedy_print("\n  `%s`%s", command->data, remarks);
        bytes_deinit(command);
}

/* What the planner says is told as what it is. */
static char *count_text(const struct tap_row_counts *counts)
{
        const char *about = counts->is_exact ? "" : "about ";

        if (counts->n == 0)
                return xstrdup("none");
        return xasprintf(
            "%s%.0f; still to be published: %s%.0f", about, counts->n, about, counts->n_pending);
}

/* A role that may not read the table can still be told the rest. */
static void print_rows(struct blocking_conn *conn, const char *table, const char *layout,
    struct tap_row_counts *out_counts)
{
        struct error why;
        char *text;

        if (!tap_count(conn, table, layout, out_counts, &why)) {
                print_field("rows", why.text);
                return;
        }
        text = count_text(out_counts);
        print_field("rows", text);
        free(text);
}

static void print_notes(const struct rows *found)
{
        const char *notes = rows_text(found, 0, TAP_DETECT_NOTES);

        while (notes != NULL && *notes != '\0') {
                char *note = xstrndup(notes, strcspn(notes, "\n"));
                print_field("note", note);
                notes += strlen(note);
                notes += *notes == '\n';
                free(note);
        }
}

static bool print_mapping(
    struct blocking_conn *conn, const char *table, const char *layout, struct error *error)
{
        struct rows *mapping = tap_detect_mapping(conn, table, layout, error);

        if (mapping == NULL)
                return false;
        for (int row = 0; row < rows_count(mapping); row++)
                print_field(
                    rows_text(mapping, row, TAP_FIELD), rows_text(mapping, row, TAP_FIELD_VALUE));
        rows_free(mapping);
        return true;
}

static bool print_fitting(struct blocking_conn *conn, const struct rows *found, struct error *error)
{
        const char *table = rows_text(found, 0, TAP_DETECT_TABLE);
        const char *layout = rows_text(found, 0, TAP_DETECT_LAYOUT);
        const char *done = rows_text(found, 0, TAP_DETECT_DONE);
        const bool is_mark = strcmp(done, "mark") == 0;
        struct tap_row_counts counts = {0};
        struct bytes command = {0};
        struct bytes remarks = {0};

        print_field("layout", layout);
        print_field("remark", rows_text(found, 0, TAP_DETECT_REMARK));
        if (!print_mapping(conn, table, layout, error))
                return false;
        print_field("done", rows_text(found, 0, TAP_DETECT_MARKING));
        print_rows(conn, table, layout, &counts);
        print_notes(found);
        bytes_append_text(&command, "pgcourier attach");
        append_option(&command, table, "--layout");
        append_option(&command, layout, "--done");
        bytes_append_shell_word(&command, done);
        if (counts.n_pending > 0)
                bytes_append_text(&remarks,
                    "\n  --existing: the rows that are still to be published are events, too");
        if (is_mark)
                bytes_append_text(
                    &remarks, "\n  --when taken: while a relay inside the application still runs");
        print_command(&command, remarks.data != NULL ? remarks.data : "");
        bytes_deinit(&remarks);
        return true;
}

static void print_unknown(const struct rows *found)
{
        const char *topic = rows_text(found, 0, TAP_DETECT_TOPIC);
        const char *key = rows_text(found, 0, TAP_DETECT_KEY);
        const char *body = rows_text(found, 0, TAP_DETECT_BODY);
        struct bytes command = {0};

        print_field("layout", "none fits; see courier.layout");
        print_field("nearest", rows_text(found, 0, TAP_DETECT_NEAREST));
        print_field("columns", rows_text(found, 0, TAP_DETECT_COLUMNS));
        print_notes(found);
        bytes_append_text(&command, "pgcourier attach");
        append_option(&command, rows_text(found, 0, TAP_DETECT_TABLE), "--topic");
        bytes_append_shell_word(&command, topic != NULL ? topic : "TOPIC");
        append_option(&command, "--payload", body != NULL ? body : "PAYLOAD");
        if (key != NULL)
                append_option(&command, "--key", key);
        print_command(&command,
            "\n  Guessed by the columns' names; each is an SQL expression over the columns of a "
            "row.\n  --print shows what it makes");
}

static bool print_found(struct blocking_conn *conn, const struct rows *found, struct error *error)
{
        const char *attached_as = rows_text(found, 0, TAP_DETECT_ATTACHED_AS);

        printf("%-*s%s, %s\n", NAME_COLUMN, "table", rows_text(found, 0, TAP_DETECT_TABLE),
            rows_text(found, 0, TAP_DETECT_WHAT));
        if (attached_as != NULL) {
                remedy_print("%-*sas %s already: `pgcourier attach show %s`", NAME_COLUMN,
                    "attached", attached_as, attached_as);
                return true;
        }
        if (rows_text(found, 0, TAP_DETECT_LAYOUT) != NULL)
                return print_fitting(conn, found, error);
        print_unknown(found);
        return true;
}

static bool run_detect(const struct arguments *arguments, struct error *error)
{
        struct blocking_conn *conn = command_connect(arguments, error);
        struct rows *found = NULL;
        bool ok;

        if (conn != NULL &&
            blocking_conn_run(conn, "SET default_transaction_read_only = on", error) &&
            tap_is_possible(conn, arguments->operands[0], error))
                found = tap_detect(conn, arguments->operands[0], error);
        ok = found != NULL && print_found(conn, found, error);
        rows_free(found);
        return ok;
}

const struct command attach_detect_command = {
    .name = "detect",
    .usage = "TABLE",
    .min_operands = 1,
    .max_operands = 1,
    .run = run_detect,
};
