#include "completion_words.h"

#include <string.h>

static bool is_verb_letter(char letter)
{
        return (letter >= 'a' && letter <= 'z') || letter == '-';
}

/* Behind the next "pgcourier NAME ", or NULL. */
static const char *next_line(const struct command *command, const char *at)
{
        static const char program[] = "pgcourier ";
        const size_t length = strlen(command->name);

        while ((at = strstr(at, program)) != NULL) {
                at += strlen(program);
                if (strncmp(at, command->name, length) == 0 && at[length] == ' ')
                        return at + length + 1;
        }
        return NULL;
}

unsigned usage_next_subcommand(
    const struct command *command, const char **at, const char **out_subcommand)
{
        const char *word = *at;

        if (word != command->usage && *word == '|')
                word++;
        else if (word != command->usage)
                word = next_line(command, word);
        while (word != NULL && !(*word >= 'a' && *word <= 'z'))
                word = next_line(command, word);
        if (word == NULL)
                return 0;
        *out_subcommand = word;
        while (is_verb_letter(*word))
                word++;
        *at = word;
        return (unsigned)(word - *out_subcommand);
}

static enum completes value_completes(const char *value)
{
        if (strcmp(value, "FILE") == 0)
                return COMPLETES_FILE;
        if (strcmp(value, "FOLDER") == 0)
                return COMPLETES_FOLDER;
        return strcmp(value, "SINK") == 0 ? COMPLETES_SINK : COMPLETES_NOTHING;
}

enum completes option_completes(const struct command_option *option)
{
        if (strcmp(option->name, "sink") == 0)
                return COMPLETES_SINK;
        if (strcmp(option->name, "endpoint") == 0)
                return COMPLETES_ENDPOINT;
        return option->value != NULL ? value_completes(option->value) : COMPLETES_NOTHING;
}

static enum completes word_completes(const char *usage)
{
        static const struct {
                const char *word;
                enum completes completes;
        } words[] = {{"SINK", COMPLETES_SINK}, {"COMMAND", COMPLETES_COMMAND}};

        usage += *usage == '[';
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
                if (strncmp(usage, words[i].word, strlen(words[i].word)) == 0)
                        return words[i].completes;
        return COMPLETES_NOTHING;
}

enum completes operand_completes(const struct command *command)
{
        return word_completes(command->usage);
}

enum completes subcommand_completes(const struct command *command, const char *subcommand)
{
        const char *at = command->usage;
        const char *found;
        unsigned length;

        while ((length = usage_next_subcommand(command, &at, &found)) > 0)
                if (strlen(subcommand) == length && strncmp(subcommand, found, length) == 0)
                        break;
        if (length == 0 || found[length] != ' ')
                return COMPLETES_NOTHING;
        /* What is added has a name that nobody has. */
        if (strcmp(command->name, "endpoint") == 0 && strcmp(subcommand, "add") != 0 &&
            strncmp(found + length + 1, "NAME", 4) == 0)
                return COMPLETES_ENDPOINT;
        return word_completes(found + length + 1);
}

const char *option_choices(const struct command *command, const struct command_option *option)
{
        static const struct {
                const char *command;
                const char *option;
                const char *choices;
        } all[] = {
            {"run", "log-level", "debug info warn error"},
            {"dead", "reason", "rejected attempts age too_large unjudged skipped"},
            {"parked", "state", "retry blocked delayed"},
            {"endpoint", "state", "active paused disabled"},
            {"endpoint", "start", "now beginning"},
            {"status", "color", "auto always never"},
        };

        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
                if (strcmp(command->name, all[i].command) == 0 &&
                    strcmp(option->name, all[i].option) == 0)
                        return all[i].choices;
        return NULL;
}
