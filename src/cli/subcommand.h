/* Commands of several subcommands, `pgcourier dead list`: the first operand chooses. */
#pragma once

#include "cli/cli.h"

struct subcommand {
        const char *name;
        uint32_t options;      /* a bit for each row of the command's table that it takes */
        unsigned min_operands; /* behind the subcommand */
        unsigned max_operands;
        bool (*run)(const struct arguments *arguments, struct error *error);
};

/* By the command's table, which ends with a NULL name. Refuses operands and options that are not the
 * subcommand's. */
bool subcommands_run(const struct arguments *arguments, struct error *error);
