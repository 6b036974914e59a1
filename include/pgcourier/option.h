/*
 * The options of a module's sink: the names and values that stand in the config file beneath
 * `module: options:`. References such as ${VAR} are filled in already.
 *
 * A value may be a secret: quote none in a message.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct error; /* what open() and open_target() are given to say why they failed; only passed on */

struct sink_option {
        const char *name;  /* a-z, 0-9, - and _; each name once */
        const char *value; /* one line of text; may be empty only if "" was written */
        const char *where; /* "FILE:LINE:COLUMN: sinks[0].module.options.NAME", for messages */
};

/* Borrowed for the life of the sink. */
struct sink_options {
        const struct sink_option *options; /* as they stand in the file */
        size_t n_options;
        const char *where; /* the same of the block */
};

/* The option of that name; NULL: it is not there. */
const struct sink_option *sink_options_find(const struct sink_options *options, const char *name);

/* False, and *error is set, if there is an option that is not in `names` (which ends with NULL):
 * a misspelt one must not seem to work. Every module calls this. */
bool sink_options_know(
    const struct sink_options *options, const char *const *names, struct error *error);

/* "true" or "false"; *out_flag stays as it is if the option is not there. False, and *error is set,
 * if it has another value. */
bool sink_options_flag(
    const struct sink_options *options, const char *name, bool *out_flag, struct error *error);

/* For a value that cannot be: "WHERE: reason". Always returns NULL, for `return` in open(). */
void *sink_option_refused(struct error *error, const struct sink_option *option, const char *format,
    ...) __attribute__((format(printf, 3, 4)));

/* For an option that is required and not there: "WHERE: NAME is required: reason". NULL as well. */
void *sink_option_missing(
    struct error *error, const struct sink_options *options, const char *name, const char *reason);

/* For any other reason not to open. NULL as well. */
void *sink_open_failed(struct error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
