/*
 * Commands that people are told to run are to work as they stand. In our texts
 * they are in backticks: `pgcourier dead list --sink mails`. What they need to
 * find the database and the relay is what this command line was given.
 */
#pragma once

struct arguments;

/* Remembers --config of this command line, made absolute: it is pasted elsewhere. Once, at the start. */
void remedy_init(const struct arguments *arguments);

/* The file, absolute; NULL: there was no --config. */
const char *remedy_config(void);

/* The text with `-c FILE` in each such command that takes it and has none; nothing is added if there was
 * no --config. The caller's to free. */
char *remedy_complete(const char *text);

/* A line of it on standard output, at once. */
void remedy_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
