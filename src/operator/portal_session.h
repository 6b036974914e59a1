/*
 * The relay's connection for the portal: each question of a customer is one
 * statement, which finds the link by the hash of its token and does nothing for
 * anyone else's receiver. Apart from all other connections, so that the operators
 * and the deliveries never wait for a customer; a statement has five seconds.
 */
#pragma once

#include "admin/portal/portal.h"
#include "config/config.h"

#include <uv.h>

struct portal_session;

/* The config is borrowed for the call. on_login_refused as in operator_session_events. */
struct portal_session *portal_session_create(uv_loop_t *loop, const struct postgres_config *config,
    bool (*on_login_refused)(void *owner), void *owner);
void portal_session_open(struct portal_session *session);
/* Ends the questions that are under way with an error, in this call. */
void portal_session_close(struct portal_session *session);
void portal_session_destroy(struct portal_session *session); /* NULL is allowed; closes */

/* The owner is a struct portal_session *. */
portal_ask_fn portal_session_ask;

/* Other settings of the database, from the next connection on; or at once: what is under way
 * fails. */
void portal_session_configure(struct portal_session *session, const struct postgres_config *config);
void portal_session_reopen(struct portal_session *session, const struct postgres_config *config);
