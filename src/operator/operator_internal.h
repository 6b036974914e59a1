/* What the two halves of the operators' session share: operator_session.c owns the connection and
 * asks for the status, operator_actions.c does what operators ask for. */
#pragma once

#include "base/list.h"
#include "operator/operator_session.h"
#include "pg/pg_conn.h"

struct operator_session {
        struct pg_conn *conn; /* owned */
        struct operator_session_events events;
        void *owner; /* borrowed */
        char *sinks; /* owned; the status query's parameter */

        struct timer *next; /* when to ask for the status again */
        bool is_asking;
        bool is_wanted; /* another status was asked for meanwhile */
        int64_t asked_ms;
        json_t *status; /* owned; NULL: none yet */
        int64_t status_ms;
        struct error failure; /* kind ERROR_NONE while the connection works */

        struct list actions;    /* action::link */
        struct timer *tell;     /* some actions have ended */
        struct timer *patience; /* requests have waited long enough for a new status */
};

/* The actions of struct admin_operations. */
void operator_pause(
    void *session, const char *sink, const char *reason, admin_done_fn *on_done, void *context);
void operator_resume(void *session, const char *sink, admin_done_fn *on_done, void *context);
void operator_list_dead(void *session, const char *sink, int64_t before, unsigned limit,
    admin_done_fn *on_done, void *context);
void operator_ask(void *session, enum admin_question question,
    const char *const parameters[ADMIN_QUESTION_PARAMETERS], admin_done_fn *on_done, void *context);
void operator_set_receiver_state(void *session, const char *name, const char *state,
    const char *reason, admin_done_fn *on_done, void *context);
void operator_change_schedule(void *session, enum admin_schedule_change change, const char *name,
    admin_done_fn *on_done, void *context);
void operator_redrive(
    void *session, const struct admin_selection *selection, admin_done_fn *on_done, void *context);
void operator_drop(
    void *session, const struct admin_selection *selection, admin_done_fn *on_done, void *context);

/* on_done comes with the next call of operator_actions_status_came(). */
void operator_await_status(struct operator_session *session, admin_done_fn *on_done, void *context);
void operator_actions_status_came(struct operator_session *session);

/* Prepares the statements of the actions in a new session. */
void operator_actions_prepare(struct operator_session *session);
/* The connection was lost: actions under way fail. */
void operator_actions_fail(struct operator_session *session, const char *words);
/* Calls on_done of the actions that have ended. True: one of them has changed something. */
bool operator_actions_tell(struct operator_session *session);
/* Ends all actions: the relay stops. */
void operator_actions_stop(struct operator_session *session);
