/*
 * Sees to it that the outbox is maintained (outbox/maintenance.h): a round every
 * half a minute, whoever owns the lanes, because a table that nobody keeps grows.
 * Says in the log what was done, and who keeps what is over from going.
 */
#pragma once

#include "config/config.h"

#include <uv.h>

struct keeper;

struct keeper *keeper_create(uv_loop_t *loop, const struct config *config);
void keeper_destroy(struct keeper *keeper); /* NULL is allowed; a round under way is given up */

/* The outbox is there: the first round begins, unless one did before. */
void keeper_start(struct keeper *keeper);
