/* What a configuration comes to, and what there can be in one. */
#include "cli/cli.h"
#include "cli/config/config_commands.h"
#include "cli/subcommand.h"

#include <stdio.h>

enum { CONFIG, JSON };

static const struct command_option options[] = {
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

static bool run_docs(const struct arguments *arguments, struct error *error)
{
        (void)arguments;
        (void)error;
        config_docs_print();
        return true;
}

static const struct subcommand subcommands[] = {
    {.name = "show", .options = 1u << CONFIG | 1u << JSON, .run = run_show},
    {.name = "schema", .run = run_schema},
    {.name = "docs", .run = run_docs},
    {0},
};

static bool run_config(const struct arguments *arguments, struct error *error)
{
        return subcommands_run(arguments, error);
}

extern const struct command config_command;
const struct command config_command = {
    .name = "config",
    .summary = "show what a configuration comes to; a schema for editors",
    .usage = "show -c FILE [--json]\n"
             "       pgcourier config schema|docs",
    .details =
        "show prints each key with the value that takes effect, and where that comes from: a\n"
        "default, a line of the file, a variable of the environment or a file with a secret.\n"
        "Secrets, and what a module's options hold, are ***. schema prints a JSON Schema that\n"
        "editors understand; docs prints the tables of docs/configuration.md.\n",
    .options = options,
    .subcommands = subcommands,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_config,
};
