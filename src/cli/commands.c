/* The command line → one command. Also the two commands that serve the command line itself: help
 * and completion. */
#include "cli/commands.h"

#include "base/bytes.h"
#include "cli/connect.h"
#include "cli/remedy.h"
#include "config/config.h"
#include "config/suggest.h"
#include "operator/member_rows.h"
#include "operator/receiver_rows.h"
#include "operator/type_rows.h"
#include "pgcourier/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct command *const commands[] = {
    &init_command,
    &run_command,
    &migrate_command,
    &maintain_command,
    &check_command,
    &doctor_command,
    &config_command,
    &publish_command,
    &send_command,
    &attach_command,
    &capture_command,
    &receiver_command,
    &type_command,
    &dead_command,
    &parked_command,
    &pause_command,
    &resume_command,
    &schedule_command,
    &replay_command,
    &rewind_command,
    &cursor_command,
    &relay_command,
    &rebase_command,
    &tail_command,
    &trace_command,
    &health_command,
    &reload_command,
    &status_command,
    &completion_command,
    &version_command,
    &help_command,
    NULL,
};

static bool unknown(const char *name, struct error *error)
{
        const char *meant = NULL;
        struct bytes text = {0};

        for (size_t i = 0; commands[i] != NULL; i++)
                if (!commands[i]->is_hidden)
                        meant = suggest_nearer(name, meant, commands[i]->name);
        bytes_printf(&text, "there is no command \"%.64s\"", name);
        if (meant != NULL)
                bytes_printf(&text, "; did you mean \"%s\"?", meant);
        else
                bytes_append_text(&text, ".");
        bytes_append_text(&text, " Commands:");
        for (size_t i = 0; commands[i] != NULL; i++)
                if (!commands[i]->is_hidden)
                        bytes_printf(&text, "%s %s", i > 0 ? "," : "", commands[i]->name);
        error_set(error, ERROR_USAGE, "%s", text.data);
        bytes_deinit(&text);
        return false;
}

/* NULL and *error if there is none of that name. */
static const struct command *find(const char *name, struct error *error)
{
        for (size_t i = 0; commands[i] != NULL; i++)
                if (strcmp(commands[i]->name, name) == 0)
                        return commands[i];
        unknown(name, error);
        return NULL;
}

const struct exit_code exit_codes[] = {
    {"0", "done"},
    {"1", "other failure, or standard output could not be written"},
    {"2", "usage: the command line, or an event that may not be published"},
    {"3", "configuration: the file, a file it names, or the dsn is not valid"},
    {"4", "PostgreSQL cannot be reached, or refused a statement"},
    {"5", "a sink cannot be reached, or refuses us"},
    {"6", "schema: missing, too old or too new, or of another cluster"},
    {"7", "permission: denied by PostgreSQL or the file system"},
    {"8", "nothing matched: no such ID, or nothing at all with --fail-empty"},
    {"75", "try again later: a deadlock, a lock, memory or another resource was not available"},
    {"130, 143", "ended by SIGINT, SIGTERM (run drains and ends with 0 instead)"},
    {NULL, NULL},
};

static void print_overview(void)
{
        puts("pgcourier carries events from a PostgreSQL outbox to the outside world.\n"
             "\n"
             "Usage: pgcourier COMMAND [OPTIONS]\n"
             "\n"
             "Commands:");
        for (size_t i = 0; commands[i] != NULL; i++)
                if (!commands[i]->is_hidden)
                        printf("  %-10s %s\n", commands[i]->name, commands[i]->summary);
        puts("\n"
             "`pgcourier help COMMAND` and `pgcourier COMMAND --help` say more.\n"
             "\n"
             "Exit codes:");
        for (size_t i = 0; exit_codes[i].code != NULL; i++)
                printf("  %-10s %s\n", exit_codes[i].code, exit_codes[i].meaning);
}

#define HELP_COLUMN 27

/* The option, then its help in a column of its own: beside it, or below if there is no room. */
static void print_option(const struct command_option *option)
{
        struct bytes left = {0};
        const char *line = option->help;

        if (option->letter != 0)
                bytes_printf(&left, "  -%c, --%s", option->letter, option->name);
        else
                bytes_printf(&left, "      --%s", option->name);
        if (option->value != NULL)
                bytes_printf(&left, " %s", option->value);
        printf("%s", left.data);
        if (left.length + 2 > HELP_COLUMN)
                printf("\n%*s", HELP_COLUMN, "");
        else
                printf("%*s", HELP_COLUMN - (int)left.length, "");
        for (;;) {
                int length = (int)strcspn(line, "\n");
                printf("%.*s\n", length, line);
                if (line[length] == '\0')
                        break;
                line += length + 1;
                printf("%*s", HELP_COLUMN, "");
        }
        bytes_deinit(&left);
}

/* Of a subcommand the help is short: how it is called, and its own options. */
static void print_command(const struct command *root, const struct command *command)
{
        static const struct command_option help = {"help", 'h', NULL, false, "print this"};

        const struct command_option **options = command_options(root, command);
        struct bytes usage = {0};

        command_append_usage(&usage, root, command, "       ");
        printf("Usage: %s\n\n", usage.data);
        if (command == root)
                printf("%s\nOptions:\n", command->details);
        else
                printf("`pgcourier help %s` says what it does.\n\nOptions:\n", root->name);
        for (size_t i = 0; options[i] != NULL; i++)
                print_option(options[i]);
        print_option(&help);
        bytes_deinit(&usage);
        free(options);
}

static bool run_help(const struct arguments *arguments, struct error *error)
{
        const struct command *command;

        if (arguments->n_operands == 0) {
                print_overview();
                return true;
        }
        command = find(arguments->operands[0], error);
        if (command != NULL)
                print_command(command, command);
        return command != NULL;
}

const struct command help_command = {
    .name = "help",
    .summary = "show the help of pgcourier or of one command",
    .usage = "[COMMAND]",
    .details = "Lists the commands and the exit codes; with COMMAND, its options.\n",
    .max_operands = 1,
    .run = run_help,
};

/* For the completion scripts of shells: somewhere a person has pressed a key, and waits. */
#define COMPLETION_TIMEOUT_MS 2000

static const struct command_option completion_options[] = {
    {"config", 'c', "FILE", false, "the configuration that names the sinks or the database"},
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

static bool print_names(const struct arguments *arguments,
    struct rows *(*read_names)(struct blocking_conn *conn, struct error *error),
    struct error *error)
{
        struct blocking_conn *conn =
            connect_for_command(NULL, arguments->config_path, COMPLETION_TIMEOUT_MS, error);
        struct rows *rows = conn != NULL ? read_names(conn, error) : NULL;

        for (int i = 0; rows != NULL && i < rows_count(rows); i++)
                puts(rows_text(rows, i, 0));
        rows_free(rows);
        blocking_conn_close(conn);
        return rows != NULL;
}

static bool print_receivers(const struct arguments *arguments, struct error *error)
{
        return print_names(arguments, receiver_names, error);
}

static bool print_relays(const struct arguments *arguments, struct error *error)
{
        return print_names(arguments, member_names, error);
}

static bool print_types(const struct arguments *arguments, struct error *error)
{
        return print_names(arguments, type_names, error);
}

static const struct command sinks_command = {
    .name = "sinks", .usage = "-c FILE", .options = completion_options, .run = print_sinks};
static const struct command receivers_command = {
    .name = "receivers", .usage = "-c FILE", .options = completion_options, .run = print_receivers};
static const struct command relays_command = {
    .name = "relays", .usage = "-c FILE", .options = completion_options, .run = print_relays};
static const struct command types_command = {
    .name = "types", .usage = "-c FILE", .options = completion_options, .run = print_types};

const struct command completion_command = {
    .name = "completion",
    .summary = "list names for the completion scripts of shells",
    .details =
        "`completion sinks` lists the names of the configuration's sinks, `completion\n"
        "receivers` those of the receivers in its database, `completion relays` those of the\n"
        "relays, and `completion types` those of the types in its catalogue.\n",
    .subcommands = (const struct command *const[]){&sinks_command, &receivers_command,
        &relays_command, &types_command, NULL},
    .no_subcommand = "The packages install the scripts for bash, zsh and fish; a build from "
                     "source has them in package/completion.SHELL",
    .is_hidden = true,
};

/* With a connection of its own if it asks for one. What the last statement failed by is an error
 * that may have better words. */
static bool run(struct arguments *arguments, struct error *error)
{
        const struct command *root = arguments->root;
        struct blocking_conn *conn = NULL;
        bool ok;

        arguments->conn = &conn;
        ok = arguments->command->run(arguments, error);
        if (!ok && conn != NULL && *blocking_conn_sqlstate(conn) != '\0') {
                if (root->refused != NULL)
                        root->refused(conn, arguments, error);
                else if (root->needs_schema)
                        command_refused(conn, arguments, error);
        }
        blocking_conn_close(conn);
        return ok;
}

bool commands_run(int argc, char **argv, struct error *error)
{
        const struct command *command;
        struct arguments arguments;
        bool ok = true;

        if (argc < 2)
                return error_set(error, ERROR_USAGE, "which command? See `pgcourier help`");
        if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0) {
                print_overview();
                return true;
        }
        if (strcmp(argv[1], "-V") == 0 || strcmp(argv[1], "--version") == 0) {
                puts("pgcourier " PGCOURIER_VERSION);
                return true;
        }
        if (argv[1][0] == '-')
                return error_set(error, ERROR_USAGE,
                    "\"%.64s\" before the command; write options after it: "
                    "pgcourier COMMAND OPTIONS. See `pgcourier help`",
                    argv[1]);
        command = find(argv[1], error);
        if (command == NULL || !arguments_parse(&arguments, command, argc - 1, argv + 1, error))
                return false;
        remedy_init(commands, &arguments);
        if (arguments.wants_help)
                print_command(command, arguments.command);
        else
                ok = run(&arguments, error);
        arguments_deinit(&arguments);
        return ok;
}
