/*
 * The frame of commands. A command is one `const struct command`, in a file of
 * its own and in the table of commands.c; a subcommand (`pgcourier dead list`)
 * is another, which its command names. The parser, the help, the manual page
 * and the completion of shells all read the same tables of options.
 *
 * Standard output is data, standard error is messages. A command returns false
 * with *error; main.c prints the error once and ends with its exit code.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct arguments;
struct blocking_conn;
struct bytes;

struct command_option {
        const char *name;  /* without the dashes; NULL ends a table */
        char letter;       /* 0: none */
        const char *value; /* what its value is called in the help; NULL: it takes none */
        bool repeats;      /* may be given more than once */
        const char *help;  /* lines are broken with '\n' */
};

#define OPTION_YES                                                                                 \
        {                                                                                          \
                "yes", 'y', NULL, false, "do not ask"                                              \
        }
#define OPTION_JSON                                                                                \
        {                                                                                          \
                "json", 0, NULL, false, "print JSON, one object a line"                            \
        }

/* Of commands that have no others. */
enum { ONLY_JSON };
extern const struct command_option only_json_options[];
enum { SMALL_LIST_FAIL_EMPTY, SMALL_LIST_JSON };
extern const struct command_option small_list_options[];

/* What --dsn and -c are among a command's options for; the frame adds both. */
enum command_database {
        NO_DATABASE,
        DATABASE,
        DATABASE_AND_SINKS,    /* the file says which sinks there are */
        DATABASE_AND_SETTINGS, /* the file has settings that the command obeys */
};

struct command {
        const char *name;
        const char *summary; /* one line for the list of commands */
        const char *usage; /* what follows `pgcourier NAME `; of a command without a run of its own
                                the line below those of its subcommands, or NULL */
        const char *details; /* for `help NAME`: what it does and what it prints; ends with '\n' */
        const struct command_option *options; /* NULL: none; --help is in no table */
        unsigned min_operands;
        unsigned max_operands;
        bool is_hidden; /* for programs: in no list that people read */
        bool (*run)(const struct arguments *arguments, struct error *error); /* or subcommands */

        /* A subcommand has none of what follows: its command's counts for it, too. */
        const struct command *const *subcommands; /* ends with NULL; NULL: none */
        const char *no_subcommand; /* what to do where no subcommand does it, or NULL */
        enum command_database database;
        bool needs_schema;         /* command_connect() refuses another version than ours */
        int64_t answer_timeout_ms; /* of each statement; 0: it may take as long as it likes */
        /* Puts what the server refused into the words of the command line. NULL: command_refused()
         * if it needs the schema, else nothing. */
        void (*refused)(
            struct blocking_conn *conn, const struct arguments *arguments, struct error *error);
};

/* What the command line gave; borrows argv. */
struct arguments {
        const struct command *root;    /* what argv[0] names */
        const struct command *command; /* its subcommand; root itself if it has none */
        char name[40];                 /* of both: "dead list" */
        bool wants_help;
        const char *const *operands; /* behind the subcommand */
        unsigned n_operands;
        struct given_option {
                const struct command_option *option;
                const char *value;
        } * given; /* owned; in the order given */
        unsigned n_given;
        const char *dsn;             /* of --dsn; NULL: not given */
        const char *config_path;     /* of --config; NULL: not given */
        struct blocking_conn **conn; /* borrowed: command_connect() puts its connection here */
};

/* argv[0] is the command's name; the order of argv's words may change. ERROR_USAGE. */
bool arguments_parse(struct arguments *out_arguments, const struct command *command, int argc,
    char **argv, struct error *error);
void arguments_deinit(struct arguments *arguments);

/* `index` is the option's row. The value, "" for an option without one, NULL if it is not given. */
const char *arguments_value(const struct arguments *arguments, unsigned index);
bool arguments_has(const struct arguments *arguments, unsigned index);

/* A whole number within these bounds; *inout_number keeps its value if the option is not given. */
bool arguments_count(const struct arguments *arguments, unsigned index, unsigned min, unsigned max,
    unsigned *inout_number, struct error *error) __attribute__((warn_unused_result));

/* The values of an option that repeats, one after the other: start with *at = 0. NULL: no more. */
const char *arguments_next(const struct arguments *arguments, unsigned index, unsigned *at);

/* The options of a command and of its subcommands, each once, with those that the frame adds; ends
 * with NULL. Of a subcommand, give `root` as well. The caller's to free. */
const struct command_option **command_options(
    const struct command *root, const struct command *command);

/* Appends "pgcourier dead show ID" for each way to call it, a line each, without a last '\n'. Lines
 * but the first begin with `indent`. Of a subcommand, give `root` as well. */
void command_append_usage(struct bytes *text, const struct command *root,
    const struct command *command, const char *indent);
