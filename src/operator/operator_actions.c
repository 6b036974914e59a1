/*
 * What operators want done. An action is one statement, or (dead letters) a
 * count and then batches until what was counted is behind it:
 *
 *   ACTING -its answer-> ANSWERED
 *   COUNTING -> BATCH -more-> BATCH … -no more-> ANSWERED
 *
 * Any of them is ANSWERED with the words of the error if the connection is lost;
 * an error of a statement breaks it, too. Told from the loop, the answers never
 * come inside a call.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "loop/timer.h"
#include "operator/operator_internal.h"
#include "operator/operator_sql.h"
#include "operator/pause_rows.h"
#include "operator/selection.h"
#include "pg/array_literal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum statement {
        PAUSE,
        RESUME,
        LIST_DEAD,
        COUNT_DEAD,
        REDRIVE,
        DROP,
        NOTIFY,
        PLAN_ANEW,
        PLAN_ONCE,
        N_STATEMENTS
};

static const struct pg_statement statements[N_STATEMENTS] = {
    [PAUSE] = {.name = "pause", .sql = pause_add_sql, .n_params = 2},
    [RESUME] = {.name = "resume", .sql = pause_remove_sql, .n_params = 1},
    [LIST_DEAD] = {.name = "list_dead",
        .sql = dead_newest_sql,
        .n_params = SELECTION_PARAMETERS + 2},
    [COUNT_DEAD] = {.name = "count_dead",
        .sql = dead_count_sql,
        .n_params = SELECTION_PARAMETERS + 1},
    [REDRIVE] = {.name = "redrive", .sql = dead_redrive_sql, .n_params = SELECTION_PARAMETERS + 3},
    [DROP] = {.name = "drop", .sql = dead_drop_sql, .n_params = SELECTION_PARAMETERS + 3},
    [NOTIFY] = {.name = "notify", .sql = control_notify_sql},
    [PLAN_ANEW] = {.name = "plan_anew",
        .sql = "SELECT set_config('plan_cache_mode', 'force_custom_plan', false)"},
    [PLAN_ONCE] = {.name = "plan_once",
        .sql = "SELECT set_config('plan_cache_mode', 'force_generic_plan', false)"},
};

enum action_state { ACTION_ACTING, ACTION_COUNTING, ACTION_BATCH, ACTION_ANSWERED };

struct action {
        struct list link; /* in session->actions */
        struct operator_session *session;
        enum action_state state;
        enum statement statement;
        operator_session_answer_fn *on_answer; /* NULL: forgotten */
        void *owner;

        char *sink; /* owned; NULL: any */
        struct array_literal ids;
        const char *ids_text; /* of ids; NULL: any */
        int limit;
        int64_t last_id;  /* dead letters up to here were counted */
        int64_t after_id; /* and up to here have had their turn */

        struct operator_session_answer answer; /* its rows are owned */
        char *failure;                         /* owned */
};

static void action_free(struct action *action)
{
        list_remove(&action->link);
        array_deinit(&action->ids);
        json_decref(action->answer.rows);
        free(action->sink);
        free(action->failure);
        free(action);
}

/* The only place that assigns it. */
static void enter(struct action *action, enum action_state next)
{
        action->state = next;
        if (next == ACTION_ANSWERED)
                timer_arm(action->session->tell, 0);
}

static void fail(struct action *action, const char *words)
{
        if (action->state == ACTION_ANSWERED)
                return;
        action->failure = xstrdup(words);
        action->answer.failure = action->failure;
        enter(action, ACTION_ANSWERED);
}

static struct action *begin(struct operator_session *session, enum statement statement,
    enum action_state state, const char *sink, operator_session_answer_fn *on_answer, void *owner)
{
        struct action *action = xcalloc(1, sizeof *action);

        action->session = session;
        action->statement = statement;
        action->state = state;
        action->sink = sink != NULL ? xstrdup(sink) : NULL;
        action->on_answer = on_answer;
        action->owner = owner;
        list_init(&action->link);
        list_push_back(&session->actions, &action->link);
        return action;
}

static bool is_connected(struct action *action)
{
        struct bytes words = {0};

        if (pg_conn_is_ready(action->session->conn))
                return true;
        bytes_printf(&words, "PostgreSQL is not connected now, try again later: %s",
            action->session->failure.text);
        fail(action, words.data);
        bytes_deinit(&words);
        return false;
}

static void run(struct action *action, enum statement statement, const char *const *values,
    pg_result_fn *on_result)
{
        pg_conn_execute(
            action->session->conn, &statements[statement], values, false, on_result, action);
}

/* A selection is planned with its values, so that what was not asked for costs nothing; the look is
 * planned once for all times. */
static void execute(struct action *action, enum statement statement, const char *const *values,
    pg_result_fn *on_result)
{
        run(action, PLAN_ANEW, NULL, NULL);
        run(action, statement, values, on_result);
        run(action, PLAN_ONCE, NULL, NULL);
}

/* The first of the values; NULL are the filters that nobody has asked for so far. */
static void select_dead(const struct action *action, const char **values)
{
        const struct selection selection = {.sink = action->sink,
            .ids = action->ids_text,
            .older_than_ms = -1,
            .newer_than_ms = -1};
        struct parameter parameters[SELECTION_PARAMETERS];
        struct selection_texts texts;

        selection_fill(&selection, &texts, parameters);
        for (int i = 0; i < SELECTION_PARAMETERS; i++)
                values[i] = parameters[i].value;
}

static void on_paused(void *owner, PGresult *result)
{
        struct action *action = owner;

        action->answer.n = PQgetvalue(result, 0, 0)[0] != 't';
        PQclear(result);
        enter(action, ACTION_ANSWERED);
}

void operator_session_pause(struct operator_session *session, const char *sink, const char *reason,
    operator_session_answer_fn *on_answer, void *owner)
{
        struct action *action = begin(session, PAUSE, ACTION_ACTING, sink, on_answer, owner);
        struct error error;

        if (!pause_check_reason(reason, "the reason", &error))
                fail(action, error.text);
        else if (is_connected(action))
                execute(action, PAUSE, (const char *const[]){sink, reason}, on_paused);
}

static void on_resumed(void *owner, PGresult *result)
{
        struct action *action = owner;

        action->answer.n = PQntuples(result);
        PQclear(result);
        enter(action, ACTION_ANSWERED);
}

void operator_session_resume(struct operator_session *session, const char *sink,
    operator_session_answer_fn *on_answer, void *owner)
{
        struct action *action = begin(session, RESUME, ACTION_ACTING, sink, on_answer, owner);

        if (is_connected(action))
                execute(action, RESUME, (const char *const[]){sink}, on_resumed);
}

/* One row more than was asked for says that there are more. */
static void on_dead_listed(void *owner, PGresult *result)
{
        struct action *action = owner;
        int n_rows = PQntuples(result);

        action->answer.has_more = n_rows > action->limit;
        if (action->answer.has_more)
                n_rows = action->limit;
        action->answer.rows = json_array();
        for (int row = 0; row < n_rows; row++)
                if (json_array_append_new(action->answer.rows,
                        json_loads(PQgetvalue(result, row, 1), JSON_ALLOW_NUL, NULL)) != 0)
                        out_of_memory();
        action->answer.n = n_rows;
        PQclear(result);
        enter(action, ACTION_ANSWERED);
}

void operator_session_list_dead(struct operator_session *session, const char *sink,
    int64_t before_id, int limit, operator_session_answer_fn *on_answer, void *owner)
{
        struct action *action = begin(session, LIST_DEAD, ACTION_ACTING, sink, on_answer, owner);
        const char *values[SELECTION_PARAMETERS + 2];
        char before[24], n_rows[24];

        action->limit = limit;
        if (!is_connected(action))
                return;
        select_dead(action, values);
        snprintf(before, sizeof before, "%" PRId64, before_id > 0 ? before_id : INT64_MAX);
        snprintf(n_rows, sizeof n_rows, "%d", limit + 1);
        values[SELECTION_PARAMETERS] = before;
        values[SELECTION_PARAMETERS + 1] = n_rows;
        execute(action, LIST_DEAD, values, on_dead_listed);
}

static void run_batch(struct action *action);

static void on_batch(void *owner, PGresult *result)
{
        struct action *action = owner;
        int n_rows = PQntuples(result);

        for (int row = 0; row < n_rows; row++)
                if (PQgetvalue(result, row, 1)[0] == 't')
                        action->answer.n++;
                else
                        action->answer.n_kept++;
        if (n_rows > 0)
                action->after_id = strtoll(PQgetvalue(result, n_rows - 1, 0), NULL, 10);
        PQclear(result);
        if (n_rows > 0 && action->statement == REDRIVE)
                run(action, NOTIFY, NULL, NULL);
        if (n_rows == 0)
                enter(action, ACTION_ANSWERED);
        else
                run_batch(action);
}

static void run_batch(struct action *action)
{
        const char *values[SELECTION_PARAMETERS + 3];
        char after[24], n_rows[24], upto[24];

        enter(action, ACTION_BATCH);
        select_dead(action, values);
        snprintf(after, sizeof after, "%" PRId64, action->after_id);
        snprintf(n_rows, sizeof n_rows, "%d", DEAD_BATCH_ROWS);
        snprintf(upto, sizeof upto, "%" PRId64, action->last_id);
        values[SELECTION_PARAMETERS] = after;
        values[SELECTION_PARAMETERS + 1] = n_rows;
        values[SELECTION_PARAMETERS + 2] = upto;
        execute(action, action->statement, values, on_batch);
}

static void on_counted(void *owner, PGresult *result)
{
        struct action *action = owner;

        action->last_id = strtoll(PQgetvalue(result, 0, 1), NULL, 10);
        PQclear(result);
        run_batch(action);
}

static void change_dead(struct operator_session *session, enum statement statement,
    const struct operator_session_dead *which, operator_session_answer_fn *on_answer, void *owner)
{
        struct action *action =
            begin(session, statement, ACTION_COUNTING, which->sink, on_answer, owner);
        const char *values[SELECTION_PARAMETERS + 1];

        assert(which->sink != NULL || which->n_ids > 0);
        for (size_t i = 0; i < which->n_ids; i++)
                array_add_int(&action->ids, which->ids[i]);
        if (which->n_ids > 0)
                action->ids_text = array_end(&action->ids);
        if (!is_connected(action))
                return;
        select_dead(action, values);
        values[SELECTION_PARAMETERS] = NULL;
        execute(action, COUNT_DEAD, values, on_counted);
}

void operator_session_redrive(struct operator_session *session,
    const struct operator_session_dead *which, operator_session_answer_fn *on_answer, void *owner)
{
        change_dead(session, REDRIVE, which, on_answer, owner);
}

void operator_session_drop(struct operator_session *session,
    const struct operator_session_dead *which, operator_session_answer_fn *on_answer, void *owner)
{
        change_dead(session, DROP, which, on_answer, owner);
}

void operator_session_forget(struct operator_session *session, const void *owner)
{
        list_for_each (link, &session->actions) {
                struct action *action = list_owner(link, struct action, link);

                if (action->owner == owner)
                        action->on_answer = NULL;
        }
}

void operator_session_prepare_actions(struct operator_session *session)
{
        for (int i = 0; i < N_STATEMENTS; i++)
                pg_conn_prepare(session->conn, &statements[i]);
}

void operator_session_fail_actions(struct operator_session *session, const char *words)
{
        list_for_each (link, &session->actions)
                fail(list_owner(link, struct action, link), words);
}

/* An answer's receiver may ask for more, or close the watch: each time from the first on. */
static struct action *first_answered(struct operator_session *session)
{
        list_for_each (link, &session->actions) {
                struct action *action = list_owner(link, struct action, link);

                if (action->state == ACTION_ANSWERED)
                        return action;
        }
        return NULL;
}

void operator_session_tell_actions(void *owner)
{
        struct operator_session *session = owner;
        struct action *action;

        while ((action = first_answered(session)) != NULL) {
                operator_session_answer_fn *on_answer = action->on_answer;

                list_remove(&action->link);
                if (on_answer != NULL)
                        on_answer(action->owner, &action->answer);
                action_free(action);
        }
}

void operator_session_drop_actions(struct operator_session *session)
{
        list_for_each (link, &session->actions)
                action_free(list_owner(link, struct action, link));
}
