#include "completion_words.h"

#include <string.h>

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

enum completes operand_completes(const struct command *root, const struct command *command)
{
        const char *usage = command->usage != NULL ? command->usage : "";

        usage += *usage == '[';
        if (strncmp(usage, "SINK", 4) == 0)
                return COMPLETES_SINK;
        if (strncmp(usage, "COMMAND", 7) == 0)
                return COMPLETES_COMMAND;
        /* What is added has a name that no endpoint has yet. */
        return strcmp(root->name, "endpoint") == 0 && strcmp(command->name, "add") != 0 &&
                       strncmp(usage, "NAME", 4) == 0
                   ? COMPLETES_ENDPOINT
                   : COMPLETES_NOTHING;
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
