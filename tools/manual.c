/* A manual page, with what the tables of commands and keys say in its places. */
#include "base/bytes.h"
#include "cli/commands.h"
#include "pgcourier/version.h"
#include "tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_option(const struct command_option *option)
{
        if (option->letter != 0)
                printf("*-%c*, ", option->letter);
        printf("*--%s*", option->name);
        if (option->value != NULL) {
                fputs(" _", stdout);
                manual_print_text(option->value);
                putchar('_');
        }
        fputs("\n\t", stdout);
        manual_print_text(option->help);
        fputs("\n\n", stdout);
}

/* As `help` has it: what is set in columns stays so. */
static void print_as_it_stands(const char *text)
{
        printf("```\n%s%s```\n\n", text, text[strlen(text) - 1] == '\n' ? "" : "\n");
}

static void print_commands(void)
{
        for (size_t i = 0; commands[i] != NULL; i++) {
                const struct command *command = commands[i];
                const struct command_option **options;
                struct bytes usage = {0};

                if (command->is_hidden)
                        continue;
                printf("## %s\n\n", command->name);
                manual_print_text(command->summary);
                command_append_usage(&usage, command, "       ");
                printf("\n\n```\n%s\n```\n\n", usage.data);
                bytes_deinit(&usage);
                print_as_it_stands(command->details);
                options = command_options(command, command);
                for (size_t k = 0; options[k] != NULL; k++)
                        print_option(options[k]);
                free(options);
        }
}

static void print_exit_codes(void)
{
        for (size_t i = 0; exit_codes[i].code != NULL; i++) {
                printf("*%s*\n\t", exit_codes[i].code);
                manual_print_text(exit_codes[i].meaning);
                fputs("\n\n", stdout);
        }
}

static void print_line(const char *line)
{
        static const char version[] = "@VERSION@";
        const char *at = strstr(line, version);

        if (strcmp(line, "@COMMANDS@\n") == 0)
                print_commands();
        else if (strcmp(line, "@EXIT_CODES@\n") == 0)
                print_exit_codes();
        else if (strcmp(line, "@KEYS@\n") == 0)
                manual_print_keys();
        else if (at != NULL)
                printf("%.*s%s%s", (int)(at - line), line, PGCOURIER_VERSION, at + strlen(version));
        else
                fputs(line, stdout);
}

bool manual_print(struct error *error)
{
        char *line = NULL;
        size_t size = 0;

        while (getline(&line, &size, stdin) > 0)
                print_line(line);
        free(line);
        return !ferror(stdin) || error_set(error, ERROR_SYSTEM, "standard input cannot be read");
}
