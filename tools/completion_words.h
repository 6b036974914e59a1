/* What can be completed, read off a command's table: the same for every shell. */
#pragma once

#include "cli/cli.h"

/* What a value, or an operand, is the name of. */
enum completes {
        COMPLETES_NOTHING,
        COMPLETES_FILE,
        COMPLETES_FOLDER,
        COMPLETES_SINK,
        COMPLETES_ENDPOINT,
        COMPLETES_COMMAND,
};

enum completes option_completes(const struct command_option *option);

/* The operands of a command, or of one of its subcommands. */
enum completes operand_completes(const struct command *root, const struct command *command);

/* The words that an option's value is one of, with blanks between; NULL: it may be any. */
const char *option_choices(const struct command *command, const struct command_option *option);
