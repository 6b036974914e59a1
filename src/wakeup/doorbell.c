/*
 * The wait blocks in the server, in courier.await_quiet(): while it lasts, no
 * new transaction gets the lock shared. The server bounds the wait, because libpq
 * would have to wait itself in order to cancel the statement.
 */
#include "wakeup/doorbell.h"

#include "base/alloc.h"
#include "pg/pg_conn.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct doorbell {
        struct pg_conn *conn; /* owned */
        int64_t wait_max_ms;
        char server[64];   /* since when it runs */
        char followed[64]; /* the same of the one that events are read from; empty: any */
        struct doorbell_events events;
        void *owner; /* borrowed */
};

static const struct pg_statement prepare_session = {
    .name = "prepare_session",
    .sql = "SELECT set_config('search_path', 'pg_catalog', false),"
           " set_config('default_transaction_isolation', 'read committed', false),"
           " set_config('statement_timeout', '0', false),"
           " set_config('idle_session_timeout', '0', false),"
           " pg_postmaster_start_time()," DEAD_CLIENT_SETTINGS,
};
enum { SERVER = 4 };
static const struct pg_statement await_statement = {
    .name = "await", .sql = "SELECT courier.await_quiet($1)", .n_params = 1};
/* The session has no other lock. It may hold this one twice, if a wait was granted just when its
 * time was up. */
static const struct pg_statement give_up_statement = {
    .name = "give_up", .sql = "SELECT pg_advisory_unlock_all()"};
/* NOTIFY holds the lock of "database 0" until the commit is flushed. */
static const struct pg_statement crowd_statement = {.name = "crowd",
    .sql = "SELECT count(*) > 1 FROM pg_locks WHERE locktype = 'object' AND database = 0"
           " AND classid = 'pg_database'::regclass AND objid = 0 AND NOT granted"};
static const struct pg_statement check_statement = {.name = "check", .sql = "SELECT"};

static bool is_elsewhere(const struct doorbell *doorbell)
{
        return doorbell->followed[0] != '\0' && strcmp(doorbell->server, doorbell->followed) != 0;
}

static void leave(struct doorbell *doorbell)
{
        struct error error;

        error_set(&error, ERROR_DATABASE,
            "it reached another server than the connection that reads events");
        pg_conn_fail(doorbell->conn, &error);
}

static void on_prepared(void *owner, PGresult *result)
{
        struct doorbell *doorbell = owner;

        snprintf(doorbell->server, sizeof doorbell->server, "%s", PQgetvalue(result, 0, SERVER));
        PQclear(result);
        if (is_elsewhere(doorbell)) {
                leave(doorbell);
                return;
        }
        pg_conn_prepare(doorbell->conn, &await_statement);
        pg_conn_prepare(doorbell->conn, &give_up_statement);
        pg_conn_prepare(doorbell->conn, &crowd_statement);
        pg_conn_prepare(doorbell->conn, &check_statement);
        pg_conn_greeted(doorbell->conn);
        doorbell->events.on_connected(doorbell->owner);
}

static void on_connected(void *owner)
{
        struct doorbell *doorbell = owner;

        pg_conn_prepare(doorbell->conn, &prepare_session);
        pg_conn_execute(doorbell->conn, &prepare_session, NULL, false, on_prepared, doorbell);
}

static void on_lost(void *owner, const struct error *error, int64_t retry_ms)
{
        struct doorbell *doorbell = owner;

        doorbell->events.on_lost(doorbell->owner, error, retry_ms);
}

/* The timeout of statements is longer than the longest wait. */
static struct postgres_config be_patient(
    const struct doorbell *doorbell, const struct postgres_config *config)
{
        struct postgres_config patient = *config;

        patient.query_timeout_ms += doorbell->wait_max_ms;
        return patient;
}

struct doorbell *doorbell_create(uv_loop_t *loop, const struct postgres_config *config,
    int64_t wait_max_ms, const struct doorbell_events *events, void *owner)
{
        struct doorbell *doorbell = xcalloc(1, sizeof *doorbell);
        const struct pg_conn_events conn_events = {
            .on_connected = on_connected, .on_lost = on_lost};
        struct postgres_config patient;

        doorbell->wait_max_ms = wait_max_ms;
        patient = be_patient(doorbell, config);
        doorbell->events = *events;
        doorbell->owner = owner;
        doorbell->conn = pg_conn_create(loop, "doorbell", &patient, &conn_events, doorbell);
        return doorbell;
}

void doorbell_configure(struct doorbell *doorbell, const struct postgres_config *config)
{
        const struct postgres_config patient = be_patient(doorbell, config);

        pg_conn_configure(doorbell->conn, &patient);
}

void doorbell_open(struct doorbell *doorbell)
{
        pg_conn_open(doorbell->conn);
}

void doorbell_follow(struct doorbell *doorbell, const char *server)
{
        snprintf(doorbell->followed, sizeof doorbell->followed, "%s", server != NULL ? server : "");
        if (pg_conn_is_ready(doorbell->conn) && is_elsewhere(doorbell))
                leave(doorbell);
}

void doorbell_destroy(struct doorbell *doorbell)
{
        if (doorbell == NULL)
                return;
        pg_conn_destroy(doorbell->conn);
        free(doorbell);
}

static void on_awaited(void *owner, PGresult *result)
{
        struct doorbell *doorbell = owner;
        bool is_granted = PQgetvalue(result, 0, 0)[0] == 't';

        PQclear(result);
        if (is_granted)
                doorbell->events.on_granted(doorbell->owner);
        else
                doorbell->events.on_refused(doorbell->owner);
}

void doorbell_await(struct doorbell *doorbell, int64_t wait_ms)
{
        char at_most_ms[24];

        snprintf(at_most_ms, sizeof at_most_ms, "%" PRId64, wait_ms);
        pg_conn_execute(doorbell->conn, &await_statement, (const char *const[]){at_most_ms}, false,
            on_awaited, doorbell);
}

void doorbell_give_up(struct doorbell *doorbell)
{
        pg_conn_execute(doorbell->conn, &give_up_statement, NULL, false, NULL, NULL);
}

static void on_crowd(void *owner, PGresult *result)
{
        struct doorbell *doorbell = owner;
        bool is_crowded = PQgetvalue(result, 0, 0)[0] == 't';

        PQclear(result);
        doorbell->events.on_crowd(doorbell->owner, is_crowded);
}

void doorbell_check_crowd(struct doorbell *doorbell)
{
        pg_conn_execute(doorbell->conn, &crowd_statement, NULL, false, on_crowd, doorbell);
}

void doorbell_check(struct doorbell *doorbell)
{
        if (pg_conn_is_ready(doorbell->conn))
                pg_conn_execute(doorbell->conn, &check_statement, NULL, false, NULL, NULL);
}
