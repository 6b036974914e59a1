/* What a configuration comes to, and what there can be in one. */
#include "cli/commands.h"
#include "cli/config/config_commands.h"
#include "config/config_show.h"

#include <stdio.h>

enum { CONFIG, JSON };

static const struct command_option show_options[] = {
    [CONFIG] = {"config", 'c', "FILE", false, "show: the configuration; required"},
    [JSON] = {"json", 0, NULL, false, "show: print one JSON object"},
    {0},
};

static bool run_show(const struct arguments *arguments, struct error *error)
{
        if (!arguments_has(arguments, CONFIG))
                return error_set(error, ERROR_USAGE,
                    "config show needs a configuration: pgcourier config show -c FILE");
        return config_show(
            arguments_value(arguments, CONFIG), arguments_has(arguments, JSON), error);
}

static bool run_schema(const struct arguments *arguments, struct error *error)
{
        json_t *schema = config_schema();

        (void)arguments;
        (void)error;
        json_dumpf(schema, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(schema);
        return true;
}

static const struct command show_command = {
    .name = "show", .usage = "-c FILE [--json]", .options = show_options, .run = run_show};
static const struct command schema_command = {.name = "schema", .run = run_schema};

const struct command config_command = {
    .name = "config",
    .summary = "show what a configuration comes to; a schema for editors",
    .details =
        "show prints each key with the value that takes effect, and where that comes from: a\n"
        "default, a line of the file, a variable of the environment or a file with a secret.\n"
        "Secrets, and what a module's options hold, are ***. schema prints a JSON Schema that\n"
        "editors understand.\n",
    .subcommands = (const struct command *const[]){&show_command, &schema_command, NULL},
};

static const char *origin_name(enum config_origin origin)
{
        switch (origin) {
        case ORIGIN_NONE:
                return "none";
        case ORIGIN_DEFAULT:
                return "default";
        case ORIGIN_FILE:
                return "file";
        case ORIGIN_VARIABLE:
                return "variable";
        case ORIGIN_SECRET:
                return "secret file";
        }
        return NULL;
}

static void print_line(void *owner, const struct config_shown *shown)
{
        (void)owner;
        if (shown->origin == ORIGIN_NONE)
                return;
        printf("%s: %s  # ", shown->path, shown->is_masked ? "***" : shown->value);
        fputs(origin_name(shown->origin), stdout);
        if (shown->from != NULL)
                printf(" %s", shown->from);
        if (shown->line > 0)
                printf(", line %zu", shown->line);
        putchar('\n');
}

static void add_value(void *owner, const struct config_shown *shown)
{
        json_t *values = owner;
        json_t *value = json_pack("{s:s s:s? s:b s:s s:s?}", "key", shown->path, "value",
            shown->value, "masked", (int)shown->is_masked, "origin", origin_name(shown->origin),
            "from", shown->from);

        json_object_set_new(
            value, "line", shown->line > 0 ? json_integer((json_int_t)shown->line) : json_null());
        json_array_append_new(values, value);
}

bool config_show(const char *path, bool as_json, struct error *error)
{
        json_t *values;
        bool ok;

        if (!as_json)
                return config_walk(path, print_line, NULL, error);
        values = json_array();
        ok = config_walk(path, add_value, values, error);
        if (ok) {
                json_t *document = json_pack("{s:s s:O}", "file", path, "values", values);
                json_dumpf(document, stdout, JSON_INDENT(2));
                putchar('\n');
                json_decref(document);
        }
        json_decref(values);
        return ok;
}
