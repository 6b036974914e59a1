/* What the two halves of the operators' session share: operator_session.c looks, operator_actions.c acts. */
#pragma once

#include "base/list.h"
#include "operator/operator_session.h"
#include "pg/pg_conn.h"

struct operator_session {
        struct pg_conn *conn; /* owned */
        struct operator_session_events events;
        void *owner; /* borrowed */
        char *dsn;   /* owned, as the next */
        char *password;
        char *sinks; /* as a parameter; owned */

        struct timer *next; /* when to look again */
        bool is_asking;
        bool is_wanted; /* somebody asked for another look meanwhile */
        int64_t asked_ms;
        json_t *look; /* owned; NULL: none yet */
        int64_t looked_ms;
        struct error failure; /* kind ERROR_NONE while the connection works */

        struct list actions; /* action::link, under way or to be answered */
        struct timer *tell;  /* some of them are to be answered */
};

/* Prepares the statements of the actions in a new session. */
void operator_session_prepare_actions(struct operator_session *session);
/* What was under way has failed; told from the loop. */
void operator_session_fail_actions(struct operator_session *session, const char *words);
/* Answers those that are to be. */
void operator_session_tell_actions(void *session);
/* Without an answer. */
void operator_session_drop_actions(struct operator_session *session);
