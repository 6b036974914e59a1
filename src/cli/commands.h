/* The commands, in the order in which `pgcourier help` lists them. */
#pragma once

#include "cli/cli.h"

extern const struct command init_command;
extern const struct command run_command;
extern const struct command migrate_command;
extern const struct command maintain_command;
extern const struct command check_command;
extern const struct command doctor_command;
extern const struct command config_command;
extern const struct command publish_command;
extern const struct command send_command;
extern const struct command attach_command;
extern const struct command capture_command;
extern const struct command receiver_command;
extern const struct command type_command;
extern const struct command dead_command;
extern const struct command parked_command;
extern const struct command pause_command;
extern const struct command resume_command;
extern const struct command schedule_command;
extern const struct command replay_command;
extern const struct command rewind_command;
extern const struct command cursor_command;
extern const struct command relay_command;
extern const struct command rebase_command;
extern const struct command tail_command;
extern const struct command trace_command;
extern const struct command health_command;
extern const struct command reload_command;
extern const struct command status_command;
extern const struct command completion_command;
extern const struct command version_command;
extern const struct command help_command;

/* All of them; ends with NULL. */
extern const struct command *const commands[];

/* Ends with NULL. */
extern const struct exit_code {
        const char *code;
        const char *meaning;
} exit_codes[];

/* Runs the command that the process was started with: argv[1] names it. The order of argv's
 * words may change. */
bool commands_run(int argc, char **argv, struct error *error);
