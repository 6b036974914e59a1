/* Names that the shells' completion scripts ask for while a command line is typed. */
#include "cli/commands.h"
#include "cli/connect.h"
#include "config/config.h"
#include "operator/endpoint_rows.h"

#include <stdio.h>

/* A person has pressed a key, and waits. */
#define ANSWER_TIMEOUT_MS 2000

static const struct command_option options[] = {
    {"config", 'c', "FILE", false, "the configuration whose sinks, or database, are asked"},
    {0},
};

static bool print_sinks(const struct arguments *arguments, struct error *error)
{
        struct config *config;

        if (arguments->config_path == NULL)
                return error_set(error, ERROR_USAGE,
                    "completion sinks needs a configuration: pgcourier completion sinks -c FILE");
        config = config_load(arguments->config_path, error);
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
            connect_for_command(NULL, arguments->config_path, ANSWER_TIMEOUT_MS, error);
        struct rows *rows = conn != NULL ? endpoint_names(conn, error) : NULL;

        for (int i = 0; rows != NULL && i < rows_count(rows); i++)
                puts(rows_text(rows, i, 0));
        rows_free(rows);
        blocking_conn_close(conn);
        return rows != NULL;
}

static const struct command sinks_command = {
    .name = "sinks", .usage = "-c FILE", .options = options, .run = print_sinks};
static const struct command endpoints_command = {
    .name = "endpoints", .usage = "-c FILE", .options = options, .run = print_endpoints};

const struct command completion_command = {
    .name = "completion",
    .summary = "list names for the completion scripts of shells",
    .details = "`completion sinks` lists the names of the configuration's sinks, `completion\n"
               "endpoints` those of the receivers in its database.\n",
    .subcommands = (const struct command *const[]){&sinks_command, &endpoints_command, NULL},
    .no_subcommand = "The packages install the scripts for bash, zsh and fish; a build from "
                     "source has them in package/completion.SHELL",
    .is_hidden = true,
};
