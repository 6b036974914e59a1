/* A manual page, with what the tables of commands and keys say in its places. */
#include "base/bytes.h"
#include "cli/commands.h"
#include "config/config_keys.h"
#include "config/value_types.h"
#include "pgcourier/version.h"
#include "tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Escapes what scdoc would take for markup; ends of lines become blanks. */
static void print_text(const char *text)
{
        for (; *text != '\0'; text++) {
                if (strchr("\\*_#<>`|[]~", *text) != NULL)
                        putchar('\\');
                putchar(*text == '\n' ? ' ' : *text);
        }
}

static void print_option(const struct command_option *option)
{
        if (option->letter != 0)
                printf("*-%c*, ", option->letter);
        printf("*--%s*", option->name);
        if (option->value != NULL) {
                fputs(" _", stdout);
                print_text(option->value);
                putchar('_');
        }
        fputs("\n\t", stdout);
        print_text(option->help);
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
                print_text(command->summary);
                command_append_usage(&usage, command, command, "       ");
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
                print_text(exit_codes[i].meaning);
                fputs("\n\n", stdout);
        }
}

static void print_key(const struct config_key *key)
{
        char *help = key_help(key);

        fputs("*", stdout);
        print_text(key->name);
        printf("*: %s", key_type_name(key));
        if (key->is_required)
                fputs(", required", stdout);
        if (key->choices != NULL) {
                fputs("; one of ", stdout);
                print_text(key->choices);
        }
        if (key->min != NULL && key->max != NULL)
                printf(", %s to %s", key->min, key->max);
        if (key->fallback != NULL) {
                fputs("; by default ", stdout);
                print_text(key->fallback);
        }
        fputs("\n\t", stdout);
        print_text(help);
        free(help);
        fputs("\n\n", stdout);
}

static void print_block(const struct config_block *block, const char *path)
{
        printf("## %s\n\n", *path != '\0' ? path : "At the top"); /* no markup in headings */
        for (size_t i = 0; i < block->n_keys; i++)
                print_key(&block->keys[i]);
        for (size_t i = 0; i < block->n_keys; i++) {
                const struct config_key *key = &block->keys[i];
                struct bytes below = {0};
                if (key->block == NULL)
                        continue;
                bytes_printf(&below, "%s%s%s%s", path, *path != '\0' ? "." : "", key->name,
                    key->is_list ? "[]" : "");
                print_block(key->block, below.data);
                bytes_deinit(&below);
        }
}

static void print_keys(void)
{
        print_block(&config_root, "");
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
                print_keys();
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
