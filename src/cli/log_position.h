/* A place in the outbox as people name it: an id, a time, how long ago, or the beginning. */
#pragma once

#include "base/error.h"
#include "operator/history.h"

struct arguments;

/* `option` is for messages. The moment borrows `word`. */
bool log_position_parse(
    struct log_position *out_position, const char *option, const char *word, struct error *error);

/* command_refused(), and the server's refusal of a time. */
void log_position_refused(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error);
