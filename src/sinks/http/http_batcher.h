/*
 * The events of one receiver that go out together: attempts gather until there are
 * enough of them, or enough bytes, or the first has waited long enough. Then they
 * are due, and stay so until they are taken; meanwhile more may join.
 */
#pragma once

#include "config/config.h"
#include "pgcourier/sink.h"

#include <stdbool.h>
#include <stddef.h>

struct http_batcher;

/* There is something to take. Comes inside the calls that add. */
typedef void http_batch_due_fn(void *owner);

/* `limits` and `owner` are borrowed. */
struct http_batcher *http_batcher_create(
    uv_loop_t *loop, const struct http_batch *limits, http_batch_due_fn *on_due, void *owner);

/* NULL is allowed; nothing may be gathered. */
void http_batcher_destroy(struct http_batcher *batcher);

/* Uses attempt->sink_data while it waits. */
void http_batcher_add(struct http_batcher *batcher, struct attempt *attempt);

/* A batch that was refused: each of it goes alone now, before all others. */
void http_batcher_add_alone(
    struct http_batcher *batcher, struct attempt *const *attempts, size_t n_attempts);

bool http_batcher_is_due(const struct http_batcher *batcher);

/* The next request's attempts, due or not, at most limits->events; 0: there is none. */
size_t http_batcher_take(struct http_batcher *batcher, struct attempt **out_attempts);

/* A batch's webhook-id: the same for the same events in the same order; of a single event its
 * own. */
void http_batch_id(const struct event *const *events, size_t n_events, char out_id[static 37]);
