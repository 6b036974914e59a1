/*
 * Whose turn it is: the deliveries of a lane that may start. Pure.
 *
 *   resumed   started before, or blocked before; these go first
 *   parked    read back from where they were parked   } these two in turn
 *   fresh     from the stream, never started          }
 *   suspects  the destination fell silent over them: they go when nobody else
 *             can, until it has answered somebody
 */
#pragma once

#include "base/list.h"
#include "lane/delivery.h"

#include <stdbool.h>

/* delivery::link of each; none is owned. */
struct turns {
        struct list resumed; /* in delivery order; those that were parked at the front */
        struct list parked;
        struct list fresh; /* in delivery order */
        struct list suspects;
        bool is_turn_of_parked;
};

void turns_init(struct turns *turns);

/* Behind all others of its list. */
void turns_add_fresh(struct turns *turns, struct delivery *delivery);
void turns_add_parked(struct turns *turns, struct delivery *delivery);
void turns_add_suspect(struct turns *turns, struct delivery *delivery);

/* It was started before, or was blocked, and may start now. */
void turns_resume(struct turns *turns, struct delivery *delivery);

/* The destination has answered: suspects are tried as others are. */
void turns_clear_suspicion(struct turns *turns);

bool turns_is_any_ready(const struct turns *turns);
struct delivery *turns_take_next(struct turns *turns); /* NULL if none is ready */
