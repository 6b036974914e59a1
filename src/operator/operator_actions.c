/*
 * What operators ask for. An action is one statement, or (dead letters) a count and then batches
 * until all that was counted is done:
 *
 *   ACTING -its answer-> ENDED
 *   COUNTING -> BATCH -more-> BATCH … -no more-> ENDED
 *
 * Each is ENDED with an error if the connection is lost; an error of a statement breaks the
 * connection, too. on_done is called from the loop, never inside the call that begins an action.
 */
#include "base/alloc.h"
#include "loop/timer.h"
#include "operator/dead_letters.h"
#include "operator/history.h"
#include "operator/operator_internal.h"
#include "operator/receiver_rows.h"
#include "operator/selection.h"
#include "operator/sink_rows.h"
#include "operator/type_rows.h"
#include "pg/array_literal.h"

#include <assert.h>
#include <stdlib.h>

enum statement {
        PAUSE,
        RESUME,
        LIST_DEAD,
        COUNT_DEAD,
        REDRIVE,
        DROP,
        LIST_RECEIVERS,
        TELL_RECEIVER,
        TRACE,
        LIST_TYPES,
        SET_RECEIVER,
        PAUSE_SCHEDULE,
        RESUME_SCHEDULE,
        RUN_SCHEDULE,
        NOTIFY,
        PLAN_ANEW,
        PLAN_ONCE,
        N_STATEMENTS,
        AWAIT_STATUS = N_STATEMENTS, /* an action without a statement of its own */
};

static const struct pg_statement statements[N_STATEMENTS] = {
    [PAUSE] = {.name = "pause", .sql = pause_add_sql, .n_params = 2},
    [RESUME] = {.name = "resume", .sql = pause_remove_sql, .n_params = 1},
    [LIST_DEAD] = {.name = "list_dead", .sql = dead_newest_sql, .n_params = DEAD_LIST_N},
    [COUNT_DEAD] = {.name = "count_dead", .sql = dead_count_sql, .n_params = DEAD_COUNT_N},
    [REDRIVE] = {.name = "redrive", .sql = dead_redrive_sql, .n_params = DEAD_BATCH_N},
    [DROP] = {.name = "drop", .sql = dead_drop_sql, .n_params = DEAD_BATCH_N},
    [LIST_RECEIVERS] = {.name = "list_receivers",
        .sql = receiver_list_sql,
        .n_params = RECEIVERS_PARAMETERS},
    [TELL_RECEIVER] = {.name = "tell_receiver", .sql = receiver_story_sql, .n_params = 3},
    [TRACE] = {.name = "trace", .sql = trace_sql, .n_params = 2},
    [LIST_TYPES] = {.name = "list_types", .sql = types_document_sql},
    [SET_RECEIVER] = {.name = "set_receiver", .sql = receiver_set_state_sql, .n_params = 3},
    [PAUSE_SCHEDULE] = {.name = "pause_schedule",
        .sql = "SELECT courier.pause_schedule($1::text)",
        .n_params = 1},
    [RESUME_SCHEDULE] = {.name = "resume_schedule",
        .sql = "SELECT courier.resume_schedule($1::text)",
        .n_params = 1},
    [RUN_SCHEDULE] = {.name = "run_schedule",
        .sql = "SELECT courier.run_schedule($1::text)",
        .n_params = 1},
    [NOTIFY] = {.name = "notify", .sql = control_notify_sql},
    [PLAN_ANEW] = {.name = "plan_anew",
        .sql = "SELECT set_config('plan_cache_mode', 'force_custom_plan', false)"},
    [PLAN_ONCE] = {.name = "plan_once",
        .sql = "SELECT set_config('plan_cache_mode', 'force_generic_plan', false)"},
};

enum action_state { ACTION_ACTING, ACTION_COUNTING, ACTION_BATCH, ACTION_ENDED };

struct action {
        struct list link; /* in session->actions */
        struct operator_session *session;
        enum action_state state;
        enum statement statement;
        admin_done_fn *on_done;
        void *context; /* borrowed */

        char *sink; /* owned; NULL: any */
        struct array_literal ids;
        struct selection selection; /* of dead letters; borrows the two above */
        unsigned limit;
        struct dead_letters_count count;
        struct dead_progress progress;

        json_t *result; /* owned; NULL until it has ended well */
        struct error error;
};

static void action_free(struct action *action)
{
        list_remove(&action->link);
        array_deinit(&action->ids);
        json_decref(action->result);
        free(action->sink);
        free(action);
}

/* The only place that assigns it. */
static void enter(struct action *action, enum action_state next)
{
        action->state = next;
        if (next == ACTION_ENDED)
                timer_arm(action->session->tell, 0);
}

/* Consumes the result. */
static void end(struct action *action, json_t *result)
{
        if (result == NULL)
                out_of_memory();
        action->result = result;
        enter(action, ACTION_ENDED);
}

static struct action *begin(struct operator_session *session, enum statement statement,
    enum action_state state, const char *sink, admin_done_fn *on_done, void *context)
{
        struct action *action = xcalloc(1, sizeof *action);

        action->session = session;
        action->statement = statement;
        action->state = state;
        action->sink = sink != NULL ? xstrdup(sink) : NULL;
        action->selection =
            (struct selection){.sink = action->sink, .older_than_ms = -1, .newer_than_ms = -1};
        action->on_done = on_done;
        action->context = context;
        list_init(&action->link);
        list_push_back(&session->actions, &action->link);
        return action;
}

static bool is_question(enum statement statement)
{
        return statement == LIST_RECEIVERS || statement == TELL_RECEIVER || statement == TRACE ||
               statement == LIST_TYPES || statement == RUN_SCHEDULE;
}

/* Of a question, or of an event that is refused: it fails by itself. */
static void on_not_answered(void *owner, PGresult *result)
{
        struct action *action = owner;

        error_set(&action->error, ERROR_TEMPORARY, "PostgreSQL refused: %s",
            PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
        PQclear(result);
        enter(action, ACTION_ENDED);
}

/* A selection is planned with its values, so that what was not asked for costs nothing; the status
 * query is planned once for all times. */
static void execute(struct action *action, enum statement statement,
    const struct parameter *parameters, pg_result_fn *on_result)
{
        struct pg_conn *conn = action->session->conn;
        const char *values[DEAD_BATCH_N];

        for (int i = 0; i < statements[statement].n_params; i++)
                values[i] = parameters[i].value;
        pg_conn_execute(conn, &statements[PLAN_ANEW], NULL, false, NULL, NULL);
        pg_conn_try(conn, &statements[statement], values, false, on_result,
            is_question(statement) ? on_not_answered : NULL, action);
        pg_conn_execute(conn, &statements[PLAN_ONCE], NULL, false, NULL, NULL);
}

/* The first statement of an action. */
static void start(struct action *action, enum statement statement,
    const struct parameter *parameters, pg_result_fn *on_result)
{
        if (pg_conn_is_ready(action->session->conn)) {
                execute(action, statement, parameters, on_result);
                return;
        }
        error_set(&action->error, ERROR_DATABASE,
            "PostgreSQL is not connected now, try again later: %s", action->session->failure.text);
        enter(action, ACTION_ENDED);
}

static void on_paused(void *owner, PGresult *result)
{
        struct rows *rows = rows_of(result);

        end(owner, json_pack("{s:b s:b}", "paused", 1, "was_paused", rows_bool(rows, 0, 0)));
        rows_free(rows);
}

void operator_pause(
    void *session, const char *sink, const char *reason, admin_done_fn *on_done, void *context)
{
        const struct parameter parameters[] = {{.value = sink}, {.value = reason}};

        start(begin(session, PAUSE, ACTION_ACTING, sink, on_done, context), PAUSE, parameters,
            on_paused);
}

static void on_resumed(void *owner, PGresult *result)
{
        struct rows *rows = rows_of(result);

        end(owner, json_pack("{s:b s:i}", "paused", 0, "removed", rows_count(rows)));
        rows_free(rows);
}

void operator_resume(void *session, const char *sink, admin_done_fn *on_done, void *context)
{
        const struct parameter parameter = {.value = sink};

        start(begin(session, RESUME, ACTION_ACTING, sink, on_done, context), RESUME, &parameter,
            on_resumed);
}

/* One row more than the limit says that there are more. */
static void on_dead_listed(void *owner, PGresult *result)
{
        struct action *action = owner;
        struct rows *rows = rows_of(result);
        int n_rows = rows_count(rows);
        bool has_more = n_rows > (int)action->limit;
        json_t *list = json_array();

        for (int row = 0; row < n_rows - has_more; row++)
                if (json_array_append_new(
                        list, json_loads(rows_text(rows, row, 1), JSON_ALLOW_NUL, NULL)) != 0)
                        out_of_memory();
        end(action, json_pack("{s:o s:b}", "dead", list, "more", has_more));
        rows_free(rows);
}

void operator_list_dead(void *session, const char *sink, int64_t before, unsigned limit,
    admin_done_fn *on_done, void *context)
{
        struct action *action = begin(session, LIST_DEAD, ACTION_ACTING, sink, on_done, context);
        struct dead_parameters parameters;

        action->limit = limit;
        dead_parameters_fill(&parameters, &action->selection, before > 0 ? before : INT64_MAX,
            (int64_t)limit + 1, DEAD_NO_NUMBER);
        start(action, LIST_DEAD, parameters.values, on_dead_listed);
}

static json_t *redriven(const struct dead_progress *progress)
{
        int64_t n = progress->n_changed, n_kept = progress->n_seen - n;

        return json_pack("{s:I s:I s:o}", "redriven", (json_int_t)n, "kept", (json_int_t)n_kept,
            "words",
            n_kept == 0 ? json_null()
                        : json_sprintf("%jd redriven; %jd stay: their event is under way to that "
                                       "sink already, or its receiver was removed",
                              (intmax_t)n, (intmax_t)n_kept));
}

static void on_batch(void *owner, PGresult *result);

static void run_batch(struct action *action)
{
        struct dead_parameters parameters;

        if (dead_batch_fill(&action->progress, &action->count, &action->selection, &parameters)) {
                enter(action, ACTION_BATCH);
                execute(action, action->statement, parameters.values, on_batch);
        } else if (action->statement == REDRIVE) {
                end(action, redriven(&action->progress));
        } else {
                end(action, json_pack("{s:I}", "dropped", (json_int_t)action->progress.n_changed));
        }
}

static void on_notified(void *owner, PGresult *result)
{
        PQclear(result);
        run_batch(owner);
}

static void on_batch(void *owner, PGresult *result)
{
        struct action *action = owner;
        struct rows *rows = rows_of(result);

        dead_batch_take(&action->progress, rows, NULL);
        rows_free(rows);
        if (action->statement == REDRIVE && !action->progress.is_through)
                pg_conn_execute(
                    action->session->conn, &statements[NOTIFY], NULL, false, on_notified, action);
        else
                run_batch(action);
}

static void on_counted(void *owner, PGresult *result)
{
        struct action *action = owner;
        struct rows *rows = rows_of(result);

        dead_count_take(&action->count, rows);
        rows_free(rows);
        run_batch(action);
}

static void change_dead(struct operator_session *session, enum statement statement,
    const struct admin_selection *selection, admin_done_fn *on_done, void *context)
{
        struct action *action =
            begin(session, statement, ACTION_COUNTING, selection->sink, on_done, context);
        struct dead_parameters parameters;

        assert(selection->sink != NULL || selection->n_ids > 0);
        for (unsigned i = 0; i < selection->n_ids; i++)
                array_add_int(&action->ids, selection->ids[i]);
        if (selection->n_ids > 0)
                action->selection.ids = array_end(&action->ids);
        dead_count_fill(&parameters, &action->selection);
        start(action, COUNT_DEAD, parameters.values, on_counted);
}

static json_t *object_of(const struct rows *rows, int row)
{
        json_t *object = json_loads(rows_text(rows, row, 0), JSON_ALLOW_NUL, NULL);

        if (object == NULL)
                out_of_memory();
        return object;
}

static void on_receivers(void *owner, PGresult *result)
{
        struct rows *rows = rows_of(result);
        json_t *list = json_array();
        int64_t total =
            rows_count(rows) > 0 ? strtoll(rows_text(rows, 0, RECEIVER_ROW_TOTAL), NULL, 10) : 0;

        for (int row = 0; row < rows_count(rows); row++)
                if (json_array_append_new(list, object_of(rows, row)) != 0)
                        out_of_memory();
        end(owner, json_pack("{s:o s:I}", "receivers", list, "total", (json_int_t)total));
        rows_free(rows);
}

static void on_story(void *owner, PGresult *result)
{
        struct action *action = owner;
        struct rows *rows = rows_of(result);

        if (rows_count(rows) > 0) {
                end(action, object_of(rows, 0));
        } else {
                error_set(&action->error, ERROR_EMPTY, "there is no %s",
                    action->statement == TRACE ? "trace of that event" : "receiver of that name");
                enter(action, ACTION_ENDED);
        }
        rows_free(rows);
}

void operator_ask(void *session, enum admin_question question,
    const char *const parameters[ADMIN_QUESTION_PARAMETERS], admin_done_fn *on_done, void *context)
{
        static const struct {
                enum statement statement;
                pg_result_fn *on_result;
        } questions[] = {
            [ADMIN_RECEIVERS] = {LIST_RECEIVERS, on_receivers},
            [ADMIN_RECEIVER] = {TELL_RECEIVER, on_story},
            [ADMIN_TRACE] = {TRACE, on_story},
            [ADMIN_TYPES] = {LIST_TYPES, on_story},
        };
        struct parameter values[ADMIN_QUESTION_PARAMETERS];

        for (int i = 0; i < ADMIN_QUESTION_PARAMETERS; i++)
                values[i] = (struct parameter){.value = parameters[i]};
        if (question == ADMIN_RECEIVER)
                values[2].value = "false"; /* no secrets */
        start(begin(session, questions[question].statement, ACTION_ACTING, NULL, on_done, context),
            questions[question].statement, values, questions[question].on_result);
}

static void on_receiver_set(void *owner, PGresult *result)
{
        struct action *action = owner;
        struct rows *rows = rows_of(result);

        if (rows_count(rows) > 0) {
                end(action, json_pack("{s:s}", "was", rows_text(rows, 0, 0)));
        } else {
                error_set(&action->error, ERROR_EMPTY, "there is no receiver of that name");
                enter(action, ACTION_ENDED);
        }
        rows_free(rows);
}

void operator_set_receiver_state(void *session, const char *name, const char *state,
    const char *reason, admin_done_fn *on_done, void *context)
{
        const struct parameter parameters[] = {
            {.value = name}, {.value = state}, {.value = reason}};

        start(begin(session, SET_RECEIVER, ACTION_ACTING, NULL, on_done, context), SET_RECEIVER,
            parameters, on_receiver_set);
}

/* True or false of the first two, an event's id or NULL of the third. */
static void on_schedule_changed(void *owner, PGresult *result)
{
        struct action *action = owner;
        struct rows *rows = rows_of(result);
        const char *text = rows_text(rows, 0, 0);
        bool is_run = action->statement == RUN_SCHEDULE;

        if (text != NULL && (is_run || rows_bool(rows, 0, 0))) {
                end(action, json_pack("{s:s*}", "event_id", is_run ? text : NULL));
        } else {
                error_set(&action->error, ERROR_EMPTY, "there is no schedule of that name");
                enter(action, ACTION_ENDED);
        }
        rows_free(rows);
}

void operator_change_schedule(void *session, enum admin_schedule_change change, const char *name,
    admin_done_fn *on_done, void *context)
{
        static const enum statement statement_of[] = {[ADMIN_SCHEDULE_PAUSE] = PAUSE_SCHEDULE,
            [ADMIN_SCHEDULE_RESUME] = RESUME_SCHEDULE,
            [ADMIN_SCHEDULE_RUN] = RUN_SCHEDULE};
        const enum statement statement = statement_of[change];
        const struct parameter parameter = {.value = name};

        start(begin(session, statement, ACTION_ACTING, NULL, on_done, context), statement,
            &parameter, on_schedule_changed);
}

void operator_redrive(
    void *session, const struct admin_selection *selection, admin_done_fn *on_done, void *context)
{
        change_dead(session, REDRIVE, selection, on_done, context);
}

void operator_drop(
    void *session, const struct admin_selection *selection, admin_done_fn *on_done, void *context)
{
        change_dead(session, DROP, selection, on_done, context);
}

void operator_await_status(struct operator_session *session, admin_done_fn *on_done, void *context)
{
        begin(session, AWAIT_STATUS, ACTION_ACTING, NULL, on_done, context);
}

void operator_actions_status_came(struct operator_session *session)
{
        timer_disarm(session->patience);
        list_for_each (link, &session->actions) {
                struct action *action = list_owner(link, struct action, link);

                if (action->statement == AWAIT_STATUS && action->state != ACTION_ENDED)
                        end(action, json_null());
        }
}

void operator_actions_prepare(struct operator_session *session)
{
        for (int i = 0; i < N_STATEMENTS; i++)
                pg_conn_prepare(session->conn, &statements[i]);
}

/* Without a connection the last status has to do. */
void operator_actions_fail(struct operator_session *session, const char *words)
{
        operator_actions_status_came(session);
        list_for_each (link, &session->actions) {
                struct action *action = list_owner(link, struct action, link);

                if (action->state == ACTION_ENDED)
                        continue;
                error_set(&action->error, ERROR_DATABASE, "%s", words);
                enter(action, ACTION_ENDED);
        }
}

/* on_done may begin other actions, or close the session: so each time from the first on. */
static struct action *first_ended(struct operator_session *session)
{
        list_for_each (link, &session->actions) {
                struct action *action = list_owner(link, struct action, link);

                if (action->state == ACTION_ENDED)
                        return action;
        }
        return NULL;
}

static bool is_change(const struct action *action)
{
        return action->statement != LIST_DEAD && action->statement != AWAIT_STATUS &&
               !is_question(action->statement);
}

bool operator_actions_tell(struct operator_session *session)
{
        bool has_changed = false;
        struct action *action;

        while ((action = first_ended(session)) != NULL) {
                list_remove(&action->link);
                has_changed |= is_change(action);
                action->on_done(action->context, action->result,
                    action->result == NULL ? &action->error : NULL);
                action_free(action);
        }
        return has_changed;
}

void operator_actions_stop(struct operator_session *session)
{
        list_for_each (link, &session->actions) {
                struct action *action = list_owner(link, struct action, link);

                if (action->state == ACTION_ENDED)
                        continue;
                error_set(&action->error, ERROR_TEMPORARY, "the relay is stopping%s",
                    action->statement != AWAIT_STATUS
                        ? "; it is unknown whether this was done: check, and ask again"
                        : "");
                enter(action, ACTION_ENDED);
        }
        (void)operator_actions_tell(session);
}
