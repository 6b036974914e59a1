/* `pgcourier type`: the catalogue of event types. Of its subcommands, those that read it or remove
 * from it are here. */
#include "base/bytes.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/table.h"
#include "cli/type/type_common.h"
#include "operator/type_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct table_column columns[] = {
    {"TYPE", TYPE_ROW_NAME, CELL_LONG},
    {"DEPRECATED", TYPE_ROW_DEPRECATED, CELL_OPTIONAL},
    {"SCHEMA", TYPE_ROW_HAS_SCHEMA, CELL_WORD},
    {"EXAMPLE", TYPE_ROW_HAS_EXAMPLE, CELL_WORD},
    {"CHANGED", TYPE_ROW_CHANGED, CELL_WORD},
    {"DESCRIPTION", TYPE_ROW_SUMMARY, CELL_LONG},
    {0},
};

static bool missing(struct blocking_conn *conn, const char *name, struct error *error)
{
        return name_missing(type_names(conn, error), "type", "type list", name, error);
}

static bool run_list(const struct arguments *arguments, struct error *error)
{
        struct blocking_conn *conn = command_connect(arguments, error);
        struct rows *rows = conn != NULL ? types_read(conn, NULL, error) : NULL;
        bool ok = true;

        if (rows == NULL)
                return false;
        if (rows_count(rows) == 0 && arguments_has(arguments, SMALL_LIST_FAIL_EMPTY))
                ok = error_set(error, ERROR_EMPTY, "the catalogue is empty");
        else if (rows_count(rows) == 0)
                fputs("the catalogue is empty; `pgcourier type set NAME` adds a type\n", stderr);
        else if (arguments_has(arguments, SMALL_LIST_JSON))
                table_print_json(rows, TYPE_ROW_JSON);
        else
                ok = table_print(columns, rows, error);
        rows_free(rows);
        return ok;
}

static void print_field(const char *name, const char *value)
{
        if (value == NULL)
                return;
        printf("%-12s ", name);
        table_print_text(value, 13);
        putchar('\n');
}

/* As it reads best: jansson holds nearly all of what PostgreSQL does. */
static void print_json(const char *heading, const char *text)
{
        struct error ignored;
        json_t *json = text != NULL ? type_parse_json(heading, text, &ignored) : NULL;
        char *pretty = json != NULL ? type_json_text(json) : NULL;

        if (text != NULL)
                printf("\n%s:\n%s\n", heading, pretty != NULL ? pretty : text);
        free(pretty);
        json_decref(json);
}

static bool run_show(const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[0];
        struct blocking_conn *conn = command_connect(arguments, error);
        struct rows *rows = conn != NULL ? type_read(conn, name, error) : NULL;
        bool ok = true;

        if (rows == NULL)
                return false;
        if (rows_count(rows) == 0) {
                ok = missing(conn, name, error);
        } else if (arguments_has(arguments, ONLY_JSON)) {
                table_print_json(rows, TYPE_ROW_JSON);
        } else {
                print_field("name", rows_text(rows, 0, TYPE_ROW_NAME));
                print_field("description", rows_text(rows, 0, TYPE_ROW_DESCRIPTION));
                print_field("deprecated", rows_text(rows, 0, TYPE_ROW_DEPRECATED));
                print_field("created_at", rows_text(rows, 0, TYPE_ROW_CREATED));
                print_field("changed_at", rows_text(rows, 0, TYPE_ROW_CHANGED));
                print_json("schema", rows_text(rows, 0, TYPE_ROW_SCHEMA));
                print_json("example", rows_text(rows, 0, TYPE_ROW_EXAMPLE));
        }
        rows_free(rows);
        return ok;
}

static bool run_remove(const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[0];
        struct blocking_conn *conn = command_connect(arguments, error);
        bool existed, is_strict;

        if (conn == NULL || !type_remove(conn, name, &existed, &is_strict, error))
                return false;
        if (!existed)
                return missing(conn, name, error);
        printf("removed %s\n", name);
        if (is_strict)
                fputs(
                    "publishing refuses it from now on, because outbox.types is strict\n", stderr);
        return true;
}

static const struct command list_command = {
    .name = "list",
    .usage = "[--fail-empty] [--json]",
    .options = small_list_options,
    .run = run_list,
};

static const struct command show_command = {
    .name = "show",
    .usage = "NAME [--json]",
    .options = only_json_options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_show,
};

static const struct command remove_command = {
    .name = "remove",
    .usage = "NAME",
    .min_operands = 1,
    .max_operands = 1,
    .run = run_remove,
};

/* Of the table's rules only those of texts are left to break. */
static void refused(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error)
{
        const char *constraint = blocking_conn_constraint(conn);
        struct bytes sentence = {0};

        if (strncmp(blocking_conn_sqlstate(conn), "23", 2) != 0 || *constraint == '\0') {
                command_refused(conn, arguments, error);
                return;
        }
        bytes_append_text(&sentence, constraint);
        for (char *at = sentence.data; *at != '\0'; at++)
                if (*at == '_')
                        *at = ' ';
        error_set(error, ERROR_USAGE, "type %.100s: %s",
            arguments->n_operands > 0 ? arguments->operands[0] : "", sentence.data);
        bytes_deinit(&sentence);
}

const struct command type_command = {
    .name = "type",
    .summary = "keep a catalogue of event types, and make documents of it",
    .usage = "each with [--dsn DSN | -c FILE]",
    .details =
        "list    the types: whether they have a schema and an example, and when they were changed\n"
        "show    one, with its schema and its example\n"
        "set     adds a type, or changes what is given; an empty --description, --schema or\n"
        "        --example goes. The schema is a JSON Schema (2020-12) of the payload: its\n"
        "        keywords are checked. The example is not checked against the schema, and\n"
        "        neither is any event\n"
        "remove  takes it out of the catalogue; its events stay\n"
        "docs    prints what receivers have to know: an HTML page without scripts, an OpenAPI\n"
        "        3.1 document with webhooks, or an AsyncAPI 3.0 document. With -c the requests\n"
        "        are described as the http sink of that configuration makes them: its body,\n"
        "        signing, headers and batch. Without, as one without these keys does\n"
        "\n"
        "`pgcourier receiver test NAME --type TYPE` sends the example of a type. With\n"
        "outbox.types: strict publishing refuses types that are not in the catalogue, the table\n"
        "courier.event_type. The role must be a member of courier_relay.\n",
    .subcommands = (const struct command *const[]){&list_command, &show_command, &type_set_command,
        &remove_command, &type_docs_command, NULL},
    .database = DATABASE_AND_SETTINGS,
    .needs_schema = true,
    .answer_timeout_ms = 30000,
    .refused = refused,
};
