/*
 * One connection of a postgres sink, which does one transaction at a time. Before the first it sets
 * up the session and looks at the function or table.
 *
 *   CLOSED -open-> OPENING -ready-> READY -run-> BUSY -ended-> READY
 *   any of these -lost or closed-> CLOSED
 */
#pragma once

#include "config/config.h"
#include "pgcourier/outcome.h"

#include <libpq-fe.h>
#include <stdbool.h>
#include <uv.h>

enum postgres_session_state {
        POSTGRES_CLOSED,
        POSTGRES_OPENING,
        POSTGRES_READY,
        POSTGRES_BUSY,
};

struct postgres_session;

/* They may call any function below except postgres_session_destroy(). */
struct postgres_session_events {
        void (*on_ready)(void *owner, struct postgres_session *session);
        /* Answers run(): the transaction has committed, or this is why not. Borrowed. */
        void (*on_ended)(void *owner, struct postgres_session *session, const PGresult *result);
        /* Now CLOSED. If it `was` BUSY, it is unknown whether its transaction has committed. */
        void (*on_lost)(void *owner, struct postgres_session *session,
            enum postgres_session_state was, const struct outcome *why);
};

struct postgres_session *postgres_session_create(uv_loop_t *loop,
    const struct postgres_sink_config *config, const struct postgres_session_events *events,
    void *owner);
void postgres_session_destroy(struct postgres_session *session); /* NULL is allowed */

enum postgres_session_state postgres_session_state(const struct postgres_session *session);

void postgres_session_open(struct postgres_session *session);

/* When READY. `values` as of struct postgres_values. */
void postgres_session_run(struct postgres_session *session, const char *const *values);

/* Without a call of on_lost. The server rolls back what is under way, within half a second. */
void postgres_session_close(struct postgres_session *session);

/* For how long it has been READY; 0 in other states. */
uint64_t postgres_session_idle_ms(const struct postgres_session *session);
