/* `pgcourier endpoint`: the receivers of sinks that fan out, and all that can be done with them by hand. */
#include "cli/commands.h"
#include "cli/endpoint/endpoint_common.h"

#include <stddef.h>

const struct command endpoint_command = {
    .name = "endpoint",
    .summary = "manage the receivers of an http sink with endpoints: table",
    .usage = "each with [--dsn DSN | -c FILE]",
    .details =
        "add            makes a receiver and prints its new secret, with which it verifies what\n"
        "               it gets; with -c the sink checks the URL and the headers first\n"
        "list           what there is: state, since when it fails, how many deliveries are\n"
        "               parked and dead\n"
        "show           one with all its settings, and how many events wait for it\n"
        "pause, resume  its events wait in the outbox, and go on; resume also ends disabled\n"
        "remove         what waits for it goes, its dead letters stay\n"
        "rotate-secret  prints a new secret; the old one signs too for a while\n"
        "test           posts one event from here and says what the receiver answered; nothing\n"
        "               is stored\n"
        "\n"
        "Everything takes effect at once in a running relay, as do changes of the table\n"
        "courier.endpoint by SQL, which can change all other settings. The role must be a member\n"
        "of courier_relay.\n",
    .subcommands = (const struct command *const[]){&endpoint_add_command, &endpoint_list_command,
        &endpoint_show_command, &endpoint_pause_command, &endpoint_resume_command,
        &endpoint_remove_command, &endpoint_rotate_secret_command, &endpoint_test_command, NULL},
    .no_subcommand =
        "Other settings are changed by SQL: UPDATE courier.endpoint SET … WHERE name = '…'",
    .database = DATABASE_AND_SINKS,
    .needs_schema = true,
    .answer_timeout_ms = 30000,
    .refused = endpoint_refused,
};
