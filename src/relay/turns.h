/*
 * Whose turn it is: the deliveries of a lane that may start, and those that
 * wait to be tried again. Pure.
 */
#pragma once

#include "base/list.h"
#include "relay/delivery.h"

#include <stdbool.h>
#include <stdint.h>

/* delivery::link of each; none is owned. */
struct turns {
        struct list fresh;   /* READY and never started, in delivery order */
        struct list resumed; /* READY again, in delivery order; these go first */
        struct list waiting; /* WAITING, earliest due first */
};

void turns_init(struct turns *turns);

/* Behind all others; called in delivery order. */
void turns_add(struct turns *turns, struct delivery *delivery);

/* It was started before, or was blocked, and may start now. */
void turns_resume(struct turns *turns, struct delivery *delivery);

/* It may start again at due_ms, once turns_take_due() is called then. */
void turns_wait(struct turns *turns, struct delivery *delivery, int64_t due_ms);
void turns_take_due(struct turns *turns, int64_t now_ms);
int64_t turns_next_due(const struct turns *turns); /* -1 if none waits */

bool turns_is_any_ready(const struct turns *turns);
struct delivery *turns_take_next(struct turns *turns); /* NULL if none is ready */
