#include "base/bytes.h"
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct exit_code exit_codes[] = {
    {"0", "done"},
    {"1", "failure of another kind, or standard output could not be written"},
    {"2", "usage: the command line, or an event that may not be published"},
    {"3", "configuration: the file, a file it names, or the dsn is not valid"},
    {"4", "PostgreSQL cannot be reached, or refused a statement"},
    {"5", "a sink cannot be reached, or refuses us"},
    {"6", "schema: missing, too old or too new, or of another cluster"},
    {"7", "permission: PostgreSQL or the file system says we may not"},
    {"8", "nothing matched: no such ID, or nothing at all with --fail-empty"},
    {"75", "try again later: a deadlock, a lock, memory or another resource was not available"},
    {"130, 143", "ended by SIGINT, SIGTERM (run drains and ends with 0 instead)"},
    {NULL, NULL},
};

void help_print_overview(const struct command *const commands[])
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

void help_print_command(const struct command *command)
{
        static const struct command_option help = {"help", 'h', NULL, false, "print this"};

        const struct command_option **options = command_options(command, command);
        struct bytes usage = {0};

        command_append_usage(&usage, command, "       ");
        printf("Usage: %s\n\n%s\nOptions:\n", usage.data, command->details);
        for (size_t i = 0; options[i] != NULL; i++)
                print_option(options[i]);
        print_option(&help);
        bytes_deinit(&usage);
        free(options);
}
