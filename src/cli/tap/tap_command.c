/* From options to a call of courier.attach() or courier.capture(), and what the server says. */
#include "cli/tap/tap_command.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "cli/connect.h"
#include "config/suggest.h"
#include "config/units.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *option_name(const struct arguments *arguments, unsigned option)
{
        return arguments->command->options[option].name;
}

/* An element of an array literal; in quotes only if it needs them, as people read it, too. */
static void append_element(struct bytes *array, const char *word)
{
        static const char plain[] =
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789-.*";

        bytes_append_text(array, array->length > 0 ? "," : "{");
        if (word[strspn(word, plain)] == '\0' && strcasecmp(word, "null") != 0) {
                bytes_append_text(array, word);
                return;
        }
        bytes_append_text(array, "\"");
        for (; *word != '\0'; word++)
                bytes_printf(array, "%s%c", *word == '"' || *word == '\\' ? "\\" : "", *word);
        bytes_append_text(array, "\"");
}

static bool add_words(
    struct bytes *array, const char *option, const char *list, struct error *error)
{
        while (true) {
                size_t length, kept;
                char *word;

                list += strspn(list, " ");
                length = kept = strcspn(list, ",");
                while (kept > 0 && list[kept - 1] == ' ')
                        kept--;
                if (kept == 0)
                        return error_set(error, ERROR_USAGE,
                            "--%s: a word is missing; write them as a,b,c", option);
                word = xstrndup(list, kept);
                append_element(array, word);
                free(word);
                if (list[length] == '\0')
                        return true;
                list += length + 1;
        }
}

static bool read_list(
    const struct arguments *arguments, unsigned option, char **out_value, struct error *error)
{
        struct bytes array = {0};
        const char *list;
        unsigned at = 0;

        while ((list = arguments_next(arguments, option, &at)) != NULL)
                if (!add_words(&array, option_name(arguments, option), list, error)) {
                        bytes_deinit(&array);
                        return false;
                }
        bytes_append_text(&array, "}");
        *out_value = array.data;
        return true;
}

bool tap_read_time(
    const struct arguments *arguments, unsigned option, char **out_interval, struct error *error)
{
        const char *value = arguments_value(arguments, option);
        int64_t ms;

        *out_interval = NULL;
        if (value == NULL)
                return true;
        if (!units_parse_duration(value, &ms) || ms == 0)
                return error_set(error, ERROR_USAGE, "--%s: \"%.64s\" is not " UNITS_DURATION,
                    option_name(arguments, option), value);
        *out_interval = xstrdup(value); /* PostgreSQL reads these units alike */
        return true;
}

static bool read_value(const struct arguments *arguments, const struct tap_parameter *parameter,
    char **out_value, struct error *error)
{
        const char *value = arguments_value(arguments, parameter->option);

        if (value == NULL)
                return true;
        switch (parameter->form) {
        case TAP_TEXT:
                if (*value == '\0')
                        return error_set(error, ERROR_USAGE, "--%s is empty",
                            option_name(arguments, parameter->option));
                *out_value = xstrdup(value);
                return true;
        case TAP_LIST:
                return read_list(arguments, parameter->option, out_value, error);
        case TAP_TIME:
                return tap_read_time(arguments, parameter->option, out_value, error);
        case TAP_TRUE:
                *out_value = xstrdup("true");
                return true;
        case TAP_PUBLISH:
                *out_value = xstrdup("publish");
                return true;
        }
        abort();
}

static bool read_call(struct tap_call_values *out_values, const struct arguments *arguments,
    const struct tap_maker *maker, struct error *error)
{
        static const char *const types[] = {[TAP_TEXT] = "text",
            [TAP_LIST] = "text[]",
            [TAP_TIME] = "interval",
            [TAP_TRUE] = "boolean",
            [TAP_PUBLISH] = "text"};

        assert(maker->n_parameters <= TAP_MAX_ARGUMENTS);
        out_values->call = (struct tap_call){
            maker->function, arguments->operands[0], out_values->arguments, maker->n_parameters};
        for (size_t i = 0; i < maker->n_parameters; i++) {
                const struct tap_parameter *parameter = &maker->parameters[i];
                if (!read_value(arguments, parameter, &out_values->values[i], error))
                        return false;
                out_values->arguments[i] = (struct tap_argument){
                    parameter->name, types[parameter->form], out_values->values[i]};
        }
        return true;
}

static size_t find(const struct tap_call_values *values, const char *name)
{
        size_t i = 0;

        while (strcmp(values->arguments[i].name, name) != 0)
                i++;
        return i;
}

void tap_call_set(struct tap_call_values *values, const char *name, const char *value)
{
        const size_t i = find(values, name);

        free(values->values[i]);
        values->values[i] = xstrdup(value);
        values->arguments[i].value = values->values[i];
}

const char *tap_call_value(const struct tap_call_values *values, const char *name)
{
        return values->values[find(values, name)];
}

void tap_print_notices(const struct blocking_conn *conn)
{
        fputs(blocking_conn_notices(conn), stderr);
}

static bool make(
    struct blocking_conn *conn, const struct tap_call *call, const char *made, struct error *error)
{
        struct rows *rows = tap_make(conn, call, error);

        tap_print_notices(conn);
        if (rows == NULL)
                return false;
        printf("%s is %s as %s\n", call->table, made, rows_text(rows, 0, 0));
        rows_free(rows);
        return true;
}

bool tap_command_make(
    const struct arguments *arguments, const struct tap_maker *maker, struct error *error)
{
        struct tap_call_values values = {0};
        struct blocking_conn *conn = NULL;
        bool ok;

        if (read_call(&values, arguments, maker, error))
                conn = command_connect(arguments, error);
        if (conn == NULL)
                ok = false;
        else if (arguments_has(arguments, maker->print_option))
                ok = maker->print(conn, &values, error);
        else
                ok = make(conn, &values.call, maker->made, error);
        for (size_t i = 0; i < TAP_MAX_ARGUMENTS; i++)
                free(values.values[i]);
        return ok;
}

static bool starts_with(const char *text, const char *beginning)
{
        return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* Of our schema, not of the application's tables or what an expression names. */
static bool is_ours(const char *message)
{
        static const char *const beginnings[] = {"function courier.", "relation \"courier.",
            "type \"courier.", "schema \"courier", "permission denied for schema courier",
            "permission denied for function ", "permission denied for table attachment",
            "permission denied for table layout"};

        for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
                if (starts_with(message, beginnings[i]))
                        return true;
        return false;
}

/* `attach lst` is a table lst. */
static bool no_such_table(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error)
{
        const struct command *root = arguments->root;
        const char *table = arguments->operands[0];
        struct rows *rows = tap_table_names(conn, error);
        const char *meant = NULL;
        bool is_table = true;

        if (rows == NULL)
                return false;
        for (int i = 0; i < rows_count(rows); i++)
                meant = suggest_nearer(table, meant, rows_text(rows, i, 0));
        for (size_t i = 0; arguments->command == root && root->subcommands[i] != NULL; i++) {
                const char *nearer = suggest_nearer(table, meant, root->subcommands[i]->name);
                is_table &= nearer == meant;
                meant = nearer;
        }
        if (meant == NULL)
                error_set(error, ERROR_EMPTY,
                    "there is no table \"%.100s\" in the search path of this connection; name it "
                    "with its schema",
                    table);
        else if (is_table)
                error_set(error, ERROR_EMPTY, "there is no table \"%.100s\"; did you mean \"%s\"?",
                    table, meant);
        else
                error_set(error, ERROR_EMPTY,
                    "there is no table \"%.100s\"; did you mean `pgcourier %s %s`?", table,
                    root->name, meant);
        rows_free(rows);
        return false;
}

bool tap_missing(struct blocking_conn *conn, const char *name, struct error *error)
{
        return name_missing(tap_names(conn, error), "tap", "attach list", name, error);
}

void tap_refused(struct blocking_conn *conn, const struct arguments *arguments, struct error *error)
{
        const char *sqlstate = blocking_conn_sqlstate(conn);
        const char *message = blocking_conn_message(conn);

        if (strcmp(sqlstate, "42501") == 0 && strstr(message, "function guard_ddl") != NULL)
                error_set(error, ERROR_PERMISSION, "%s. It needs a superuser", message);
        else if (strcmp(sqlstate, "42501") == 0 && is_ours(message))
                error_set(error, ERROR_PERMISSION,
                    "%s. An administrator can allow it: GRANT courier_attacher TO \"%s\"", message,
                    blocking_conn_user(conn));
        else if (error->kind == ERROR_SCHEMA && is_ours(message))
                error_set(error, ERROR_SCHEMA, "%s%s See `pgcourier migrate status`", message,
                    message[strlen(message) - 1] == '.' ? "" : ".");
        /* undefined_table, invalid_schema_name: of the operand, else the words begin otherwise */
        else if (strcmp(sqlstate, "42P01") == 0 && starts_with(message, "relation \""))
                no_such_table(conn, arguments, error);
        else if (strcmp(sqlstate, "3F000") == 0)
                error_set(error, ERROR_EMPTY, "%s", message);
        else if (strcmp(sqlstate, "P0002") == 0) /* another session was faster */
                tap_missing(conn, arguments->operands[0], error);
        /* What the functions say begins with the table, and has its hint. */
        else if (strcmp(sqlstate, "42501") != 0 &&
                 (starts_with(sqlstate, "22") || starts_with(sqlstate, "42")))
                error_set(error, ERROR_USAGE, "%s", message);
}
