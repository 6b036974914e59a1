/*
 * The relay's connection for operators: it asks every five seconds for the status of everything
 * (status_query.h), and does what operators ask of the admin endpoint. It is opened only with an
 * admin endpoint, and apart from the connection that delivers, so that neither waits for the other.
 * While PostgreSQL is away the last status stays, and gets older.
 */
#pragma once

#include "admin/admin.h"
#include "config/config.h"

#include <jansson.h>
#include <uv.h>

struct operator_session;

/* They may call any function below except operator_session_destroy(). */
struct operator_session_events {
        void (*on_status)(void *owner, const json_t *status); /* a new one; borrowed */
        void (*on_no_status)(
            void *owner); /* the connection is lost, or the query failed; or NULL */
        /* True: the credentials may have changed; say nothing before the next try. Or NULL. */
        bool (*on_login_refused)(void *owner);
};

/* What it does for the admin endpoint; each function's `owner` is a struct operator_session *. */
extern const struct admin_operations operator_session_operations;

/* The config is borrowed for the call: what is needed of it is copied. */
struct operator_session *operator_session_create(uv_loop_t *loop, const struct config *config,
    const struct operator_session_events *events, void *owner);
void operator_session_open(struct operator_session *session);
/* Ends the operations that are under way with an error, in this call. No event comes any more. */
void operator_session_close(struct operator_session *session);
void operator_session_destroy(struct operator_session *session); /* NULL is allowed; closes */

/* From now on the status is of these sinks. */
void operator_session_set_sinks(struct operator_session *session, const struct config *config);

/* Other settings of the database, from the next connection on. */
void operator_session_configure(
    struct operator_session *session, const struct postgres_config *config);
/* The same at once; what is under way fails. */
void operator_session_reopen(struct operator_session *session, const struct config *config);
