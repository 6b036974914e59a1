/*
 * Commands that people are told to run are to work as they stand. In our texts
 * they are in backticks: `pgcourier dead list --sink mails`. What they need to
 * find the database and the relay is what this command line was given.
 */
#pragma once

struct arguments;
struct command;

/* Remembers --config, made absolute because it is pasted elsewhere, and --dsn of this command line, without
 * its secrets. Once, at the start. */
void remedy_init(const struct command *const commands[], const struct arguments *arguments);

/* The file, absolute; NULL: there was no --config. */
const char *remedy_config(void);

/* Of a file that was named on the command line. The caller's to free. */
char *remedy_absolute(const char *path);

/* The text with `-c FILE`, or `--dsn DSN`, in each such command that takes it and names no database;
 * nothing is added if nothing was given. The caller's to free. */
char *remedy_complete(const char *text);

/* A line of it on standard output, at once. */
void remedy_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
