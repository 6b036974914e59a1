/* What a configuration comes to, and what there can be in one. */
#include "cli/commands.h"
#include "cli/config/config_commands.h"

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
