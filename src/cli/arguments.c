/*
 * One command's words, by getopt_long. Errors are our own: getopt's do not say
 * what would have been right.
 *
 * An option may stand before the subcommand that takes it, so all options of a
 * command are read first, and then those are refused that the subcommand lacks.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "cli/cli.h"
#include "config/suggest.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* getopt_long's value for row i of a table is FIRST_ROW + i: out of the way of all letters. */
enum { HELP = 'h', FIRST_ROW = 256 };

const struct command_option only_json_options[] = {[ONLY_JSON] = OPTION_JSON, {0}};
const struct command_option small_list_options[] = {
    [SMALL_LIST_FAIL_EMPTY] = {"fail-empty", 0, NULL, false, "end with 8 if there are none"},
    [SMALL_LIST_JSON] = OPTION_JSON,
    {0},
};

static const struct command_option dsn_option = {
    "dsn", 0, "DSN", false, "the database: postgresql://… or host=…"};

static const struct command_option config_options[] = {
    [DATABASE] = {"config", 'c', "FILE", false, "the database of this configuration"},
    [DATABASE_AND_SINKS] = {"config", 'c', "FILE", false,
        "the database and the sinks of this configuration"},
    [DATABASE_AND_SETTINGS] = {"config", 'c', "FILE", false,
        "the database and settings of this configuration"},
};

/* The options of a command, under way. */
struct option_list {
        const struct command_option **options; /* owned; ends with NULL */
        unsigned n;
};

static void add(struct option_list *list, const struct command_option *option)
{
        for (unsigned i = 0; i < list->n; i++)
                if (strcmp(list->options[i]->name, option->name) == 0)
                        return;
        list->options = xrealloc(list->options, (list->n + 2) * sizeof(void *));
        list->options[list->n++] = option;
        list->options[list->n] = NULL;
}

static void add_all(struct option_list *list, const struct command *command)
{
        for (const struct command_option *option = command->options;
             option != NULL && option->name != NULL; option++)
                add(list, option);
        for (size_t i = 0; command->subcommands != NULL && command->subcommands[i] != NULL; i++)
                add_all(list, command->subcommands[i]);
}

const struct command_option **command_options(
    const struct command *root, const struct command *command)
{
        struct option_list list = {.options = xcalloc(1, sizeof(void *))};

        add_all(&list, command);
        if (root->database != NO_DATABASE) {
                add(&list, &dsn_option);
                add(&list, &config_options[root->database]);
        }
        return list.options;
}

static void append_line(
    struct bytes *text, const struct command *root, const struct command *command)
{
        bytes_printf(text, "pgcourier %s", root->name);
        if (command != root)
                bytes_printf(text, " %s", command->name);
        if (command->usage != NULL)
                bytes_printf(text, " %s", command->usage);
}

void command_append_usage(struct bytes *text, const struct command *root,
    const struct command *command, const char *indent)
{
        const char *separator = "";

        if (command != root) {
                append_line(text, root, command);
                return;
        }
        if (command->run != NULL) {
                append_line(text, command, command);
                separator = "\n";
        }
        for (size_t i = 0; command->subcommands != NULL && command->subcommands[i] != NULL; i++) {
                if (*separator != '\0')
                        bytes_printf(text, "%s%s", separator, indent);
                append_line(text, command, command->subcommands[i]);
                separator = "\n";
        }
        if (command->run == NULL && command->usage != NULL)
                bytes_printf(text, "\n%s%s", indent, command->usage);
}

static struct option *make_long_options(const struct command_option *const *options)
{
        struct option *long_options;
        unsigned n = 0;

        while (options[n] != NULL)
                n++;
        long_options = xcalloc(n + 2, sizeof *long_options);
        for (unsigned i = 0; i < n; i++)
                long_options[i] = (struct option){options[i]->name,
                    options[i]->value != NULL ? required_argument : no_argument, NULL,
                    FIRST_ROW + (int)i};
        long_options[n] = (struct option){"help", no_argument, NULL, HELP};
        return long_options;
}

/* The leading colon makes getopt tell a missing value from an unknown option. */
static char *make_letters(const struct command_option *const *options)
{
        struct bytes letters = {0};

        bytes_append_text(&letters, ":h");
        for (; *options != NULL; options++)
                if ((*options)->letter != 0)
                        bytes_printf(
                            &letters, "%c%s", (*options)->letter, (*options)->value ? ":" : "");
        return letters.data;
}

static const struct command_option *find_option(
    const struct command_option *const *options, int found)
{
        for (unsigned i = 0; options[i] != NULL; i++)
                if (found == FIRST_ROW + (int)i || (found != 0 && found == options[i]->letter))
                        return options[i];
        return NULL;
}

static bool has_option(const struct command_option *const *options, const char *name)
{
        for (; *options != NULL; options++)
                if (strcmp((*options)->name, name) == 0)
                        return true;
        return false;
}

/* What other commands call the same. */
static const char *find_alias(const struct command_option *const *options, const char *name)
{
        static const char *const aliases[][2] = {{"payload", "data"}};

        for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
                for (size_t k = 0; k < 2; k++)
                        if (strcmp(name, aliases[i][k]) == 0 &&
                            has_option(options, aliases[i][1 - k]))
                                return aliases[i][1 - k];
        return NULL;
}

static bool unknown_option(const struct command *command,
    const struct command_option *const *options, const char *word, struct error *error)
{
        char *name = xstrndup(word, strcspn(word, "="));
        const char *bare_name = name + strspn(name, "-");
        const char *meant = suggest_nearer(bare_name, NULL, "help");
        struct bytes text = {0};

        for (size_t i = 0; options[i] != NULL; i++)
                meant = suggest_nearer(bare_name, meant, options[i]->name);
        if (meant == NULL)
                meant = find_alias(options, bare_name);
        bytes_printf(&text, "%s has no option \"%.64s\"", command->name, name);
        if (meant != NULL)
                bytes_printf(&text, "; did you mean \"--%s\"?", meant);
        else
                bytes_append_text(&text, ".");
        bytes_append_text(&text, " Options: ");
        for (size_t i = 0; options[i] != NULL; i++)
                bytes_printf(&text, "--%s, ", options[i]->name);
        error_set(error, ERROR_USAGE, "%s--help", text.data);
        bytes_deinit(&text);
        free(name);
        return false;
}

/* What getopt did not like: optopt is a letter, a row's value, or 0 for an unknown long option. */
static bool bad_option(const struct command *command, const struct command_option *const *options,
    char **argv, struct error *error)
{
        const struct command_option *option = find_option(options, optopt);
        const char letter[] = {'-', (char)optopt, '\0'};

        if (option != NULL || optopt == HELP)
                return error_set(error, ERROR_USAGE, "%s: --%s takes no value", command->name,
                    option != NULL ? option->name : "help");
        if (optopt != 0)
                return unknown_option(command, options, letter, error);
        return unknown_option(command, options, argv[optind - 1], error);
}

static bool take_option(
    struct arguments *arguments, const struct command_option *option, struct error *error)
{
        for (unsigned i = 0; !option->repeats && i < arguments->n_given; i++)
                if (arguments->given[i].option == option)
                        return error_set(error, ERROR_USAGE, "%s: --%s is given twice",
                            arguments->root->name, option->name);
        arguments->given[arguments->n_given++] =
            (struct given_option){option, option->value != NULL ? optarg : ""};
        if (strcmp(option->name, "dsn") == 0)
                arguments->dsn = optarg;
        if (strcmp(option->name, "config") == 0)
                arguments->config_path = optarg;
        return true;
}

static bool read_options(struct arguments *arguments, int argc, char **argv, const char *letters,
    const struct option *long_options, const struct command_option *const *options,
    struct error *error)
{
        const struct command *root = arguments->root;
        int found;

        opterr = 0;
        optind = 0; /* starts over, also for the second call in one process */
        while ((found = getopt_long(argc, argv, letters, long_options, NULL)) != -1) {
                if (found == HELP) {
                        arguments->wants_help = true;
                        return true;
                }
                if (found == ':') {
                        const struct command_option *option = find_option(options, optopt);
                        return error_set(error, ERROR_USAGE, "%s: --%s needs a value: --%s %s",
                            root->name, option->name, option->name, option->value);
                }
                if (found == '?')
                        return bad_option(root, options, argv, error);
                if (!take_option(arguments, find_option(options, found), error))
                        return false;
        }
        arguments->operands = (const char *const *)(argv + optind);
        arguments->n_operands = (unsigned)(argc - optind);
        return true;
}

static bool unknown_subcommand(const struct arguments *arguments, struct error *error)
{
        const struct command *root = arguments->root;
        const char *word = arguments->n_operands > 0 ? arguments->operands[0] : NULL;
        const char *meant = NULL;
        struct bytes text = {0};

        for (size_t i = 0; word != NULL && root->subcommands[i] != NULL; i++)
                meant = suggest_nearer(word, meant, root->subcommands[i]->name);
        if (word == NULL)
                bytes_printf(&text, "%s needs a subcommand. ", root->name);
        else if (meant != NULL)
                bytes_printf(
                    &text, "%s cannot \"%.64s\"; did you mean \"%s\"? ", root->name, word, meant);
        else
                bytes_printf(&text, "%s cannot \"%.64s\". ", root->name, word);
        for (size_t i = 0; root->subcommands[i] != NULL; i++)
                bytes_printf(
                    &text, "%s%s", i == 0 ? "Possible: " : ", ", root->subcommands[i]->name);
        if (root->no_subcommand != NULL)
                bytes_printf(&text, ". %s", root->no_subcommand);
        error_set(error, ERROR_USAGE, "%s", text.data);
        bytes_deinit(&text);
        return false;
}

/* The first operand chooses it. Without an operand the command may do something by itself, and so
 * with one that names no subcommand, if it takes operands of its own. */
static bool choose_subcommand(struct arguments *arguments, struct error *error)
{
        const struct command *root = arguments->root;

        if (root->subcommands == NULL || (arguments->n_operands == 0 && root->run != NULL))
                return true;
        for (size_t i = 0; arguments->n_operands > 0 && root->subcommands[i] != NULL; i++) {
                if (strcmp(root->subcommands[i]->name, arguments->operands[0]) != 0)
                        continue;
                arguments->command = root->subcommands[i];
                snprintf(arguments->name, sizeof arguments->name, "%s %s", root->name,
                    arguments->command->name);
                arguments->operands++;
                arguments->n_operands--;
                return true;
        }
        if (root->run != NULL && root->max_operands > 0)
                return true;
        return unknown_subcommand(arguments, error);
}

/* NULL: the command itself has none of that name, whatever its subcommands have. */
static const struct command_option *option_of(
    const struct command *root, const struct command *command, const char *name)
{
        struct command alone = *command;
        const struct command_option **options;
        const struct command_option *found = NULL;

        alone.subcommands = NULL;
        options = command_options(root, &alone);
        for (size_t i = 0; found == NULL && options[i] != NULL; i++)
                if (strcmp(options[i]->name, name) == 0)
                        found = options[i];
        free(options);
        return found;
}

static bool wrong_option(const struct arguments *arguments, const char *name, struct error *error)
{
        const struct command *root = arguments->root;
        struct bytes takers = {0};

        for (size_t i = 0; root->options != NULL && root->options[i].name != NULL; i++)
                if (strcmp(root->options[i].name, name) == 0)
                        bytes_append_text(&takers, root->name);
        for (size_t i = 0; root->subcommands[i] != NULL; i++)
                if (option_of(root, root->subcommands[i], name) != NULL)
                        bytes_printf(&takers, "%s%s", takers.length > 0 ? ", " : "",
                            root->subcommands[i]->name);
        error_set(error, ERROR_USAGE, "%s takes no --%s; it is for: %s", arguments->name, name,
            takers.data);
        bytes_deinit(&takers);
        return false;
}

/* What was given is looked up among the rows of the subcommand, which it is read by. */
static bool check_options(struct arguments *arguments, struct error *error)
{
        for (unsigned i = 0; i < arguments->n_given; i++) {
                struct given_option *given = &arguments->given[i];
                const struct command_option *own =
                    option_of(arguments->root, arguments->command, given->option->name);
                if (own == NULL)
                        return wrong_option(arguments, given->option->name, error);
                given->option = own;
        }
        return true;
}

/* The help breaks and indents its lines; some begin the command anew. */
static char *usage_in_one_line(const struct arguments *arguments)
{
        static const char anew[] = "pgcourier ";
        struct bytes usage = {0};
        struct bytes line = {0};

        append_line(&usage, arguments->root, arguments->command);
        for (const char *at = usage.data; *at != '\0'; at++) {
                if (*at != '\n') {
                        bytes_append(&line, at, 1);
                        continue;
                }
                at += strspn(at, "\n ");
                bytes_append_text(&line, strncmp(at, anew, strlen(anew)) == 0 ? ", or " : " ");
                at--;
        }
        bytes_deinit(&usage);
        return line.data;
}

static bool check_operands(const struct arguments *arguments, struct error *error)
{
        const struct command *command = arguments->command;
        char *usage;

        if (arguments->n_operands >= command->min_operands &&
            arguments->n_operands <= command->max_operands)
                return true;
        usage = usage_in_one_line(arguments);
        if (arguments->n_operands < command->min_operands)
                error_set(
                    error, ERROR_USAGE, "%s: an argument is missing: %s", arguments->name, usage);
        else
                error_set(error, ERROR_USAGE, "%s: unexpected argument \"%.64s\": %s",
                    arguments->name, arguments->operands[command->max_operands], usage);
        free(usage);
        return false;
}

/* The subcommand whose help is wanted: the first word that names one. */
static const struct command *find_named(const struct command *root, int argc, char **argv)
{
        for (int word = 1; root->subcommands != NULL && word < argc; word++)
                for (size_t i = 0; root->subcommands[i] != NULL; i++)
                        if (strcmp(argv[word], root->subcommands[i]->name) == 0)
                                return root->subcommands[i];
        return root;
}

bool arguments_parse(struct arguments *out_arguments, const struct command *command, int argc,
    char **argv, struct error *error)
{
        struct arguments arguments = {.root = command, .command = command};
        const struct command_option **options = command_options(command, command);
        struct option *long_options = make_long_options(options);
        char *letters = make_letters(options);
        bool ok;

        snprintf(arguments.name, sizeof arguments.name, "%s", command->name);
        arguments.given = xcalloc((size_t)argc, sizeof *arguments.given);
        ok = read_options(&arguments, argc, argv, letters, long_options, options, error);
        free(letters);
        free(long_options);
        free(options);
        if (ok && arguments.wants_help)
                arguments.command = find_named(command, argc, argv);
        else if (ok)
                ok = choose_subcommand(&arguments, error) && check_options(&arguments, error) &&
                     check_operands(&arguments, error);
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

const char *arguments_next(const struct arguments *arguments, unsigned index, unsigned *at)
{
        while (*at < arguments->n_given) {
                const struct given_option *given = &arguments->given[(*at)++];
                if (given->option == &arguments->command->options[index])
                        return given->value;
        }
        return NULL;
}

const char *arguments_value(const struct arguments *arguments, unsigned index)
{
        unsigned at = 0;

        return arguments_next(arguments, index, &at);
}

bool arguments_has(const struct arguments *arguments, unsigned index)
{
        return arguments_value(arguments, index) != NULL;
}

bool arguments_count(const struct arguments *arguments, unsigned index, unsigned min, unsigned max,
    unsigned *inout_number, struct error *error)
{
        const char *text = arguments_value(arguments, index);
        unsigned long long number;
        char *end;

        if (text == NULL)
                return true;
        errno = 0;
        number = strtoull(text, &end, 10);
        if (!isdigit((unsigned char)*text) || *end != '\0' || errno != 0 || number < min ||
            number > max)
                return error_set(error, ERROR_USAGE,
                    "--%s: \"%.64s\" is not a whole number from %u to %u",
                    arguments->command->options[index].name, text, min, max);
        *inout_number = (unsigned)number;
        return true;
}
