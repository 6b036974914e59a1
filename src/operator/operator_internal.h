/* What the two halves of the watch share: watch.c looks, watch_actions.c acts. */
#pragma once

#include "base/list.h"
#include "operator/operator_session.h"
#include "pg/pg_conn.h"

struct watch {
        struct pg_conn *conn; /* owned */
        struct watch_events events;
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
void watch_prepare_actions(struct watch *watch);
/* What was under way has failed; told from the loop. */
void watch_fail_actions(struct watch *watch, const char *words);
/* Answers those that are to be. */
void watch_tell_actions(void *watch);
/* Without an answer. */
void watch_drop_actions(struct watch *watch);
