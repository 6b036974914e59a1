/* Names that the shells' completion scripts ask for while a command line is typed. */
#include "cli/commands.h"
#include "cli/subcommand.h"
#include "config/config.h"
#include "operator/endpoint_rows.h"
#include "pg/blocking_conn.h"

#include <limits.h>
#include <stdio.h>

/* A person has pressed a key, and waits. */
#define ANSWER_TIMEOUT_MS 2000

enum { CONFIG };

static const struct command_option options[] = {
    [CONFIG] = {"config", 'c', "FILE", false,
        "the configuration whose sinks, or database, are asked"},
    {0},
};

static bool print_sinks(const struct arguments *arguments, struct error *error)
{
        struct config *config;

        if (!arguments_has(arguments, CONFIG))
                return error_set(error, ERROR_USAGE,
                    "completion sinks needs a configuration: pgcourier completion sinks -c FILE");
        config = config_load(arguments_value(arguments, CONFIG), error);
        if (config == NULL)
                return false;
        for (unsigned i = 0; i < config->n_sinks; i++)
                puts(config->sinks[i].name);
        config_free(config);
        return true;
}

static bool print_endpoints(const struct arguments *arguments, struct error *error)
{
        struct blocking_conn *conn =
            connect_for_command(NULL, arguments_value(arguments, CONFIG), ANSWER_TIMEOUT_MS, error);
        struct rows *rows = conn != NULL ? endpoint_names(conn, error) : NULL;

        for (int i = 0; rows != NULL && i < rows_count(rows); i++)
                puts(rows_text(rows, i, 0));
        rows_free(rows);
        blocking_conn_close(conn);
        return rows != NULL;
}

static const struct subcommand subcommands[] = {
    {"sinks", 1U << CONFIG, 0, 0, print_sinks},
    {"endpoints", 1U << CONFIG, 0, 0, print_endpoints},
    {0},
};

static bool run_completion(const struct arguments *arguments, struct error *error)
{
        return subcommands_run(arguments, error);
}

const struct command completion_command = {
    .name = "completion",
    .summary = "list names for the completion scripts of shells",
    .usage = "sinks|endpoints -c FILE",
    .details = "`completion sinks` lists the names of the configuration's sinks, `completion\n"
               "endpoints` those of the receivers in its database.\n",
    .options = options,
    .subcommands = subcommands,
    .no_subcommand = "The packages install the scripts for bash, zsh and fish; a build from "
                     "source has them in package/completion.SHELL",
    .max_operands = UINT_MAX,
    .is_hidden = true,
    .run = run_completion,
};
