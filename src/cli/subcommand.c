#include "cli/subcommand.h"

#include "base/bytes.h"
#include "config/suggest.h"

#include <string.h>

static void append_names(struct bytes *text, const struct verb *verbs)
{
        for (const struct verb *verb = verbs; verb->name != NULL; verb++)
                bytes_printf(text, "%s%s", verb == verbs ? "" : ", ", verb->name);
}

static bool unknown_verb(
    const struct arguments *arguments, const struct verb *verbs, struct error *error)
{
        const char *meant = NULL;
        struct bytes text = {0};

        if (arguments->n_operands == 0) {
                bytes_printf(&text, "%s: do what? ", arguments->command->name);
        } else {
                const char *word = arguments->operands[0];
                for (const struct verb *verb = verbs; verb->name != NULL; verb++)
                        meant = suggest_nearer(word, meant, verb->name);
                bytes_printf(&text, "%s cannot \"%.64s\"", arguments->command->name, word);
                if (meant != NULL)
                        bytes_printf(&text, "; did you mean \"%s\"? ", meant);
                else
                        bytes_append_text(&text, ". ");
        }
        bytes_append_text(&text, "Possible: ");
        append_names(&text, verbs);
        if (arguments->command->no_verb != NULL)
                bytes_printf(&text, ". %s", arguments->command->no_verb);
        error_set(error, ERROR_USAGE, "%s", text.data);
        bytes_deinit(&text);
        return false;
}

static bool wrong_option(const struct arguments *arguments, const struct verb *verbs,
    const struct verb *verb, unsigned index, struct error *error)
{
        struct bytes takers = {0};

        for (const struct verb *at = verbs; at->name != NULL; at++)
                if (at->options >> index & 1)
                        bytes_printf(&takers, "%s%s", takers.length > 0 ? ", " : "", at->name);
        error_set(error, ERROR_USAGE, "%s %s takes no --%s; it is for: %s",
            arguments->command->name, verb->name, arguments->command->options[index].name,
            takers.data);
        bytes_deinit(&takers);
        return false;
}

static bool check_words(const struct arguments *arguments, const struct verb *verbs,
    const struct verb *verb, struct error *error)
{
        const char *command = arguments->command->name;

        for (unsigned i = 0; i < arguments->n_given; i++)
                if (!(verb->options >> arguments->given[i].index & 1))
                        return wrong_option(
                            arguments, verbs, verb, arguments->given[i].index, error);
        if (arguments->n_operands - 1 < verb->min_operands)
                return error_set(error, ERROR_USAGE, "%s %s needs more; see `pgcourier help %s`",
                    command, verb->name, command);
        if (arguments->n_operands - 1 > verb->max_operands)
                return error_set(error, ERROR_USAGE,
                    "%s %s: \"%.64s\" is one word too many; see `pgcourier help %s`", command,
                    verb->name, arguments->operands[verb->max_operands + 1], command);
        return true;
}

bool verbs_run(const struct arguments *arguments, struct error *error)
{
        const struct verb *verbs = arguments->command->verbs;

        for (const struct verb *verb = verbs; verb->name != NULL && arguments->n_operands > 0;
             verb++)
                if (strcmp(verb->name, arguments->operands[0]) == 0)
                        return check_words(arguments, verbs, verb, error) &&
                               verb->run(arguments, error);
        return unknown_verb(arguments, verbs, error);
}
