#include "operator/operator_session.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "loop/timer.h"
#include "operator/operator_internal.h"
#include "operator/status_query.h"

#include <stdlib.h>

#define EVERY_MS 5000
#define AT_MOST_MS                                                                                 \
        1000          /* between the beginnings of two queries, however often they are asked for */
#define FRESH_MS 1000 /* a status of that age need not be asked for again */
#define WAIT_MS  1000 /* for a new status: a busy server may take longer, then the last one does */

static const struct pg_statement prepare_session = {
    .name = "prepare_session", .sql = look_session_sql};
static const struct pg_statement status_statement = {
    .name = "status", .sql = status_query_sql, .n_params = 1};

static int64_t now_ms(void)
{
        return clock_monotonic_us() / 1000;
}

static void arm(struct operator_session *session, int64_t gap_ms)
{
        int64_t left_ms = session->asked_ms + gap_ms - now_ms();

        timer_arm(session->next, left_ms > 0 ? (uint64_t)left_ms : 0);
}

static void take_status(struct operator_session *session, const PGresult *result)
{
        json_t *status = json_loads(PQgetvalue(result, 0, 0), JSON_ALLOW_NUL, NULL);

        if (status == NULL) /* the server's own JSON */
                out_of_memory();
        json_decref(session->status);
        session->status = status;
        session->status_ms = now_ms();
        session->failure.kind = ERROR_NONE;
}

static void on_status(void *owner, PGresult *result)
{
        struct operator_session *session = owner;

        take_status(session, result);
        PQclear(result);
        if (!pg_conn_is_ready(session->conn))
                pg_conn_greeted(session->conn);
        session->is_asking = false;
        arm(session, session->is_wanted ? AT_MOST_MS : EVERY_MS);
        session->is_wanted = false;
        session->events.on_status(session->owner, session->status);
        operator_actions_status_came(session);
}

static void ask_now(struct operator_session *session)
{
        const char *const values[] = {session->sinks};

        session->is_asking = true;
        session->asked_ms = now_ms();
        pg_conn_execute(session->conn, &status_statement, values, false, on_status, session);
}

/* Soon: now, if the last one was not asked for within AT_MOST_MS. */
static void ask(struct operator_session *session)
{
        if (session->is_asking)
                session->is_wanted = true;
        else if (pg_conn_is_ready(session->conn))
                arm(session, AT_MOST_MS);
}

static void on_next(void *owner)
{
        struct operator_session *session = owner;

        if (pg_conn_is_ready(session->conn) && !session->is_asking)
                ask_now(session);
}

static void on_tell(void *owner)
{
        struct operator_session *session = owner;

        if (operator_actions_tell(session))
                ask(session);
}

static void on_impatient(void *owner)
{
        operator_actions_status_came(owner);
}

/* The first status is part of the greeting: a session that cannot ask for it is of no use. */
static void on_connected(void *owner)
{
        struct operator_session *session = owner;

        pg_conn_prepare(session->conn, &prepare_session);
        pg_conn_execute(session->conn, &prepare_session, NULL, false, NULL, NULL);
        pg_conn_prepare(session->conn, &status_statement);
        operator_actions_prepare(session);
        ask_now(session);
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
        operator_actions_fail(session, error->text);
        if (session->events.on_no_status != NULL)
                session->events.on_no_status(session->owner);
}

static const json_t *status(void *owner)
{
        const struct operator_session *session = owner;

        return session->status;
}

static const char *status_failure(void *owner)
{
        const struct operator_session *session = owner;

        return session->failure.kind != ERROR_NONE ? session->failure.text : NULL;
}

static bool ask_again(void *owner, admin_done_fn *on_done, void *context)
{
        struct operator_session *session = owner;
        bool is_fresh = session->status != NULL && now_ms() - session->status_ms < FRESH_MS;

        if (is_fresh || status_failure(session) != NULL)
                return false;
        ask(session);
        if (on_done == NULL)
                return true;
        operator_await_status(session, on_done, context);
        if (!timer_is_armed(session->patience))
                timer_arm(session->patience, WAIT_MS);
        return true;
}

const struct admin_operations operator_session_operations = {
    .look = status,
    .look_failure = status_failure,
    .look_again = ask_again,
    .pause = operator_pause,
    .resume = operator_resume,
    .list_dead = operator_list_dead,
    .ask = operator_ask,
    .set_receiver_state = operator_set_receiver_state,
    .change_schedule = operator_change_schedule,
    .redrive = operator_redrive,
    .drop = operator_drop,
};

void operator_session_set_sinks(struct operator_session *session, const struct config *config)
{
        free(session->sinks);
        session->sinks = look_sinks(config);
        ask(session);
}

void operator_session_configure(
    struct operator_session *session, const struct postgres_config *config)
{
        pg_conn_configure(session->conn, config);
}

void operator_session_reopen(struct operator_session *session, const struct config *config)
{
        struct error error;

        error_set(&error, ERROR_DATABASE, "the settings of the connection have changed");
        pg_conn_fail(session->conn, &error); /* fails what is under way */
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

        session->events = *events;
        session->owner = owner;
        list_init(&session->actions);
        session->sinks = look_sinks(config);
        session->asked_ms = now_ms() - AT_MOST_MS;
        session->next = timer_create_on(loop, on_next, session);
        session->tell = timer_create_on(loop, on_tell, session);
        session->patience = timer_create_on(loop, on_impatient, session);
        session->conn = pg_conn_create(loop, "watch", &config->postgres, &conn_events, session);
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
        operator_actions_stop(session);
        timer_disarm(session->next);
        timer_disarm(session->tell);
        timer_disarm(session->patience);
        session->is_asking = false;
}

void operator_session_destroy(struct operator_session *session)
{
        if (session == NULL)
                return;
        operator_session_close(session);
        pg_conn_destroy(session->conn);
        timer_destroy(session->next);
        timer_destroy(session->tell);
        timer_destroy(session->patience);
        json_decref(session->status);
        free(session->sinks);
        free(session);
}
