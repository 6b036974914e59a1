/*
 * Commands in our texts can be pasted as they are printed. The texts have them
 * in backticks, `pgcourier dead list --sink mails`, and the --config or --dsn of
 * this command line is added, so that they find the same database and relay.
 */
#pragma once

struct arguments;
struct command;

/* Remembers --config, made absolute because the command is pasted elsewhere, and --dsn without
 * its secrets. Once, at the start. */
void remedy_init(const struct command *const commands[], const struct arguments *arguments);

/* The file, absolute; NULL: there was no --config. */
const char *remedy_config(void);

/* The absolute path of a file named on the command line. The caller's to free. */
char *remedy_absolute(const char *path);

/* The text with `-c FILE`, or `--dsn DSN`, in each such command that takes it and names no
 * database; nothing is added if nothing was given. The caller's to free. */
char *remedy_complete(const char *text);

/* Prints a completed line on standard output, at once. */
void remedy_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
