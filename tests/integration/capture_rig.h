/* What the tests of captures share: a database with the tables of one test, and what a change of
 * them publishes. */
#pragma once

#include "support/postgres_expect.h"

/* Each event's payload, and those that there are of a topic, separated by blanks. */
#define PAYLOADS "SELECT string_agg(payload::text, ' ' ORDER BY id) FROM courier.outbox"
#define FORGET   "DELETE FROM courier.outbox"

static inline struct test_database begin_with(const char *sql)
{
        struct test_database fixture = test_database_make();

        database_exec(fixture.admin, "SET client_min_messages = warning");
        database_exec(fixture.admin, sql);
        return fixture;
}

static inline void expect_after(
    PGconn *connection, const char *change, const char *asked, const char *expected)
{
        database_exec(connection, FORGET);
        database_exec(connection, change);
        expect_value(connection, asked, expected);
}
