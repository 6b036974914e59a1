/*
 * The portal of a running relay: the listener, its connection to PostgreSQL, and
 * what the relay knows of the sinks that deliver to the receivers.
 */
#pragma once

#include "base/error.h"
#include "config/config.h"

#include <stdbool.h>
#include <uv.h>

struct portal_backend;

/* NULL and *error if it cannot listen. config->portal is not NULL; the config is borrowed until
 * portal_backend_take_config(). on_login_refused as in operator_session_events. */
struct portal_backend *portal_backend_create(uv_loop_t *loop, const struct config *config,
    bool (*on_login_refused)(void *owner), void *owner, struct error *error);

/* Another configuration is in force, in which the portal listens where it did. NULL is allowed,
 * here and below. */
void portal_backend_take_config(struct portal_backend *backend, const struct config *config);

/* Other settings of PostgreSQL are in force, from the next connection on; or at once. */
void portal_backend_configure(struct portal_backend *backend, const struct postgres_config *config);
void portal_backend_reopen(struct portal_backend *backend, const struct postgres_config *config);

void portal_backend_destroy(struct portal_backend *backend);
