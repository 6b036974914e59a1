/* What `pgcourier attach` and `pgcourier capture` have in common. */
#pragma once

#include "cli/cli.h"
#include "operator/tap_rows.h"

#include <stdbool.h>

/* Of both: for attach they are about all taps, for capture about captures alone. */
extern const struct command tap_list_command;
extern const struct command tap_show_command;
extern const struct command tap_check_command;
extern const struct command tap_remove_command;

extern const struct command attach_detect_command;

/* One option of two subcommands; the help has it once. */
#define TAP_OPTION_LOCK_TIMEOUT                                                                    \
        {                                                                                          \
                "lock-timeout", 0, "TIME", false,                                                  \
                    "wait so long for sessions that use the table;\nwriters wait meanwhile; "      \
                    "default: 2s"                                                                  \
        }

/* How an option becomes an argument of the SQL function. */
struct tap_parameter {
        unsigned option; /* its row */
        const char *name;
        enum tap_form {
                TAP_TEXT,
                TAP_LIST, /* "a,b", or given several times, or both */
                TAP_TIME,
                TAP_TRUE,    /* if the flag is given */
                TAP_PUBLISH, /* the text, likewise */
        } form;
};

/* The arguments of a call, whose values are owned. */
struct tap_call_values {
        struct tap_argument arguments[TAP_MAX_ARGUMENTS];
        char *values[TAP_MAX_ARGUMENTS];
        struct tap_call call;
};
void tap_call_set(struct tap_call_values *values, const char *name, const char *value);
const char *tap_call_value(const struct tap_call_values *values, const char *name);

/* A subcommand that makes a tap of its operand, or prints the SQL that does. */
struct tap_maker {
        const char *function; /* "courier.attach" */
        const char *made;     /* "attached" */
        const struct tap_parameter *parameters;
        size_t n_parameters;
        unsigned print_option;
        bool (*print)(
            struct blocking_conn *conn, struct tap_call_values *values, struct error *error);
};
bool tap_command_make(
    const struct arguments *arguments, const struct tap_maker *maker, struct error *error);

/* What the server noted on the way, on standard error. */
void tap_print_notices(const struct blocking_conn *conn);

/* The interval of --lock-timeout; NULL if it is not given. The caller's to free. */
bool tap_read_time(
    const struct arguments *arguments, unsigned option, char **out_interval, struct error *error);

/* Puts what the server refused into the words of the command line. */
void tap_refused(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error);

/* ERROR_EMPTY: there is no tap of that name; did you mean. Returns false. */
bool tap_missing(struct blocking_conn *conn, const char *name, struct error *error);
