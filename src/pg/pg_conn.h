/*
 * One non-blocking libpq connection in pipeline mode, that comes back.
 *
 *   CLOSED -open-> CONNECTING -connected-> GREETING -pg_conn_greeted()-> READY
 *   any of these -error or deadline-> WAITING -backoff-> CONNECTING
 *
 * While GREETING the owner prepares the session (settings, schema check); what
 * it finds wrong it reports with pg_conn_fail(). An error of a statement breaks
 * the connection too: our statements do not fail in normal operation, and a new
 * session that starts from what is durable is the one way of recovery. The exception
 * are statements on data that others wrote (pg_conn_try()): an error of one of these
 * is no reason to stop all lanes.
 */
#pragma once

#include "base/error.h"
#include "config/config.h"

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct pg_conn;

/*
 * Items of a SELECT for a session that holds locks: the server gives it up when its client's
 * machine has vanished without a word. It probes each second; on Linux tcp_user_timeout says how
 * long probes may stay unanswered, and so may what was sent. What is sent meanwhile begins the wait
 * anew, so the limit is twice as much: within 10 s. The server's process notices between
 * statements, and during one by client_connection_check_interval, which other systems refuse.
 * pg_conn.c sets less for our own side: who lost the locks is to know it first.
 */
#define DEAD_CLIENT_SETTINGS                                                                       \
        " set_config('tcp_keepalives_idle', '1', false),"                                          \
        " set_config('tcp_keepalives_interval', '1', false),"                                      \
        " set_config('tcp_keepalives_count', '4', false),"                                         \
        " set_config('tcp_user_timeout', '4500', false),"                                          \
        " CASE WHEN version() LIKE '%linux%'"                                                      \
        " THEN set_config('client_connection_check_interval', '500', false) END"

/* All of them may call any function below except pg_conn_destroy(). */
struct pg_conn_events {
        void (*on_connected)(void *owner); /* now GREETING */
        void (*on_lost)(void *owner, const struct error *error, int64_t retry_ms);
        void (*on_notification)(void *owner, const char *channel); /* may be NULL */
};

/* A statement, prepared anew in each session. SQL with parameters; identifiers are our own. */
struct pg_statement {
        const char *name;
        const char *sql;
        int n_params;
};

/*
 * The statement's result, now the receiver's to PQclear(). Does not come if the connection is lost
 * first: on_lost stands for all that is outstanding.
 */
typedef void pg_result_fn(void *owner, PGresult *result);

/* `name` is for logs: "work", "doorbell"; borrowed. */
struct pg_conn *pg_conn_create(uv_loop_t *loop, const char *name,
    const struct postgres_config *config, const struct pg_conn_events *events, void *owner);

/* From the next connection on, which is tried at once if it was waited for. */
void pg_conn_configure(struct pg_conn *conn, const struct postgres_config *config);

void pg_conn_open(struct pg_conn *conn);

/* Without a call of on_lost. May be opened again. */
void pg_conn_close(struct pg_conn *conn);
void pg_conn_destroy(struct pg_conn *conn); /* NULL is allowed */

/* Breaks the connection because of what the owner found. */
void pg_conn_fail(struct pg_conn *conn, const struct error *error);

/* The greeting is complete; the next loss starts with the shortest backoff again. */
void pg_conn_greeted(struct pg_conn *conn);

bool pg_conn_is_ready(const struct pg_conn *conn);

/*
 * Each statement is a transaction of its own; several may be outstanding. Neither fails inside the
 * call: a connection that is not open ignores them, and one that breaks says so from the loop.
 */
void pg_conn_prepare(struct pg_conn *conn, const struct pg_statement *statement);
void pg_conn_execute(struct pg_conn *conn, const struct pg_statement *statement,
    const char *const *values, bool binary_result, pg_result_fn *on_result, void *owner);

/*
 * The same for a statement that may fail by itself: because of the time or the memory that it
 * takes, a lock that it cannot get, or the data that it meets. Then on_failed comes in place of
 * on_result, and the session goes on. Any other error breaks the connection.
 */
void pg_conn_try(struct pg_conn *conn, const struct pg_statement *statement,
    const char *const *values, bool binary_result, pg_result_fn *on_result, pg_result_fn *on_failed,
    void *owner);

/*
 * The same for a statement of others, such as a function of an application: every error is the
 * receiver's, whatever it is. on_ended comes when the transaction has ended, which may fail at its
 * very end, with the rows or with the error. If the server ends the session with that error
 * (FATAL), on_lost follows.
 */
void pg_conn_run(struct pg_conn *conn, const struct pg_statement *statement,
    const char *const *values, pg_result_fn *on_ended, void *owner);
void pg_conn_prepare_run(struct pg_conn *conn, const struct pg_statement *statement,
    pg_result_fn *on_ended, void *owner);

/* A statement that is not prepared, and so needs no session that stays: a pooler may stand in
 * between. */
void pg_conn_ask(struct pg_conn *conn, const char *sql, pg_result_fn *on_result, void *owner);

/* The process id that the server gave when the session began; 0 while there is none. */
int pg_conn_backend_pid(const struct pg_conn *conn);
