/* What a statement is expected to say, for tests of what is in the database. */
#pragma once

#include "support/postgres.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* The first column of the first row; "" for NULL. */
static inline void expect_value(PGconn *connection, const char *sql, const char *expected)
{
        char *value = database_value(connection, sql);

        cr_expect_str_eq(value, expected, "%s\n gave     %s\n not      %s", sql, value, expected);
        free(value);
}

/* It fails with that state; and says that, as its message or its hint. */
static inline void expect_error(
    PGconn *connection, const char *sql, const char *sqlstate, const char *words)
{
        PGresult *result = PQexec(connection, sql);
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        char *said = PQresultVerboseErrorMessage(result, PQERRORS_VERBOSE, PQSHOW_CONTEXT_NEVER);

        cr_expect(state != NULL && strcmp(state, sqlstate) == 0, "%s: %s", sql,
            state != NULL ? state : "did not fail");
        cr_expect(state == NULL || strstr(said, words) != NULL, "%s: %s", sql, said);
        PQfreemem(said);
        PQclear(result);
}
