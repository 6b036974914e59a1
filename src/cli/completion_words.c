#include "cli/completion_words.h"

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

unsigned usage_next_verb(const struct command *command, const char **at, const char **out_verb)
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
        *out_verb = word;
        while (is_verb_letter(*word))
                word++;
        *at = word;
        return (unsigned)(word - *out_verb);
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
        return option->value != NULL ? value_completes(option->value) : COMPLETES_NOTHING;
}

enum completes operand_completes(const struct command *command)
{
        return strncmp(command->usage, "SINK", 4) == 0 ? COMPLETES_SINK : COMPLETES_NOTHING;
}
