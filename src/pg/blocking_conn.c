#include "pg/blocking_conn.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "pg/dsn.h"
#include "pg/pg_error.h"

#include <errno.h>
#include <libpq-fe.h>
#include <pg_config.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NOTICES_BYTES 8192

struct blocking_conn {
        PGconn *pg;
        int64_t answer_timeout_ms;
        char *place;
        char *dsn; /* without secrets */
        char sqlstate[6];
        char constraint[64];
        struct bytes message;
        struct bytes notices;
};

struct rows {
        PGresult *result;
};

/* What a client may have set client_min_messages to, debugging say, is not for people. */
static void keep_notice(void *context, const PGresult *result)
{
        struct blocking_conn *conn = context;
        const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
        const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

        if (severity == NULL || primary == NULL || conn->notices.length > MAX_NOTICES_BYTES ||
            (strcmp(severity, "NOTICE") != 0 && strcmp(severity, "WARNING") != 0))
                return;
        pg_error_append(&conn->notices, primary);
        bytes_append_text(&conn->notices, "\n");
}

static PGconn *connect_to(
    const struct blocking_conn_settings *settings, const struct tls_default *tls)
{
        char connect_timeout[24];
        const char *names[14];
        const char *values[14];
        int n = 0;

        snprintf(connect_timeout, sizeof connect_timeout, "%lld",
            (long long)(settings->connect_timeout_ms + 999) / 1000);

        /* Of several values for one name the last counts: the dsn overrides what stands before it,
         * and is overridden by what stands behind it. */
#define OPTION(name, value) (names[n] = (name), values[n] = (value), n++)
        OPTION("fallback_application_name", "pgcourier");
        OPTION("connect_timeout", connect_timeout);
        OPTION("keepalives_idle", "30");
        OPTION("keepalives_interval", "10");
        OPTION("keepalives_count", "3");
        if (dsn_names_several_hosts(settings->dsn)) /* a single standby can be looked at */
                OPTION("target_session_attrs", "read-write");
        if (tls->sslmode != NULL)
                OPTION("sslmode", tls->sslmode);
        if (tls->sslrootcert != NULL)
                OPTION("sslrootcert", tls->sslrootcert);
        if (settings->dsn != NULL)
                OPTION("dbname", settings->dsn);
        if (settings->password != NULL)
                OPTION("password", settings->password);
        OPTION("client_encoding", "UTF8");
        OPTION(NULL, NULL);
#undef OPTION
        return PQconnectdbParams(names, values, 1);
}

static bool is_socket_folder(const char *host)
{
        return host[0] == '/' || host[0] == '@';
}

static char *describe_place(const PGconn *pg)
{
        const char *host = PQhost(pg);

        return xasprintf("user %s, database %s, %s %s, port %s", PQuser(pg), PQdb(pg),
            is_socket_folder(host) ? "socket in" : "host", host, PQport(pg));
}

struct blocking_conn *blocking_conn_open(
    const struct blocking_conn_settings *settings, struct error *error)
{
        const struct tls_default tls = tls_default_choose(settings->dsn);
        struct blocking_conn *conn;
        PGconn *pg;

        if (settings->dsn != NULL && !dsn_check(settings->dsn, error))
                return NULL;
        pg = connect_to(settings, &tls);
        if (PQstatus(pg) != CONNECTION_OK) {
                connect_words_set_error(error, "cannot connect to PostgreSQL", PQerrorMessage(pg));
                tls_default_explain(&tls, error);
                PQfinish(pg);
                return NULL;
        }
        /* Else libpq waits without end for a server that does not read. */
        PQsetnonblocking(pg, 1);

        conn = xcalloc(1, sizeof *conn);
        conn->pg = pg;
        conn->answer_timeout_ms = settings->answer_timeout_ms;
        conn->place = describe_place(pg);
        conn->dsn = dsn_without_secrets(settings->dsn);
        PQsetNoticeReceiver(pg, keep_notice, conn);
        return conn;
}

void blocking_conn_close(struct blocking_conn *conn)
{
        if (conn == NULL)
                return;
        PQfinish(conn->pg);
        free(conn->place);
        free(conn->dsn);
        bytes_deinit(&conn->message);
        bytes_deinit(&conn->notices);
        free(conn);
}

static bool connection_failed(struct blocking_conn *conn, struct error *error)
{
        pg_error_append(&conn->message, PQerrorMessage(conn->pg));
        return error_set(error, ERROR_DATABASE, "lost the connection to PostgreSQL: %s",
            conn->message.data != NULL ? conn->message.data : "libpq gives no reason");
}

/* Waits until the socket is ready; deadline_us 0 is none. */
static bool await_socket(
    struct blocking_conn *conn, short events, int64_t deadline_us, struct error *error)
{
        struct pollfd socket = {.fd = PQsocket(conn->pg), .events = events};
        int64_t wait_ms = -1;
        int n_ready;

        if (deadline_us != 0) {
                wait_ms = (deadline_us - clock_monotonic_us() + 999) / 1000;
                if (wait_ms < 0)
                        wait_ms = 0;
                if (wait_ms > INT32_MAX)
                        wait_ms = INT32_MAX;
        }
        n_ready = poll(&socket, 1, (int)wait_ms);
        if (n_ready > 0 || (n_ready < 0 && errno == EINTR))
                return true;
        if (n_ready < 0)
                return error_set(
                    error, ERROR_SYSTEM, "cannot wait for PostgreSQL: %s", strerror(errno));
        return error_set(error, ERROR_DATABASE,
            "PostgreSQL has not answered for %.1f s; whether the statement took effect is unknown",
            (double)conn->answer_timeout_ms / 1000);
}

static bool await_answer(struct blocking_conn *conn, struct error *error)
{
        int64_t deadline_us = conn->answer_timeout_ms == 0
                                  ? 0
                                  : clock_monotonic_us() + conn->answer_timeout_ms * 1000;
        int unsent = 1;

        while (unsent != 0 || PQisBusy(conn->pg)) {
                if (unsent != 0)
                        unsent = PQflush(conn->pg);
                if (unsent < 0)
                        return connection_failed(conn, error);
                if (unsent == 0 && !PQisBusy(conn->pg))
                        break;
                if (!await_socket(
                        conn, (short)(POLLIN | (unsent ? POLLOUT : 0)), deadline_us, error))
                        return false;
                if (!PQconsumeInput(conn->pg))
                        return connection_failed(conn, error);
        }
        return true;
}

static void keep_field(char *kept, size_t size, const PGresult *result, int field)
{
        const char *value = PQresultErrorField(result, field);

        snprintf(kept, size, "%s", value != NULL ? value : "");
}

static bool statement_failed(
    struct blocking_conn *conn, const PGresult *result, struct error *error)
{
        const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
        const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
        const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);
        bool shows_row;

        if (primary == NULL) /* libpq's own words: the connection is gone */
                return connection_failed(conn, error);
        keep_field(conn->sqlstate, sizeof conn->sqlstate, result, PG_DIAG_SQLSTATE);
        keep_field(conn->constraint, sizeof conn->constraint, result, PG_DIAG_CONSTRAINT_NAME);

        pg_error_append(&conn->message, primary);
        /* Class 23 quotes the whole row that broke a constraint, with its payload. */
        shows_row = strncmp(conn->sqlstate, "23", 2) == 0;
        if (detail != NULL && !shows_row) {
                bytes_append_text(&conn->message, ": ");
                pg_error_append(&conn->message, detail);
        }
        if (hint != NULL) {
                bytes_append_text(&conn->message, ". ");
                pg_error_append(&conn->message, hint);
        }
        return error_set(error, sqlstate_kind(conn->sqlstate), "%s", conn->message.data);
}

/* Reads the answer to what was sent, to its end. The last result, or NULL after any failure. */
static PGresult *read_answer(struct blocking_conn *conn, struct error *error)
{
        PGresult *last = NULL;
        bool failed = false;

        while (await_answer(conn, error)) {
                PGresult *result = PQgetResult(conn->pg);
                if (result == NULL) {
                        if (!failed)
                                return last;
                        break;
                }
                PQclear(last);
                last = result;
                if (!failed && PQresultStatus(result) != PGRES_COMMAND_OK &&
                    PQresultStatus(result) != PGRES_TUPLES_OK)
                        failed = !statement_failed(conn, result, error);
        }
        PQclear(last);
        return NULL;
}

static void forget_answer(struct blocking_conn *conn)
{
        conn->sqlstate[0] = '\0';
        conn->constraint[0] = '\0';
        bytes_clear(&conn->message);
        bytes_clear(&conn->notices);
}

bool blocking_conn_run(struct blocking_conn *conn, const char *sql, struct error *error)
{
        PGresult *result;

        forget_answer(conn);
        if (!PQsendQuery(conn->pg, sql))
                return connection_failed(conn, error);
        result = read_answer(conn, error);
        PQclear(result);
        return result != NULL;
}

struct rows *rows_of(PGresult *result)
{
        struct rows *rows = xcalloc(1, sizeof *rows);

        rows->result = result;
        return rows;
}

struct rows *blocking_conn_query(struct blocking_conn *conn, const char *sql,
    const struct parameter *parameters, int n_parameters, struct error *error)
{
        const char **values = xcalloc((size_t)n_parameters, sizeof *values);
        int *lengths = xcalloc((size_t)n_parameters, sizeof *lengths);
        int *formats = xcalloc((size_t)n_parameters, sizeof *formats);
        struct rows *rows = NULL;
        PGresult *result = NULL;

        for (int i = 0; i < n_parameters; i++) {
                values[i] = parameters[i].value;
                lengths[i] = (int)parameters[i].n_bytes;
                formats[i] = parameters[i].is_binary;
        }
        forget_answer(conn);
        if (PQsendQueryParams(conn->pg, sql, n_parameters, NULL, values, lengths, formats, 0))
                result = read_answer(conn, error);
        else
                connection_failed(conn, error);
        if (result != NULL)
                rows = rows_of(result);
        free(values);
        free(lengths);
        free(formats);
        return rows;
}

int rows_count(const struct rows *rows)
{
        return PQntuples(rows->result);
}

const char *rows_text(const struct rows *rows, int row, int column)
{
        if (PQgetisnull(rows->result, row, column))
                return NULL;
        return PQgetvalue(rows->result, row, column);
}

bool rows_bool(const struct rows *rows, int row, int column)
{
        return strcmp(PQgetvalue(rows->result, row, column), "t") == 0;
}

void rows_free(struct rows *rows)
{
        if (rows == NULL)
                return;
        PQclear(rows->result);
        free(rows);
}

const char *blocking_conn_sqlstate(const struct blocking_conn *conn)
{
        return conn->sqlstate;
}

const char *blocking_conn_constraint(const struct blocking_conn *conn)
{
        return conn->constraint;
}

const char *blocking_conn_message(const struct blocking_conn *conn)
{
        return conn->message.data != NULL ? conn->message.data : "";
}

const char *blocking_conn_notices(const struct blocking_conn *conn)
{
        return conn->notices.length > 0 ? conn->notices.data : "";
}

const char *blocking_conn_dsn(const struct blocking_conn *conn)
{
        return conn->dsn;
}

const char *blocking_conn_place(const struct blocking_conn *conn)
{
        return conn->place;
}

const char *blocking_conn_user(const struct blocking_conn *conn)
{
        return PQuser(conn->pg);
}

int blocking_conn_server_version(const struct blocking_conn *conn)
{
        return PQserverVersion(conn->pg);
}

const char *blocking_conn_encoding(const struct blocking_conn *conn)
{
        const char *encoding = PQparameterStatus(conn->pg, "server_encoding");

        return encoding != NULL ? encoding : "an unknown encoding";
}

int blocking_conn_backend_pid(const struct blocking_conn *conn)
{
        return PQbackendPID(conn->pg);
}

static bool verifies_name(PGconn *pg)
{
        PQconninfoOption *options = PQconninfo(pg);
        bool verifies = false;

        for (PQconninfoOption *option = options; option != NULL && option->keyword != NULL;
             option++)
                if (strcmp(option->keyword, "sslmode") == 0 && option->val != NULL)
                        verifies = strcmp(option->val, "verify-full") == 0;
        PQconninfoFree(options);
        return verifies;
}

void *blocking_conn_tls(const struct blocking_conn *conn)
{
        return PQsslStruct(conn->pg, "OpenSSL");
}

enum blocking_conn_privacy blocking_conn_privacy(const struct blocking_conn *conn)
{
        const char *host = PQhost(conn->pg);
        const char *address = PQhostaddr(conn->pg);

        if (tls_host_is_local(host) || (address[0] != '\0' && tls_host_is_local(address)))
                return PRIVACY_LOCAL;
        if (!PQsslInUse(conn->pg))
                return PRIVACY_NONE;
        return verifies_name(conn->pg) ? PRIVACY_VERIFIED : PRIVACY_ENCRYPTED;
}

int libpq_version(void)
{
        return PQlibVersion();
}

int libpq_version_compiled(void)
{
        return PG_VERSION_NUM;
}
