/*
 * What `dead` and `parked` have in common: the options that choose rows, and
 * the rules for changing many of them at once.
 */
#pragma once

#include "base/bytes.h"
#include "cli/cli.h"
#include "operator/selection.h"

/* The rows of the options; those that change rows have the last three as well. */
enum bulk_option {
        BULK_SINK,
        BULK_RECEIVER,
        BULK_TOPIC,
        BULK_KEY,
        BULK_WORD,
        BULK_OLDER_THAN,
        BULK_NEWER_THAN,
        BULK_LIMIT,
        BULK_FAIL_EMPTY,
        BULK_JSON,
        BULK_N_READ,

        BULK_ALL = BULK_N_READ,
        BULK_YES,
        BULK_DRY_RUN,
};

/* `word` and `word_help` are those of --reason or --state. */
/* clang-format off */
#define BULK_OPTIONS(word, word_value, word_help, since)                                           \
        [BULK_SINK] = {"sink", 0, "NAME", false, "only those of this sink"},                       \
        [BULK_RECEIVER] = {"receiver", 0, "NAME", false, "only those of this receiver"},           \
        [BULK_TOPIC] = {"topic", 0, "PATTERN", false,                                              \
            "only those of these topics; * stands for any\nrun of characters without a dot, ** for any"}, \
        [BULK_KEY] = {"key", 0, "KEY", false, "only those of this key"},                           \
        [BULK_WORD] = {word, 0, word_value, false, word_help},                                     \
        [BULK_OLDER_THAN] = {"older-than", 0, "DURATION", false,                                   \
            "only those that " since " longer ago than this:\n90s, 12h, 7d"},                      \
        [BULK_NEWER_THAN] = {"newer-than", 0, "DURATION", false,                                   \
            "only those that " since " less long ago"},                                            \
        [BULK_LIMIT] = {"limit", 0, "N", false, "only the first N"},                               \
        [BULK_FAIL_EMPTY] = {"fail-empty", 0, NULL, false, "end with 8 if nothing matches"},       \
        [BULK_JSON] = OPTION_JSON

#define BULK_CHANGE_OPTIONS                                                                        \
        [BULK_ALL] = {"all", 0, NULL, false, "all there are; instead of IDs and filters"},         \
        [BULK_YES] = OPTION_YES,                                                                   \
        [BULK_DRY_RUN] = {"dry-run", 0, NULL, false, "change nothing, only count"}
/* clang-format on */

/* What the rows of a command are. */
struct bulk_subject {
        const char *noun; /* "dead letter" */
        const char *nouns;
        const char *const *words; /* what --reason or --state may be; ends with NULL */
};

struct bulk {
        const struct arguments *arguments;
        const struct bulk_subject *subject;
        struct selection selection;
        struct bytes ids; /* selection.ids */
        bool has_filter;
};

typedef bool bulk_step_fn(struct blocking_conn *conn, const struct bulk *bulk, struct error *error);

/* A whole subcommand: reads IDs (the operands) and filters, connects and does the step. One that
 * changes rows needs an ID, a filter or --all. */
bool bulk_read_rows(const struct arguments *arguments, const struct bulk_subject *subject,
    bulk_step_fn *step, struct error *error);
bool bulk_change_rows(const struct arguments *arguments, const struct bulk_subject *subject,
    bulk_step_fn *step, struct error *error);

/* ERROR_USAGE: it is no ID. */
bool bulk_parse_id(const char *word, int64_t *out_id, struct error *error)
    __attribute__((warn_unused_result));

/* Before n rows are changed: explicit IDs, --yes, or a yes at the terminal. */
bool bulk_confirm(const struct bulk *bulk, int64_t n, struct error *error)
    __attribute__((warn_unused_result));

/* For people the number, the noun and `sentence`; or an object, whose member is `done`. A dry run
 * has done none: "3 dead letters would be redriven". */
void bulk_print_result(const struct bulk *bulk, int64_t n_matched, const char *done, int64_t n_done,
    const char *sentence);

/* Says on standard error that nothing was found; with --fail-empty ERROR_EMPTY. */
bool bulk_found_none(const struct bulk *bulk, struct error *error)
    __attribute__((warn_unused_result));

/* ERROR_EMPTY if some of the given IDs do not exist, or not within the filters. */
bool bulk_check_missing(const struct bulk *bulk, const char *missing, struct error *error)
    __attribute__((warn_unused_result));
