/* What libpq and the server say, made fit for a struct error. */
#pragma once

#include "base/error.h"

struct bytes;

/* Appends their words, which end with a newline and may have several, as a part of one line. */
void pg_words_append(struct bytes *line, const char *text);

/* ERROR_DATABASE: what was being done, and libpq's words about it. */
void pg_words_set_error(struct error *error, const char *doing, const char *text);

/* What a failed statement means to a program; ERROR_DATABASE if nothing special. */
enum error_kind sqlstate_kind(const char *sqlstate);

/* ERROR_CONFIG if libpq does not understand it, or if it names a pipe or a device as a certificate. Never quotes what may be a part of a password. */
bool dsn_check(const char *dsn, struct error *error) __attribute__((warn_unused_result));
