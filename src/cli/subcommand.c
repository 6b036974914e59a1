#include "cli/subcommand.h"

#include "base/bytes.h"
#include "config/suggest.h"

#include <string.h>

static void append_names(struct bytes *text, const struct subcommand *subcommands)
{
        for (const struct subcommand *subcommand = subcommands; subcommand->name != NULL;
             subcommand++)
                bytes_printf(text, "%s%s", subcommand == subcommands ? "" : ", ", subcommand->name);
}

static bool unknown_subcommand(
    const struct arguments *arguments, const struct subcommand *subcommands, struct error *error)
{
        const char *meant = NULL;
        struct bytes text = {0};

        if (arguments->n_operands == 0) {
                bytes_printf(&text, "%s: do what? ", arguments->command->name);
        } else {
                const char *word = arguments->operands[0];
                for (const struct subcommand *subcommand = subcommands; subcommand->name != NULL;
                     subcommand++)
                        meant = suggest_nearer(word, meant, subcommand->name);
                bytes_printf(&text, "%s cannot \"%.64s\"", arguments->command->name, word);
                if (meant != NULL)
                        bytes_printf(&text, "; did you mean \"%s\"? ", meant);
                else
                        bytes_append_text(&text, ". ");
        }
        bytes_append_text(&text, "Possible: ");
        append_names(&text, subcommands);
        if (arguments->command->no_subcommand != NULL)
                bytes_printf(&text, ". %s", arguments->command->no_subcommand);
        error_set(error, ERROR_USAGE, "%s", text.data);
        bytes_deinit(&text);
        return false;
}

static bool wrong_option(const struct arguments *arguments, const struct subcommand *subcommands,
    const struct subcommand *subcommand, unsigned index, struct error *error)
{
        struct bytes destinations = {0};

        for (const struct subcommand *at = subcommands; at->name != NULL; at++)
                if (at->options >> index & 1)
                        bytes_printf(
                            &destinations, "%s%s", destinations.length > 0 ? ", " : "", at->name);
        error_set(error, ERROR_USAGE, "%s %s takes no --%s; it is for: %s",
            arguments->command->name, subcommand->name, arguments->command->options[index].name,
            destinations.data);
        bytes_deinit(&destinations);
        return false;
}

static bool check_words(const struct arguments *arguments, const struct subcommand *subcommands,
    const struct subcommand *subcommand, struct error *error)
{
        const char *command = arguments->command->name;

        for (unsigned i = 0; i < arguments->n_given; i++)
                if (!(subcommand->options >> arguments->given[i].index & 1))
                        return wrong_option(
                            arguments, subcommands, subcommand, arguments->given[i].index, error);
        if (arguments->n_operands - 1 < subcommand->min_operands)
                return error_set(error, ERROR_USAGE, "%s %s needs more; see `pgcourier help %s`",
                    command, subcommand->name, command);
        if (arguments->n_operands - 1 > subcommand->max_operands)
                return error_set(error, ERROR_USAGE,
                    "%s %s: \"%.64s\" is one word too many; see `pgcourier help %s`", command,
                    subcommand->name, arguments->operands[subcommand->max_operands + 1], command);
        return true;
}

bool subcommands_run(const struct arguments *arguments, struct error *error)
{
        const struct subcommand *subcommands = arguments->command->subcommands;

        for (const struct subcommand *subcommand = subcommands;
             subcommand->name != NULL && arguments->n_operands > 0; subcommand++)
                if (strcmp(subcommand->name, arguments->operands[0]) == 0)
                        return check_words(arguments, subcommands, subcommand, error) &&
                               subcommand->run(arguments, error);
        return unknown_subcommand(arguments, subcommands, error);
}
