/* Shared by the subcommands of `pgcourier schedule`. */
#pragma once

#include "cli/cli.h"

extern const struct command schedule_add_command;
extern const struct command schedule_import_command;
