/* The command line → one command. Also `pgcourier help`, which is the one command that knows them all. */
#include "cli/commands.h"

#include "base/bytes.h"
#include "cli/connect.h"
#include "cli/remedy.h"
#include "config/suggest.h"
#include "pgcourier/version.h"

#include <stdio.h>
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
    &endpoint_command,
    &dead_command,
    &parked_command,
    &pause_command,
    &resume_command,
    &schedule_command,
    &replay_command,
    &rewind_command,
    &cursor_command,
    &rebase_command,
    &tail_command,
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

static bool run_help(const struct arguments *arguments, struct error *error)
{
        const struct command *command;

        if (arguments->n_operands == 0) {
                help_print_overview(commands);
                return true;
        }
        command = find(arguments->operands[0], error);
        if (command != NULL)
                help_print_command(command);
        return command != NULL;
}

const struct command help_command = {
    .name = "help",
    .summary = "say what pgcourier, or one command, can do",
    .usage = "[COMMAND]",
    .details = "Lists the commands and the exit codes; with COMMAND, its options.\n",
    .max_operands = 1,
    .run = run_help,
};

/* With a connection of its own if it asks for one. What the last statement failed by is an error that
 * may have better words. */
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
                help_print_overview(commands);
                return true;
        }
        if (strcmp(argv[1], "-V") == 0 || strcmp(argv[1], "--version") == 0) {
                puts("pgcourier " PGCOURIER_VERSION);
                return true;
        }
        if (argv[1][0] == '-')
                return error_set(error, ERROR_USAGE,
                    "\"%.64s\" before the command; options stand behind it: "
                    "pgcourier COMMAND OPTIONS. See `pgcourier help`",
                    argv[1]);
        command = find(argv[1], error);
        if (command == NULL || !arguments_parse(&arguments, command, argc - 1, argv + 1, error))
                return false;
        remedy_init(commands, &arguments);
        if (arguments.wants_help)
                help_print_command(command);
        else
                ok = run(&arguments, error);
        arguments_deinit(&arguments);
        return ok;
}
