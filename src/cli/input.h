/* What people give: an answer, a file, the name of a sink, a lane, a place in the log. */
#pragma once

#include "base/error.h"
#include "operator/history.h"

#include <stdbool.h>
#include <stddef.h>

struct arguments;
struct blocking_conn;
struct bytes;

/* Whether a person can be asked: standard input and standard error are a terminal. */
bool input_can_ask(void);

/* Asks on standard error; only "y" and "yes" are a yes. */
bool input_ask(const char *question);

/* Before something that cannot be taken back, which the format names: "drop 3 cursors". True with
 * --yes, which is that row, and with a yes at the terminal. ERROR_USAGE if there is no terminal:
 * `remedy` says what to add. */
bool input_confirm(const struct arguments *arguments, unsigned yes, const char *remedy,
    struct error *error, const char *format, ...)
    __attribute__((format(printf, 5, 6), warn_unused_result));

/* Reads a whole file, or standard input for "-"; not more than max_bytes. */
bool input_read(const char *path, size_t max_bytes, struct bytes *out_content, struct error *error);

/* ERROR_USAGE if no sink can have that name. */
bool input_sink_name(const char *name, struct error *error) __attribute__((warn_unused_result));

/* The value of --lane; NULL: `all`. */
bool input_lane(const char *value, int all, int *out_lane, struct error *error)
    __attribute__((warn_unused_result));

/* An id, a time, how long ago, or "beginning". `option` is for messages; the position borrows
 * `word`. */
bool input_log_position(
    struct log_position *out_position, const char *option, const char *word, struct error *error);

/* command_refused(), and the server's refusal of a time. */
void input_time_refused(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error);
