/*
 * A connection for commands: each call waits for its answer. The relay itself
 * never uses this; it may not wait.
 *
 * Errors are one line and never hold a password. Their kind tells a program
 * what happened: ERROR_PERMISSION, ERROR_SCHEMA (an object of schema courier
 * does not exist), ERROR_TEMPORARY (deadlock, lock or resources not available),
 * else ERROR_DATABASE.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct blocking_conn;
struct pg_result; /* libpq's PGresult */
struct rows;

struct blocking_conn_settings {
        const char *dsn;      /* conninfo or URI; NULL: what the environment says (PGHOST …) */
        const char *password; /* NULL: libpq's own ways */
        int64_t connect_timeout_ms; /* for each host; rounded up to seconds */
        int64_t answer_timeout_ms;  /* for each statement; 0: as long as it takes */
};

/* A value for $1, $2 … of a statement. */
struct parameter {
        const void *value; /* NULL is SQL's NULL; text ends with NUL */
        size_t n_bytes;    /* of binary values */
        bool is_binary;
};

struct blocking_conn *blocking_conn_open(const struct blocking_conn_settings *settings,
    struct error *error) __attribute__((warn_unused_result));
void blocking_conn_close(struct blocking_conn *conn); /* NULL is allowed */

/* Runs one or more statements and drops their rows. */
bool blocking_conn_run(struct blocking_conn *conn, const char *sql, struct error *error)
    __attribute__((warn_unused_result));

/* Runs one statement. Returns its rows, to be freed, or NULL. */
struct rows *blocking_conn_query(struct blocking_conn *conn, const char *sql,
    const struct parameter *parameters, int n_parameters, struct error *error)
    __attribute__((warn_unused_result));

/* The same reading for what a connection that does not wait was answered. Takes over the result. */
struct rows *rows_of(struct pg_result *result);

int rows_count(const struct rows *rows);
const char *rows_text(const struct rows *rows, int row, int column); /* NULL for SQL's NULL */
bool rows_bool(const struct rows *rows, int row, int column);        /* false for SQL's NULL */
void rows_free(struct rows *rows);                                   /* NULL is allowed */

/* Of the last failed statement; "" when the server said nothing. Valid until the next call. */
const char *blocking_conn_sqlstate(const struct blocking_conn *conn);
const char *blocking_conn_constraint(const struct blocking_conn *conn);
const char *blocking_conn_message(const struct blocking_conn *conn); /* and the detail; one line */

/* The notices and warnings of the last statement, a line each. Valid until the next call. */
const char *blocking_conn_notices(const struct blocking_conn *conn);

/* Who and where, for people: "user app, database shop, host db1, port 5432". */
const char *blocking_conn_place(const struct blocking_conn *conn);
/* What it was opened with, without secrets; "": what the environment says. */
const char *blocking_conn_dsn(const struct blocking_conn *conn);
const char *blocking_conn_user(const struct blocking_conn *conn);
int blocking_conn_server_version(const struct blocking_conn *conn);   /* 150004 is 15.4 */
const char *blocking_conn_encoding(const struct blocking_conn *conn); /* of the database */
int blocking_conn_backend_pid(const struct blocking_conn *conn);      /* as told at the start */

enum blocking_conn_privacy {
        PRIVACY_LOCAL,     /* a unix socket or a loopback address */
        PRIVACY_NONE,      /* the network can read along */
        PRIVACY_ENCRYPTED, /* but the server's name was not verified */
        PRIVACY_VERIFIED,
};
enum blocking_conn_privacy blocking_conn_privacy(const struct blocking_conn *conn);

/* OpenSSL's session (SSL *), or NULL if the connection is not encrypted. */
void *blocking_conn_tls(const struct blocking_conn *conn);

/* libpq's versions, for `pgcourier version`. */
int libpq_version(void);          /* as it runs now; 150004 is 15.4 */
int libpq_version_compiled(void); /* of the headers */
