/*
 * A database, a Redis server that receives, writers, and what arrived: what the tests of the whole
 * program share. Relays are started by the tests.
 */
#pragma once

#include "support/history.h"
#include "support/postgres.h"
#include "support/redis_server.h"
#include "support/relay_process.h"
#include "support/writers.h"

struct relay_fixture {
        char *dsn; /* of the superuser; the next two log in as those users */
        char *app;
        char *relay;
        PGconn *admin;
        struct redis_server redis;
        struct writers *writers; /* NULL before relay_fixture_write() */
        struct history history;  /* of the stream "events" */
};

void relay_fixture_begin(struct relay_fixture *fixture, struct postgres *postgres);
void relay_fixture_end(struct relay_fixture *fixture);

/* A relay with one sink, "bus", which carries all topics from the beginning to the stream "events".
 * `settings` are more of the sink's keys, a line each with four spaces before it; may be "". */
struct relay_process *relay_fixture_start(
    const struct relay_fixture *fixture, const char *settings);

/* Four writers until relay_fixture_check(). */
void relay_fixture_write(struct relay_fixture *fixture, unsigned seed);

/* Waits until so many entries are in a stream. */
void relay_fixture_await(struct relay_fixture *fixture, const char *stream, long long n_entries);

/* Expects a field of a stream's entry of that index to have that value. */
void relay_fixture_expect_field(struct relay_fixture *fixture, const char *stream, size_t index,
    const char *name, const char *expected);

/* Waits until so many more entries than now are in the stream "events". */
void relay_fixture_await_more(struct relay_fixture *fixture, long long n_entries);

/* Stops the writers, waits until everything that they committed has arrived, and stops the relay.
 * Aborts the test if anything was lost, out of order or never committed. */
struct filter_result relay_fixture_check(
    struct relay_fixture *fixture, struct relay_process *relay);

/* Publishes '"text"' with that topic and key (NULL: without one); in a transaction of its own
 * unless one is open. */
void publish(PGconn *connection, const char *topic, const char *key, const char *text);

/* A condition in SQL: every lane has all events behind it. Ids do not say so: one may have been drawn
 * before the lane's snapshot was taken, and committed afterwards. */
#define ALL_IS_SETTLED                                                                             \
        "NOT EXISTS (SELECT FROM courier.cursor, courier.outbox WHERE NOT is_owner_lane AND NOT"   \
        " courier.has_passed(from_snapshot, until_snapshot, last_id, id, txid))"

/* Waits until the first column of the first row is true. */
void await_in_database(PGconn *connection, const char *sql, const char *what);
