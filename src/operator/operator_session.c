#include "operator/operator_session.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "loop/timer.h"
#include "operator/operator_internal.h"
#include "operator/status_query.h"

#include <stdlib.h>
#include <string.h>

#define EVERY_MS   5000
#define AT_MOST_MS 1000 /* between the beginnings of two looks, however often somebody asks */

static const struct pg_statement prepare_session = {
    .name = "prepare_session", .sql = look_session_sql};
static const struct pg_statement look_statement = {
    .name = "look", .sql = status_query_sql, .n_params = 1};

static int64_t now_ms(void)
{
        return clock_monotonic_us() / 1000;
}

static void arm(struct operator_session *session, int64_t gap_ms)
{
        int64_t left_ms = session->asked_ms + gap_ms - now_ms();

        timer_arm(session->next, left_ms > 0 ? (uint64_t)left_ms : 0);
}

static void take_look(struct operator_session *session, const PGresult *result)
{
        json_t *look = json_loads(PQgetvalue(result, 0, 0), JSON_ALLOW_NUL, NULL);

        if (look == NULL) /* the server's own JSON */
                out_of_memory();
        json_decref(session->look);
        session->look = look;
        session->looked_ms = now_ms();
        session->failure.kind = ERROR_NONE;
}

static void on_looked(void *owner, PGresult *result)
{
        struct operator_session *session = owner;

        take_look(session, result);
        PQclear(result);
        if (!pg_conn_is_ready(session->conn))
                pg_conn_greeted(session->conn);
        session->is_asking = false;
        arm(session, session->is_wanted ? AT_MOST_MS : EVERY_MS);
        session->is_wanted = false;
        session->events.on_look(session->owner);
}

static void look(struct operator_session *session)
{
        const char *const values[] = {session->sinks};

        session->is_asking = true;
        session->asked_ms = now_ms();
        pg_conn_execute(session->conn, &look_statement, values, false, on_looked, session);
}

static void on_next(void *owner)
{
        struct operator_session *session = owner;

        if (pg_conn_is_ready(session->conn) && !session->is_asking)
                look(session);
}

/* The first look is part of the greeting: what cannot look is no session. */
static void on_connected(void *owner)
{
        struct operator_session *session = owner;

        pg_conn_prepare(session->conn, &prepare_session);
        pg_conn_execute(session->conn, &prepare_session, NULL, false, NULL, NULL);
        pg_conn_prepare(session->conn, &look_statement);
        operator_session_prepare_actions(session);
        look(session);
}

static void on_lost(void *owner, const struct error *error, int64_t retry_ms)
{
        struct operator_session *session = owner;

        (void)retry_ms;
        session->is_asking = false;
        session->is_wanted = false;
        timer_disarm(session->next);
        if (error->kind == ERROR_LOGIN && session->events.on_login_refused != NULL &&
            session->events.on_login_refused(session->owner))
                return;
        session->failure = *error;
        operator_session_fail_actions(session, error->text);
        if (session->events.on_no_look != NULL)
                session->events.on_no_look(session->owner);
}

void operator_session_set_sinks(struct operator_session *session, const struct config *config)
{
        free(session->sinks);
        session->sinks = look_sinks(config);
        operator_session_ask(session);
}

static void free_secret(char *text)
{
        if (text != NULL)
                explicit_bzero(text, strlen(text));
        free(text);
}

/* Copies of what is a text in them, which are kept. */
static struct postgres_config take_settings(
    struct operator_session *session, const struct postgres_config *config)
{
        struct postgres_config postgres = *config;

        session->dsn = postgres.dsn = postgres.dsn != NULL ? xstrdup(postgres.dsn) : NULL;
        session->password = postgres.password =
            postgres.password != NULL ? xstrdup(postgres.password) : NULL;
        return postgres;
}

void operator_session_configure(
    struct operator_session *session, const struct postgres_config *config)
{
        char *old_dsn = session->dsn;
        char *old_password = session->password;
        struct postgres_config postgres = take_settings(session, config);

        pg_conn_configure(session->conn, &postgres);
        free_secret(old_dsn);
        free_secret(old_password);
}

void operator_session_reopen(struct operator_session *session, const struct config *config)
{
        struct error error;

        error_set(&error, ERROR_DATABASE, "the settings of the connection have changed");
        pg_conn_fail(session->conn, &error); /* tells those who wait */
        pg_conn_close(session->conn);
        operator_session_configure(session, &config->postgres);
        pg_conn_open(session->conn);
}

struct operator_session *operator_session_create(uv_loop_t *loop, const struct config *config,
    const struct operator_session_events *events, void *owner)
{
        static const struct pg_conn_events conn_events = {
            .on_connected = on_connected, .on_lost = on_lost};
        struct operator_session *session = xcalloc(1, sizeof *session);
        struct postgres_config postgres;

        session->events = *events;
        session->owner = owner;
        list_init(&session->actions);
        postgres = take_settings(session, &config->postgres);
        session->sinks = look_sinks(config);
        session->asked_ms = now_ms() - AT_MOST_MS;
        session->next = timer_create_on(loop, on_next, session);
        session->tell = timer_create_on(loop, operator_session_tell_actions, session);
        session->conn = pg_conn_create(loop, "watch", &postgres, &conn_events, session);
        error_set(&session->failure, ERROR_DATABASE, "not connected to PostgreSQL yet");
        return session;
}

void operator_session_open(struct operator_session *session)
{
        pg_conn_open(session->conn);
}

void operator_session_close(struct operator_session *session)
{
        pg_conn_close(session->conn);
        timer_disarm(session->next);
        timer_disarm(session->tell);
        session->is_asking = false;
        operator_session_drop_actions(session);
}

void operator_session_destroy(struct operator_session *session)
{
        if (session == NULL)
                return;
        operator_session_close(session);
        pg_conn_destroy(session->conn);
        timer_destroy(session->next);
        timer_destroy(session->tell);
        json_decref(session->look);
        free_secret(session->password);
        free_secret(session->dsn);
        free(session->sinks);
        free(session);
}

const json_t *operator_session_ask_status(const struct operator_session *session)
{
        return session->look;
}

int64_t operator_session_age_ms(const struct operator_session *session)
{
        return session->look != NULL ? now_ms() - session->looked_ms : -1;
}

const char *operator_session_failure(const struct operator_session *session)
{
        return session->failure.kind != ERROR_NONE ? session->failure.text : NULL;
}

void operator_session_ask(struct operator_session *session)
{
        if (session->is_asking)
                session->is_wanted = true;
        else if (pg_conn_is_ready(session->conn))
                arm(session, AT_MOST_MS);
}
