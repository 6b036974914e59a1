/*
 * `pgcourier endpoint`: the receivers of sinks that fan out. What its subcommands,
 * a file for each group of them, have in common.
 */
#pragma once

#include "cli/cli.h"

#include <stdbool.h>

struct config;
struct sink_config;

enum endpoint_option {
        OPTION_SINK,
        OPTION_URL,
        OPTION_TOPICS,
        OPTION_TYPES,
        OPTION_FILTER,
        OPTION_HEADER,
        OPTION_CONCURRENCY,
        OPTION_RATE,
        OPTION_BURST,
        OPTION_DESCRIPTION,
        OPTION_SECRET_FILE,
        OPTION_START,
        OPTION_STATE,
        OPTION_REASON,
        OPTION_OVERLAP,
        OPTION_TOPIC,
        OPTION_PAYLOAD,
        OPTION_SECRETS,
        OPTION_YES,
        OPTION_FAIL_EMPTY,
        OPTION_JSON,
        OPTION_DSN,
        OPTION_CONFIG,
};

bool endpoint_run_add(const struct arguments *arguments, struct error *error);
bool endpoint_run_list(const struct arguments *arguments, struct error *error);
bool endpoint_run_show(const struct arguments *arguments, struct error *error);
bool endpoint_run_pause(const struct arguments *arguments, struct error *error);
bool endpoint_run_resume(const struct arguments *arguments, struct error *error);
bool endpoint_run_remove(const struct arguments *arguments, struct error *error);
bool endpoint_run_rotate_secret(const struct arguments *arguments, struct error *error);
bool endpoint_run_test(const struct arguments *arguments, struct error *error);

/* As --dsn or -c says; statements are given 30 seconds. */
struct blocking_conn *endpoint_connect(const struct arguments *arguments, struct error *error);

/* Puts what the server refused into the words of the command line. Returns false. */
bool endpoint_refused(struct blocking_conn *conn, const char *name, struct error *error);

/* Events that its lane has not passed: what is delivered already, but not settled, is among them. */
struct endpoint_waiting {
        int64_t n;
        bool is_exact; /* else it may be fewer: a filter or the sink has its say */
        bool is_cut;   /* there are more than were looked at */
};
bool endpoint_wait_count(struct blocking_conn *conn, const char *name,
    struct endpoint_waiting *out_waiting, struct error *error);

/* "7", "up to 7", "more than 10000"; free it. */
char *endpoint_wait_text(const struct endpoint_waiting *waiting);

/* ERROR_EMPTY: there is none of that name; did you mean. Returns false. */
bool endpoint_missing(struct blocking_conn *conn, const char *name, struct error *error);

/* The secret in the file of --secret-file, to be released with secret_free(); NULL if the option is
 * not given. */
bool endpoint_read_secret(
    const struct arguments *arguments, char **out_secret, struct error *error);

/* The sink of that name, or (NULL) the only one that fans out. ERROR_USAGE if there is no such. */
const struct sink_config *endpoint_find_sink(
    const struct config *config, const char *name, struct error *error);
