/* A place in the outbox as people name it: an id, a time, how long ago, or the beginning. */
#pragma once

#include "base/error.h"
#include "operator/history.h"

/* `option` is for messages. The moment borrows `word`. */
bool moment_parse(
    struct moment *out_moment, const char *option, const char *word, struct error *error);

/* Puts the server's refusal of a time into the words of the command line. Returns false. */
bool moment_refused(struct blocking_conn *conn, struct error *error);
