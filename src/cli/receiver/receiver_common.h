/* What the subcommands of `pgcourier receiver` have in common. */
#pragma once

#include "cli/cli.h"

#include <stdbool.h>

struct config;
struct sink_config;

extern const struct command receiver_add_command;
extern const struct command receiver_pause_command;
extern const struct command receiver_resume_command;
extern const struct command receiver_remove_command;
extern const struct command receiver_rotate_secret_command;
extern const struct command receiver_set_command;
extern const struct command receiver_recover_command;
extern const struct command receiver_test_command;
extern const struct command receiver_link_command;
extern const struct command receiver_links_command;
extern const struct command receiver_unlink_command;

/* One option of two subcommands; the help has it once. */
#define RECEIVER_OPTION_SINK                                                                       \
        {                                                                                          \
                "sink", 0, "NAME", false,                                                          \
                    "the sink that delivers to it; for list: only\nthose of this sink"             \
        }
#define RECEIVER_OPTION_SECRET_FILE                                                                \
        {                                                                                          \
                "secret-file", 0, "FILE", false, "the secret to sign with, instead of a new one"   \
        }

/* Puts what the server refused into the words of the command line; the first operand is the
 * name. */
void receiver_refused(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error);

/* ERROR_EMPTY: there is none of that name; did you mean. Returns false. */
bool receiver_missing(struct blocking_conn *conn, const char *name, struct error *error);

/* Says on standard error which of these patterns of types (an array literal; NULL: none) take no
 * type of the catalogue, if there is one. */
bool receiver_warn_of_unknown_types(struct blocking_conn *conn, const char *patterns,
    struct error *error) __attribute__((warn_unused_result));

/* The secret in the file of --secret-file, to be released with secret_free(); NULL if path is
 * NULL. */
bool receiver_read_secret(const char *path, char **out_secret, struct error *error);

/* The sink of that name, or (NULL) the only one that fans out. ERROR_USAGE if there is no such. */
const struct sink_config *receiver_find_sink(
    const struct config *config, const char *name, struct error *error);
