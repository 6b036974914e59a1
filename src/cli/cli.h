/*
 * What the commands share. A command is one file with one `const struct
 * command` and one row in commands.c; its options are rows of one table, which
 * getopt_long and `pgcourier help` both read.
 *
 * Standard output is data, standard error is messages. A command returns false
 * with *error; main.c prints the error once and ends with its exit code.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct blocking_conn;
struct bytes;

struct command;
struct subcommand;

/* What the command line gave; borrows argv. */
struct arguments {
        const struct command *command;
        bool wants_help;
        const char *const *operands;
        unsigned n_operands;
        struct given_option {
                unsigned index; /* in command->options */
                const char *value;
        } * given; /* owned; in the order given */
        unsigned n_given;
};

struct command_option {
        const char *name;  /* without the dashes; NULL ends a table */
        char letter;       /* 0: none */
        const char *value; /* what its value is called in the help; NULL: it takes none */
        bool repeats;      /* may be given more than once */
        const char *help;  /* lines are broken with '\n' */
};

struct command {
        const char *name;
        const char *summary; /* one line for the list of commands */
        const char *usage;   /* what follows `pgcourier NAME ` */
        const char *details; /* for `help NAME`: what it does and what it prints; ends with '\n' */
        const struct command_option *options; /* --help is everybody's and in no table */
        const struct subcommand *
            subcommands; /* cli/subcommand.h: who takes which of the options; NULL: no subcommands */
        const char
            *no_subcommand; /* what to do where no subcommand does it; NULL: no more than they do */
        unsigned min_operands;
        unsigned max_operands;
        bool is_hidden; /* for programs: in no list that people read */
        bool (*run)(const struct arguments *arguments, struct error *error);
};

/* argv[0] is the command's name; the order of argv's words may change. */
bool arguments_parse(struct arguments *out_arguments, const struct command *command, int argc,
    char **argv, struct error *error);
void arguments_deinit(struct arguments *arguments);

/* `index` is the option's row. The value, "" for an option without one, NULL if it is not given. */
const char *arguments_value(const struct arguments *arguments, unsigned index);
bool arguments_has(const struct arguments *arguments, unsigned index);

/* Ends with NULL. */
extern const struct exit_code {
        const char *code;
        const char *meaning;
} exit_codes[];

/* `pgcourier help`, and `pgcourier help COMMAND`, on standard output. */
void help_print_overview(const struct command *const commands[]);
void help_print_command(const struct command *command);

/* Connects as --dsn says, or as the file of --config says, or (both NULL) as libpq's environment
 * says. answer_timeout_ms 0: statements may take as long as they like. */
struct blocking_conn *connect_for_command(
    const char *dsn, const char *config_path, int64_t answer_timeout_ms, struct error *error);

/* Reads a whole file, or standard input for "-"; not more than max_bytes. */
bool read_input(const char *path, size_t max_bytes, struct bytes *out_content, struct error *error);
