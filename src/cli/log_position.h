/* A place in the outbox as people name it: an id, a time, how long ago, or the beginning. */
#pragma once

#include "base/error.h"
#include "operator/history.h"

/* `option` is for messages. The moment borrows `word`. */
bool log_position_parse(
    struct log_position *out_position, const char *option, const char *word, struct error *error);

/* Puts the server's refusal of a time into the words of the command line. Returns false. */
bool log_position_refused(struct blocking_conn *conn, struct error *error);
