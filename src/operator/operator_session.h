/*
 * The relay's third connection, for the people who look at it: it asks every few
 * seconds how everything is (status_query.h) and does what operators want done. Opened
 * only where somebody may ask, apart from `work`, so that neither ever waits for
 * the other. While PostgreSQL is away the last look just gets old.
 */
#pragma once

#include "config/config.h"

#include <jansson.h>
#include <uv.h>

struct operator_session;

struct operator_session_events {
        void (*on_look)(void *owner);    /* there is a new one */
        void (*on_no_look)(void *owner); /* it failed, or the connection is lost; or NULL */
        /* True: there may be other credentials; nothing is to be told before the next try. Or NULL. */
        bool (*on_login_refused)(void *owner);
};

/* What it calls may call any function below except operator_session_destroy(). */

/* The config is borrowed for the call: what is needed of it is copied. */
struct operator_session *operator_session_create(uv_loop_t *loop, const struct config *config,
    const struct operator_session_events *events, void *owner);
void operator_session_open(struct operator_session *session);
/* No event and no answer comes any more. */
void operator_session_close(struct operator_session *session);
void operator_session_destroy(struct operator_session *session); /* NULL is allowed; closes */

/* From now on these are the sinks that are looked at. */
void operator_session_set_sinks(struct operator_session *session, const struct config *config);

/* Other settings of the database, from the next connection on. */
void operator_session_configure(
    struct operator_session *session, const struct postgres_config *config);
/* The same at once; what is under way fails. */
void operator_session_reopen(struct operator_session *session, const struct config *config);

/* The last document, or NULL. Borrowed; valid until the loop goes on. */
const json_t *operator_session_ask_status(const struct operator_session *session);
/* How old it is; -1: there is none. */
int64_t operator_session_age_ms(const struct operator_session *session);
/* Why there is no newer one; NULL while the connection works. */
const char *operator_session_failure(const struct operator_session *session);

/* A look soon: now, if the last one was not begun within a second. */
void operator_session_ask(struct operator_session *session);

struct operator_session_answer {
        const char *failure; /* in words; NULL: it was done */
        int64_t
            n; /* pauses that were made or removed; dead letters listed, redriven, dropped. Right
                      after a failure too */
        int64_t n_kept; /* dead letters that cannot be redriven: parked, or without receiver */
        json_t *rows;   /* borrowed: of the list, an array of objects; else NULL */
        bool has_more;  /* the list goes on */
};

/* Comes exactly once, never inside the call that it answers; unless the watch is closed or the
 * owner forgotten before. */
typedef void operator_session_answer_fn(void *owner, const struct operator_session_answer *answer);

/* `n` is 0 if the sink was paused already, which gives it the reason (NULL: none). */
void operator_session_pause(struct operator_session *session, const char *sink, const char *reason,
    operator_session_answer_fn *on_answer, void *owner);
void operator_session_resume(struct operator_session *session, const char *sink,
    operator_session_answer_fn *on_answer, void *owner);

/* The newest first, below an id (0: from the newest on); of one sink, or (NULL) of all. Without
 * payloads and headers. */
void operator_session_list_dead(struct operator_session *session, const char *sink,
    int64_t before_id, int limit, operator_session_answer_fn *on_answer, void *owner);

/* Those of a sink (NULL: any) with these ids, or (n_ids 0) all of the sink, which must then be
 * given. In batches, each a transaction: what was done is done. */
struct operator_session_dead {
        const char *sink;
        const int64_t *ids;
        size_t n_ids;
};
void operator_session_redrive(struct operator_session *session,
    const struct operator_session_dead *which, operator_session_answer_fn *on_answer, void *owner);
void operator_session_drop(struct operator_session *session,
    const struct operator_session_dead *which, operator_session_answer_fn *on_answer, void *owner);

/* No answer comes to this owner any more; what it asked for is done all the same. */
void operator_session_forget(struct operator_session *session, const void *owner);
