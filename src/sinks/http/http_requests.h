/*
 * The requests of one http sink: those under way, and those that are over and
 * kept for the next one.
 */
#pragma once

#include "pgcourier/sink.h"

#include <stddef.h>

struct address_guard;
struct http_config;
struct http_requests;
struct http_target;

/*
 * How a request ended; n_attempts is 0 for a probe. Its place is free again, and
 * others may be started. `attempts` and `outcome` are borrowed for the call.
 * Never comes inside a call of these functions.
 */
typedef void http_request_done_fn(void *owner, struct http_target *target,
    struct attempt *const *attempts, size_t n_attempts, const struct outcome *outcome);

/* `max_connections`: so many are kept open for reuse, busy or idle. `config`, `guard` and `owner`
 * are borrowed. */
struct http_requests *http_requests_create(uv_loop_t *loop, const struct http_config *config,
    const struct address_guard *guard, unsigned max_connections, http_request_done_fn *on_done,
    void *owner);

/* None may be under way. */
void http_requests_destroy(struct http_requests *requests);

/* Those under way. */
unsigned http_requests_count(const struct http_requests *requests);

/*
 * Sends the events of these attempts in one request; `attempts` is not kept. One
 * that cannot be sent finishes its attempts with attempt_finish_later(); for all
 * others on_done comes.
 */
void http_requests_start(struct http_requests *requests, struct http_target *target,
    struct attempt *const *attempts, size_t n_attempts);

/* Only connects to the target. on_done comes in any case. */
void http_requests_probe(struct http_requests *requests, struct http_target *target);

/* For http_host_settled_fn: requests that waited for the target's addresses go on, or give up. */
void http_requests_host_settled(
    struct http_requests *requests, struct http_target *target, const char *failure);

/* Finishes all but probes, with attempt_finish_later(). */
void http_requests_cancel(struct http_requests *requests);
