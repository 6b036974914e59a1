/*
 * Whether a session stays with its server process, as a lane's lock must: with PostgreSQL itself,
 * and behind a pooler in session mode. A pooler that shares its connections between transactions
 * may still give back the same one again and again, as long as no other client wants it; so a
 * second connection of ours asks for it.
 */
#pragma once

#include "base/error.h"
#include "config/config.h"

#include <stdbool.h>
#include <uv.h>

/* Blocks: by two connections of its own. False and *error if the sessions do not stay, with what to
 * do (ERROR_CONFIG); or if that cannot be found out. */
bool pooling_check(const struct postgres_config *config, struct error *error)
    __attribute__((warn_unused_result));

/* The same in a thread of the pool. NULL: the sessions stay. */
struct pooling;
typedef void pooling_answer_fn(void *owner, const struct error *error);
struct pooling *pooling_ask(uv_loop_t *loop, const struct postgres_config *config,
    pooling_answer_fn *on_answer, void *owner);
void pooling_forget(struct pooling *pooling); /* no answer comes any more; NULL is allowed */
