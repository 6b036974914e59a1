/* What can be completed, read off a command's table: the same for every shell. */
#pragma once

#include "cli/cli.h"

#include <stdbool.h>

/* The subcommands of a command, `dead list`, stand at the front of the lines of its usage. *at is the place
 * in the usage; start with command->usage. Returns the length of the subcommand that *out_subcommand points to, and
 * moves *at behind it; 0: there are no more. */
unsigned usage_next_subcommand(
    const struct command *command, const char **at, const char **out_subcommand);

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
enum completes operand_completes(const struct command *command);

/* Of what follows the subcommand. */
enum completes subcommand_completes(const struct command *command, const char *subcommand);

/* The words that an option's value is one of, with blanks between; NULL: it may be any. */
const char *option_choices(const struct command *command, const struct command_option *option);
