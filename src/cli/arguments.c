/*
 * One command's words, by getopt_long. Errors are our own: getopt's do not say
 * what would have been right.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "cli/cli.h"
#include "config/suggest.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

/* getopt_long's value for row i of a table is FIRST_ROW + i: out of the way of all letters. */
enum { HELP = 'h', FIRST_ROW = 256 };

static unsigned count_options(const struct command *command)
{
        unsigned n = 0;

        while (command->options[n].name != NULL)
                n++;
        return n;
}

static struct option *make_long_options(const struct command *command, unsigned n_options)
{
        struct option *long_options = xcalloc(n_options + 2, sizeof *long_options);

        for (unsigned i = 0; i < n_options; i++) {
                const struct command_option *option = &command->options[i];
                long_options[i].name = option->name;
                long_options[i].has_arg = option->value != NULL ? required_argument : no_argument;
                long_options[i].val = FIRST_ROW + (int)i;
        }
        long_options[n_options] = (struct option){"help", no_argument, NULL, HELP};
        return long_options;
}

/* The leading colon makes getopt tell a missing value from an unknown option. */
static char *make_letters(const struct command *command)
{
        struct bytes letters = {0};

        bytes_append_text(&letters, ":h");
        for (const struct command_option *option = command->options; option->name != NULL; option++)
                if (option->letter != 0)
                        bytes_printf(&letters, "%c%s", option->letter, option->value ? ":" : "");
        return letters.data;
}

static const struct command_option *find_option(
    const struct command *command, int found, unsigned *out_index)
{
        for (unsigned i = 0; command->options[i].name != NULL; i++)
                if (found == FIRST_ROW + (int)i ||
                    (found != 0 && found == command->options[i].letter)) {
                        *out_index = i;
                        return &command->options[i];
                }
        return NULL;
}

static bool has_option(const struct command *command, const char *name)
{
        for (const struct command_option *option = command->options; option->name != NULL; option++)
                if (strcmp(option->name, name) == 0)
                        return true;
        return false;
}

/* What other commands call the same. */
static const char *find_alias(const struct command *command, const char *name)
{
        static const char *const aliases[][2] = {{"payload", "data"}};

        for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
                for (size_t k = 0; k < 2; k++)
                        if (strcmp(name, aliases[i][k]) == 0 &&
                            has_option(command, aliases[i][1 - k]))
                                return aliases[i][1 - k];
        return NULL;
}

static bool unknown_option(const struct command *command, const char *word, struct error *error)
{
        char *name = xstrndup(word, strcspn(word, "="));
        const char *bare_name = name + strspn(name, "-");
        const char *meant = suggest_nearer(bare_name, NULL, "help");
        struct bytes text = {0};

        for (const struct command_option *option = command->options; option->name != NULL; option++)
                meant = suggest_nearer(bare_name, meant, option->name);
        if (meant == NULL)
                meant = find_alias(command, bare_name);
        bytes_printf(&text, "%s has no option \"%.64s\"", command->name, name);
        if (meant != NULL)
                bytes_printf(&text, "; did you mean \"--%s\"?", meant);
        else
                bytes_append_text(&text, ".");
        bytes_append_text(&text, " Options: ");
        for (const struct command_option *option = command->options; option->name != NULL; option++)
                bytes_printf(&text, "--%s, ", option->name);
        error_set(error, ERROR_USAGE, "%s--help", text.data);
        bytes_deinit(&text);
        free(name);
        return false;
}

/* What getopt did not like: optopt is a letter, a row's value, or 0 for an unknown long option. */
static bool bad_option(const struct command *command, char **argv, struct error *error)
{
        unsigned index;
        const struct command_option *option = find_option(command, optopt, &index);
        const char letter[] = {'-', (char)optopt, '\0'};

        if (option != NULL || optopt == HELP)
                return error_set(error, ERROR_USAGE, "%s: --%s takes no value", command->name,
                    option != NULL ? option->name : "help");
        if (optopt != 0)
                return unknown_option(command, letter, error);
        return unknown_option(command, argv[optind - 1], error);
}

static bool take_option(struct arguments *arguments, int found, struct error *error)
{
        unsigned index = 0;
        const struct command_option *option = find_option(arguments->command, found, &index);

        if (!option->repeats && arguments_has(arguments, index))
                return error_set(error, ERROR_USAGE, "%s: --%s is given twice",
                    arguments->command->name, option->name);
        arguments->given[arguments->n_given++] =
            (struct given_option){.index = index, .value = option->value != NULL ? optarg : ""};
        return true;
}

/* The help breaks and indents its lines; some begin the command anew. */
static char *usage_in_one_line(const struct command *command)
{
        static const char anew[] = "pgcourier ";
        struct bytes line = {0};

        for (const char *at = command->usage; *at != '\0'; at++) {
                if (*at != '\n') {
                        bytes_append(&line, at, 1);
                        continue;
                }
                at += strspn(at, "\n ");
                bytes_append_text(&line, strncmp(at, anew, strlen(anew)) == 0 ? ", or " : " ");
                at--;
        }
        return line.data;
}

static bool check_operands(const struct arguments *arguments, struct error *error)
{
        const struct command *command = arguments->command;
        char *usage;

        if (arguments->n_operands >= command->min_operands &&
            arguments->n_operands <= command->max_operands)
                return true;
        usage = usage_in_one_line(command);
        if (arguments->n_operands < command->min_operands)
                error_set(error, ERROR_USAGE, "%s needs more: pgcourier %s %s", command->name,
                    command->name, usage);
        else
                error_set(error, ERROR_USAGE, "%s: \"%.64s\" is one word too many: pgcourier %s %s",
                    command->name, arguments->operands[command->max_operands], command->name,
                    usage);
        free(usage);
        return false;
}

static bool parse_options(struct arguments *arguments, int argc, char **argv, const char *letters,
    const struct option *long_options, struct error *error)
{
        const struct command *command = arguments->command;
        int found;

        opterr = 0;
        optind = 0; /* starts over, also for the second call in one process */
        while ((found = getopt_long(argc, argv, letters, long_options, NULL)) != -1) {
                if (found == HELP) {
                        arguments->wants_help = true;
                        return true;
                }
                if (found == ':') {
                        unsigned index = 0;
                        const struct command_option *option = find_option(command, optopt, &index);
                        return error_set(error, ERROR_USAGE, "%s: --%s needs a value: --%s %s",
                            command->name, option->name, option->name, option->value);
                }
                if (found == '?')
                        return bad_option(command, argv, error);
                if (!take_option(arguments, found, error))
                        return false;
        }
        arguments->operands = (const char *const *)(argv + optind);
        arguments->n_operands = (unsigned)(argc - optind);
        return check_operands(arguments, error);
}

bool arguments_parse(struct arguments *out_arguments, const struct command *command, int argc,
    char **argv, struct error *error)
{
        struct arguments arguments = {.command = command};
        struct option *long_options = make_long_options(command, count_options(command));
        char *letters = make_letters(command);
        bool ok;

        arguments.given = xcalloc((size_t)argc, sizeof *arguments.given);
        ok = parse_options(&arguments, argc, argv, letters, long_options, error);
        free(letters);
        free(long_options);
        if (ok)
                *out_arguments = arguments;
        else
                arguments_deinit(&arguments);
        return ok;
}

void arguments_deinit(struct arguments *arguments)
{
        free(arguments->given);
        *arguments = (struct arguments){0};
}

const char *arguments_value(const struct arguments *arguments, unsigned index)
{
        for (unsigned i = 0; i < arguments->n_given; i++)
                if (arguments->given[i].index == index)
                        return arguments->given[i].value;
        return NULL;
}

bool arguments_has(const struct arguments *arguments, unsigned index)
{
        return arguments_value(arguments, index) != NULL;
}
