/* Asks the admin endpoint of a running relay, found by the relay's own configuration. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct admin_client;

struct admin_config;

/* For error texts: the way without a receiver. With several processes the reader has to choose
 * one. */
#define ADMIN_CLIENT_BY_SIGNAL                                                                     \
        "Where the relay runs, SIGHUP has it reload: `pgcourier reload --pid \"$(pidof "           \
        "pgcourier)\"`"

/* NULL and *error: the file is wrong, or has no block `admin`. Does not connect yet. */
struct admin_client *admin_client_open(const char *config_path, struct error *error);

/* The same for a configuration that is loaded already; borrowed for the call. */
struct admin_client *admin_client_create(const struct admin_config *config, struct error *error);
void admin_client_close(struct admin_client *client); /* NULL is allowed */

/*
 * One GET, or with `body` (JSON) a POST. False and *error if there is no answer
 * within timeout_ms. Any status is an answer. *out_body is the caller's;
 * admin_client_refused() reads the error text out of it.
 */
bool admin_client_ask(struct admin_client *client, const char *path, const char *body,
    long timeout_ms, long *out_status, struct bytes *out_body, struct error *error)
    __attribute__((warn_unused_result));

/* Sets *error to what an answer with a status other than 2xx says. Always false. */
bool admin_client_refused(long status, const struct bytes *body, struct error *error);

/* One event of a stream; both are borrowed. False: enough. */
typedef bool admin_event_fn(void *owner, const char *event, const char *data);

/* Follows a stream of server-sent events until on_event has enough (true), or the relay ends it
 * (false and *error). */
bool admin_client_follow(struct admin_client *client, const char *path, admin_event_fn *on_event,
    void *owner, struct error *error) __attribute__((warn_unused_result));
