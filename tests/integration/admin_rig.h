/* A real relay with an admin endpoint, one sink "out" (standard output: the relay's log) and a
 * database of its own. */
#pragma once

#include "support/http_client.h"
#include "support/postgres.h"
#include "support/relay_process.h"

#include <jansson.h>

#define ADMIN_TOKEN "0123456789abcdef0123"
#define BEARER      "Authorization: Bearer " ADMIN_TOKEN "\r\n"
#define JSON_TYPE   "Content-Type: application/json\r\n"

struct admin_rig {
        char *dsn;
        PGconn *owner; /* a superuser's */
        char *address; /* as in http_client.h */
        struct relay_process *relay;
};

/* `host` is "127.0.0.1", "0.0.0.0" or "unix:/path"; `settings` are more keys of the block, each
 * with a comma before it: ", token: x". Waits until the relay listens. */
void admin_rig_start(
    struct admin_rig *rig, struct postgres *postgres, const char *host, const char *settings);
void admin_rig_stop(struct admin_rig *rig); /* the relay ends with 0 */

/* The answer's document; fails unless it comes with that status. Free it. */
json_t *admin_rig_json(struct admin_rig *rig, const char *method, const char *path,
    const char *headers, const char *body, unsigned status);

/* Waits until /readyz answers so. */
void admin_rig_await_ready(struct admin_rig *rig, unsigned status);

/* Waits until a member of the only sink in /api/status, a text or else written as JSON, begins
 * so. */
void admin_rig_await_sink(struct admin_rig *rig, const char *member, const char *expected);
