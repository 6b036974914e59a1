/*
 * Lets operators see and steer a running relay: the admin endpoint, and the connection on which it
 * works in the database (operator_session.h). Without a block `admin` in the configuration there is
 * neither.
 */
#pragma once

#include "base/error.h"
#include "config/config.h"

#include <stdbool.h>
#include <uv.h>

struct admin_backend;
struct outbox;
struct reload_result;
struct telemetry;

struct admin_backend_events {
        /* An operator wants the configuration loaded anew: the number of the reload that will do
         * it. */
        uint64_t (*on_reload)(void *owner);
        bool (*on_login_refused)(void *owner); /* as operator_session_events */
};

/* NULL and *error if the endpoint cannot listen. config->admin is not NULL. */
struct admin_backend *admin_backend_create(uv_loop_t *loop, const struct config *config,
    const char *config_file, struct telemetry *telemetry, const struct outbox *outbox,
    const struct admin_backend_events *events, void *owner, struct error *error);

/* Another configuration is in force: other tokens and hosts. Where it listens stays as it is. */
void admin_backend_take_config(struct admin_backend *admin_backend, const struct config *config);

/* Other settings of PostgreSQL are in force, from the next connection on; or at once. NULL is
 * allowed, here and below. */
void admin_backend_configure(
    struct admin_backend *admin_backend, const struct postgres_config *config);
void admin_backend_reopen(struct admin_backend *admin_backend, const struct config *config);

/* A reload has ended: answers the requests that wait for it. */
void admin_backend_reloaded(
    struct admin_backend *admin_backend, const struct reload_result *result);

void admin_backend_destroy(struct admin_backend *admin_backend);
