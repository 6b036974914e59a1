/* Asks sentinels where the master is. */
#pragma once

#include "sinks/redis/redis_connection.h"

struct error;
struct redis_sentinel;

typedef void sentinel_found_fn(void *owner, const struct redis_endpoint *master);
typedef void sentinel_failed_fn(void *owner, bool needs_operator, const char *reason);

/* The config is borrowed. NULL and *error if it names no sentinel that can be asked. */
struct redis_sentinel *redis_sentinel_create(uv_loop_t *loop, const struct redis_config *config,
    struct tls_context *tls, struct error *error);
void redis_sentinel_destroy(struct redis_sentinel *sentinel); /* NULL is allowed */

/* One of the two is called once, in a later turn of the loop, unless redis_sentinel_stop() comes
 * first. Asking again meanwhile changes nothing. */
void redis_sentinel_ask(struct redis_sentinel *sentinel, sentinel_found_fn *on_found,
    sentinel_failed_fn *on_failed, void *owner);
void redis_sentinel_stop(struct redis_sentinel *sentinel);

/* What the last sentinel said may be out of date: the next question goes to another one first. */
void redis_sentinel_rediscover(struct redis_sentinel *sentinel);
