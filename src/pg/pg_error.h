/* What libpq and the server say, made fit for a struct error. */
#pragma once

#include "base/error.h"

#include <libpq-fe.h>

struct bytes;

/* Appends their words, which end with a newline and may have several, as a part of one line. */
void pg_error_append(struct bytes *line, const char *text);

/* ERROR_DATABASE: what was being done, and libpq's words about it. */
void pg_error_set_error(struct error *error, const char *doing, const char *text);

/* What the server said of a statement that it refused, with the kind that its SQLSTATE means. */
void pg_error_set_refused(struct error *error, const PGresult *failed);

bool result_is_success(const PGresult *result);

/* The server said FATAL or PANIC: it ends the session with that. */
bool result_ends_session(const PGresult *result);

/* What a failed statement means to a program; ERROR_DATABASE if nothing special. */
enum error_kind sqlstate_kind(const char *sqlstate);

/* Whether it is about this one statement, and another one may well succeed. */
bool sqlstate_is_of_statement(const char *sqlstate);

/*
 * Why no connection came about: ERROR_LOGIN if the server does not let us in, else ERROR_DATABASE.
 * Of `text`, which may be verbose (PQsetErrorVerbosity()) and then tells in any language, only the
 * words for people are taken. Values of options that libpq does not understand are left out: they
 * may be anything.
 */
void connect_words_set_error(struct error *error, const char *doing, const char *text);

/* What libpq asks for by target_session_attrs=read-write, which a dsn may override. If not, its
 * words are "session is read-only". */
bool server_accepts_writes(const PGconn *pq);

/* What to do about it, in words; free it. */
char *connect_words_remedy(const struct error *error);
