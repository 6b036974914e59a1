#include "operator/portal_session.h"

#include "base/alloc.h"
#include "base/list.h"
#include "pg/blocking_conn.h"
#include "pg/pg_conn.h"

#include <stdlib.h>
#include <string.h>

/* Of the .sql files beside this one, embedded at build time. */
extern const char portal_receiver_sql[];
extern const char portal_events_sql[];
extern const char portal_open_sql[];
extern const char portal_attempts_sql[];
extern const char portal_event_sql[];
extern const char portal_resend_sql[];

/* The reason of a pause that the owner made: only such a pause is his to end. */
#define BY_OWNER "by its owner, in the portal"

/* A plan depends on the parameters: of most receivers few events are there. */
static const struct pg_statement prepare_session = {
    .name = "prepare_session",
    .sql = "SELECT set_config('search_path', 'pg_catalog', false),"
           " set_config('TimeZone', 'UTC', false),"
           " set_config('default_transaction_isolation', 'read committed', false),"
           " set_config('plan_cache_mode', 'force_custom_plan', false),"
           " set_config('enable_seqscan', 'off', false),"
           " set_config('jit', 'off', false),"
           " set_config('max_parallel_workers_per_gather', '0', false),"
           " set_config('statement_timeout', '5s', false),"
           " set_config('lock_timeout', '2s', false),"
           " set_config('idle_session_timeout', '0', false)",
};

#define LINK  "WITH link AS MATERIALIZED (SELECT * FROM courier.find_link($1::text))"
#define WHOSE " SELECT link.id, link.can_manage, link.name, link.sink, "

static const struct pg_statement statements[] = {
    [PORTAL_RECEIVER] = {.name = "receiver", .sql = portal_receiver_sql, .n_params = 2},
    [PORTAL_EVENTS] = {.name = "events", .sql = portal_events_sql, .n_params = 2},
    [PORTAL_OPEN] = {.name = "open", .sql = portal_open_sql, .n_params = 1},
    [PORTAL_ATTEMPTS] = {.name = "attempts", .sql = portal_attempts_sql, .n_params = 5},
    [PORTAL_EVENT] = {.name = "event", .sql = portal_event_sql, .n_params = 2},
    [PORTAL_LOOK] = {.name = "look", .sql = LINK WHOSE "'{}'::json FROM link", .n_params = 1},
    [PORTAL_RESEND] = {.name = "resend", .sql = portal_resend_sql, .n_params = 2},
    [PORTAL_PAUSE] = {.name = "pause",
        .sql = LINK ", changed AS (UPDATE courier.receiver AS r"
                    "  SET state = 'paused', state_reason = $2::text FROM link"
                    "  WHERE r.id = link.receiver AND link.can_manage AND r.state = 'active'"
                    "  RETURNING 1)" WHOSE
                    "json_build_object('is_changed', EXISTS (SELECT FROM changed)) FROM link",
        .n_params = 2},
    [PORTAL_RESUME] = {.name = "resume",
        .sql = LINK ", changed AS (UPDATE courier.receiver AS r SET state = 'active' FROM link"
                    "  WHERE r.id = link.receiver AND link.can_manage AND (r.state = 'disabled'"
                    "   OR r.state = 'paused' AND r.state_reason IS NOT DISTINCT FROM $2::text)"
                    "  RETURNING 1)" WHOSE
                    "CASE WHEN EXISTS (SELECT FROM changed) OR r.state = 'active'"
                    " THEN json_build_object('is_changed', EXISTS (SELECT FROM changed))"
                    " ELSE json_build_object('refused', 'The sender of the events has paused"
                    " this. Ask there to go on.') END"
                    " FROM link JOIN courier.receiver AS r ON r.id = link.receiver",
        .n_params = 2},
    [PORTAL_URL] = {.name = "url",
        .sql = LINK ", changed AS (UPDATE courier.receiver AS r SET url = $2::text FROM link"
                    "  WHERE r.id = link.receiver AND link.can_manage RETURNING 1)" WHOSE
                    "json_build_object('is_changed', EXISTS (SELECT FROM changed)) FROM link",
        .n_params = 2},
    /* Locked, so that its name is still its own when courier.rotate_secret() gets that. */
    [PORTAL_SECRET] = {.name = "secret",
        .sql = LINK
        ", its AS MATERIALIZED (SELECT r.name FROM link"
        "  JOIN courier.receiver AS r ON r.id = link.receiver"
        "  WHERE link.can_manage FOR UPDATE OF r)" WHOSE
        "(SELECT json_build_object('secret', courier.rotate_secret(its.name, '24 hours'),"
        "  'old_until', courier.utc(clock_timestamp() + interval '24 hours')) FROM its) FROM link",
        .n_params = 1},
};
enum {
        N_STATEMENTS = sizeof statements / sizeof statements[0],
        MAX_PARAMETERS = 1 + PORTAL_PARAMETERS
};

struct portal_session {
        struct pg_conn *conn; /* owned */
        bool (*on_login_refused)(void *owner);
        void *owner;           /* borrowed */
        struct list questions; /* asked::link */
};

struct asked {
        struct list link;
        portal_done_fn *on_done;
        void *context;
};

/* on_done may ask the next question. */
static void end(struct asked *asked, const struct portal_answer *answer, const char *words)
{
        struct error error;

        list_remove(&asked->link);
        if (answer == NULL)
                error_set(&error, ERROR_TEMPORARY, "%s", words);
        asked->on_done(asked->context, answer, answer == NULL ? &error : NULL);
        free(asked);
}

static void on_answer(void *owner, PGresult *result)
{
        struct rows *rows = rows_of(result);
        struct portal_answer answer = {0};
        const char *text;

        if (rows_count(rows) > 0) {
                answer.link = strtoll(rows_text(rows, 0, 0), NULL, 10);
                answer.can_manage = rows_bool(rows, 0, 1);
                answer.receiver = rows_text(rows, 0, 2);
                answer.sink = rows_text(rows, 0, 3);
                text = rows_text(rows, 0, 4);
                if (text != NULL &&
                    (answer.document = json_loads(text, JSON_ALLOW_NUL, NULL)) == NULL)
                        out_of_memory(); /* the server's own JSON */
        }
        end(owner, &answer, NULL);
        json_decref(answer.document);
        rows_free(rows);
}

/* It took too long, or met a lock. */
static void on_not_answered(void *owner, PGresult *result)
{
        end(owner, NULL, PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
        PQclear(result);
}

void portal_session_ask(void *owner, enum portal_question question, const struct portal_hash *hash,
    const char *const parameters[PORTAL_PARAMETERS], portal_done_fn *on_done, void *context)
{
        struct portal_session *session = owner;
        struct asked *asked = xcalloc(1, sizeof *asked);
        bool is_of_pause =
            question == PORTAL_RECEIVER || question == PORTAL_PAUSE || question == PORTAL_RESUME;
        const char *const values[MAX_PARAMETERS] = {hash->text,
            is_of_pause ? BY_OWNER : parameters[0], parameters[1], parameters[2], parameters[3]};

        *asked = (struct asked){.on_done = on_done, .context = context};
        list_init(&asked->link);
        if (!pg_conn_is_ready(session->conn)) {
                end(asked, NULL, "PostgreSQL is not connected");
                return;
        }
        list_push_back(&session->questions, &asked->link);
        pg_conn_try(
            session->conn, &statements[question], values, false, on_answer, on_not_answered, asked);
}

static void fail_all(struct portal_session *session, const char *words)
{
        list_for_each (link, &session->questions)
                end(list_owner(link, struct asked, link), NULL, words);
}

static void on_prepared(void *owner, PGresult *result)
{
        struct portal_session *session = owner;

        PQclear(result);
        pg_conn_greeted(session->conn);
}

static void on_connected(void *owner)
{
        struct portal_session *session = owner;

        for (int i = 0; i < N_STATEMENTS; i++)
                pg_conn_prepare(session->conn, &statements[i]);
        pg_conn_prepare(session->conn, &prepare_session);
        pg_conn_execute(session->conn, &prepare_session, NULL, false, on_prepared, session);
}

static void on_lost(void *owner, const struct error *error, int64_t retry_ms)
{
        struct portal_session *session = owner;

        (void)retry_ms;
        fail_all(session, error->text);
        if (error->kind == ERROR_LOGIN && session->on_login_refused != NULL)
                (void)session->on_login_refused(session->owner);
}

struct portal_session *portal_session_create(uv_loop_t *loop, const struct postgres_config *config,
    bool (*on_login_refused)(void *owner), void *owner)
{
        static const struct pg_conn_events events = {
            .on_connected = on_connected, .on_lost = on_lost};
        struct portal_session *session = xcalloc(1, sizeof *session);

        session->on_login_refused = on_login_refused;
        session->owner = owner;
        list_init(&session->questions);
        session->conn = pg_conn_create(loop, "portal", config, &events, session);
        return session;
}

void portal_session_open(struct portal_session *session)
{
        pg_conn_open(session->conn);
}

void portal_session_configure(struct portal_session *session, const struct postgres_config *config)
{
        pg_conn_configure(session->conn, config);
}

void portal_session_reopen(struct portal_session *session, const struct postgres_config *config)
{
        portal_session_close(session);
        portal_session_configure(session, config);
        portal_session_open(session);
}

void portal_session_close(struct portal_session *session)
{
        pg_conn_close(session->conn);
        fail_all(session, "the connection is closed");
}

void portal_session_destroy(struct portal_session *session)
{
        if (session == NULL)
                return;
        portal_session_close(session);
        pg_conn_destroy(session->conn);
        free(session);
}
