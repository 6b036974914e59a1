/*
 * The server ends what takes longer than `timeout` (statement_timeout), and what its client does
 * not wait for any more (client_connection_check_interval): closing the connection cancels a call.
 */
#include "sinks/postgres/postgres_session.h"

#include "base/alloc.h"
#include "loop/timer.h"
#include "pg/array_literal.h"
#include "pg/pg_conn.h"
#include "pg/pg_error.h"
#include "sinks/postgres/postgres_answers.h"
#include "sinks/postgres/postgres_values.h"
#include "sinks/sink_contract.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char postgres_call_sql[];
extern const char postgres_insert_sql[];

/* How much later than the server we give a call up. */
enum { GRACE_MS = 5000 };

struct postgres_session {
        const struct postgres_sink_config *config; /* borrowed */
        struct postgres_session_events events;
        void *owner; /* borrowed */
        uv_loop_t *loop;
        struct pg_conn *conn; /* owned */
        enum postgres_session_state state;
        bool is_connected;       /* since then the server refuses what the session asks for */
        char *sql;               /* owned; of `run`, which is prepared */
        struct pg_statement run; /* `sql` is its text */
        struct timer *overdue;   /* armed while BUSY */
        uint64_t ready_since_ms;
};

/* The only place that assigns session->state. */
static void enter(struct postgres_session *session, enum postgres_session_state state)
{
        session->state = state;
        if (state == POSTGRES_BUSY)
                timer_arm_behind_sockets(
                    session->overdue, (uint64_t)session->config->timeout_ms + GRACE_MS);
        else
                timer_disarm(session->overdue);
        if (state == POSTGRES_READY)
                session->ready_since_ms = uv_now(session->loop);
        if (state == POSTGRES_CLOSED)
                session->is_connected = false;
}

static void lose(struct postgres_session *session, const struct outcome *why)
{
        enum postgres_session_state was = session->state;

        pg_conn_close(session->conn);
        enter(session, POSTGRES_CLOSED);
        session->events.on_lost(session->owner, session, was, why);
}

/* Before a call: nothing of it depends on an event. */
static void refuse(struct postgres_session *session, const char *words)
{
        const struct outcome why = outcome_down(OUTCOME_FAULT_POSTGRES, true, "%s", words);

        lose(session, &why);
}

static struct postgres_error error_of(const PGresult *result)
{
        return (struct postgres_error){.sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE),
            .message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY)};
}

/* False: a statement of the greeting has failed, and the session with it. */
static bool is_greeting_well(struct postgres_session *session, PGresult *result)
{
        bool is_well = result_is_success(result);

        if (!is_well) {
                const struct postgres_error error = error_of(result);
                struct outcome why = postgres_error_judge(&error).outcome;

                /* A role, setting or schema: only an operator can mend that. */
                why.needs_operator |= why.kind != OUTCOME_SINK_DOWN;
                why.kind = OUTCOME_SINK_DOWN;
                why.concerns_all = true;
                lose(session, &why);
        }
        return is_well;
}

static void become_ready(struct postgres_session *session)
{
        struct postgres_config patient = session->config->server;

        /* Its own deadline is for answers of which it knows how long they may take. */
        patient.query_timeout_ms = session->config->timeout_ms + 2 * GRACE_MS;
        pg_conn_configure(session->conn, &patient);
        pg_conn_greeted(session->conn);
        enter(session, POSTGRES_READY);
        session->events.on_ready(session->owner, session);
}

static void on_prepared(void *owner, PGresult *result)
{
        struct postgres_session *session = owner;

        if (is_greeting_well(session, result))
                become_ready(session);
        PQclear(result);
}

static void prepare(struct postgres_session *session, const char *sql)
{
        free(session->sql);
        session->sql = xstrdup(sql);
        session->run = (struct pg_statement){"run", session->sql, POSTGRES_PARAMETERS};
        pg_conn_prepare_run(session->conn, &session->run, on_prepared, session);
}

static void on_looked(void *owner, PGresult *result)
{
        struct postgres_session *session = owner;

        if (is_greeting_well(session, result)) {
                if (PQgetisnull(result, 0, 0))
                        prepare(session, PQgetvalue(result, 0, 1));
                else
                        refuse(session, PQgetvalue(result, 0, 0));
        }
        PQclear(result);
}

static void look(struct postgres_session *session)
{
        const struct postgres_sink_config *config = session->config;
        const struct pg_statement statement = {
            "look", config->call != NULL ? postgres_call_sql : postgres_insert_sql, 2};
        const char *name = config->call != NULL ? config->call : config->insert;
        const char *dot = strchr(name, '.');
        char *schema = xstrndup(name, (size_t)(dot - name));

        pg_conn_prepare(session->conn, &statement);
        pg_conn_run(
            session->conn, &statement, (const char *const[]){schema, dot + 1}, on_looked, session);
        free(schema);
}

static void on_set_up(void *owner, PGresult *result)
{
        struct postgres_session *session = owner;

        if (is_greeting_well(session, result))
                look(session);
        PQclear(result);
}

static void add_setting(
    struct array_literal *names, struct array_literal *values, const char *name, const char *value)
{
        if (value == NULL)
                return;
        array_add_text(names, name);
        array_add_text(values, value);
}

/* The role comes last: it may not be allowed to set the others. */
static void add_settings(struct array_literal *names, struct array_literal *values,
    const struct postgres_sink_config *config)
{
        char timeout[24];

        for (unsigned i = 0; i < config->n_settings; i++) {
                const char *setting = config->settings[i];
                size_t length = strcspn(setting, "=");
                char *name = xstrndup(setting, length);
                add_setting(names, values, name, setting + length + 1);
                free(name);
        }
        snprintf(timeout, sizeof timeout, "%" PRId64, config->timeout_ms);
        add_setting(names, values, "statement_timeout", timeout);
        add_setting(names, values, "search_path", config->search_path);
        add_setting(names, values, "role", config->role);
}

static void on_connected(void *owner)
{
        static const struct pg_statement live = {"live", "SELECT" DEAD_CLIENT_SETTINGS, 0};
        static const struct pg_statement set_up = {"set_up",
            "SELECT pg_catalog.set_config(name, value, false)"
            " FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]),"
            " pg_catalog.unnest($2::pg_catalog.text[])) AS given (name, value)",
            2};
        struct postgres_session *session = owner;
        struct array_literal names = {0};
        struct array_literal values = {0};

        session->is_connected = true;
        add_settings(&names, &values, session->config);
        pg_conn_prepare(session->conn, &live);
        pg_conn_execute(session->conn, &live, NULL, false, NULL, NULL);
        pg_conn_prepare(session->conn, &set_up);
        pg_conn_run(session->conn, &set_up,
            (const char *const[]){array_end(&names), array_end(&values)}, on_set_up, session);
        array_deinit(&names);
        array_deinit(&values);
}

static struct outcome why_lost(const struct postgres_session *session, const struct error *error)
{
        struct outcome why;

        if (session->state != POSTGRES_BUSY)
                return outcome_down(error->kind == ERROR_LOGIN ? OUTCOME_FAULT_AUTH
                                    : session->is_connected    ? OUTCOME_FAULT_LOST
                                                               : OUTCOME_FAULT_REFUSED,
                    error->kind == ERROR_LOGIN || error->kind == ERROR_CONFIG, "%s", error->text);
        /* Perhaps this very call brings its server process down. */
        why = outcome_make(OUTCOME_RETRY, "%s", error->text);
        why.fault = OUTCOME_FAULT_LOST;
        why.is_unanswered = true;
        return why;
}

static void on_conn_lost(void *owner, const struct error *error, int64_t retry_ms)
{
        struct postgres_session *session = owner;
        const struct outcome why = why_lost(session, error);

        (void)retry_ms; /* the breaker says when to try again */
        lose(session, &why);
}

static void on_overdue(void *owner)
{
        struct postgres_session *session = owner;
        struct outcome why = outcome_make(OUTCOME_RETRY,
            "no answer within timeout (%" PRId64 " ms), after which the server cancels a call",
            session->config->timeout_ms);

        why.fault = OUTCOME_FAULT_TIMEOUT;
        why.is_unanswered = true;
        lose(session, &why);
}

static void on_ended(void *owner, PGresult *result)
{
        struct postgres_session *session = owner;

        enter(session, POSTGRES_READY);
        session->events.on_ended(session->owner, session, result);
        PQclear(result);
}

struct postgres_session *postgres_session_create(uv_loop_t *loop,
    const struct postgres_sink_config *config, const struct postgres_session_events *events,
    void *owner)
{
        static const struct pg_conn_events conn_events = {
            .on_connected = on_connected, .on_lost = on_conn_lost};
        struct postgres_session *session = xcalloc(1, sizeof *session);

        session->config = config;
        session->events = *events;
        session->owner = owner;
        session->loop = loop;
        session->conn = pg_conn_create(loop, "sink", &config->server, &conn_events, session);
        session->overdue = timer_create_on(loop, on_overdue, session);
        return session;
}

void postgres_session_destroy(struct postgres_session *session)
{
        if (session == NULL)
                return;
        pg_conn_destroy(session->conn);
        timer_destroy(session->overdue);
        free(session->sql);
        free(session);
}

enum postgres_session_state postgres_session_state(const struct postgres_session *session)
{
        return session->state;
}

void postgres_session_open(struct postgres_session *session)
{
        assert(session->state == POSTGRES_CLOSED);
        enter(session, POSTGRES_OPENING);
        pg_conn_configure(session->conn, &session->config->server);
        pg_conn_open(session->conn);
}

void postgres_session_run(struct postgres_session *session, const char *const *values)
{
        assert(session->state == POSTGRES_READY);
        enter(session, POSTGRES_BUSY);
        pg_conn_run(session->conn, &session->run, values, on_ended, session);
}

void postgres_session_close(struct postgres_session *session)
{
        pg_conn_close(session->conn);
        enter(session, POSTGRES_CLOSED);
}

uint64_t postgres_session_idle_ms(const struct postgres_session *session)
{
        return session->state == POSTGRES_READY ? uv_now(session->loop) - session->ready_since_ms
                                                : 0;
}
