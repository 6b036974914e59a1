/*
 * The deliveries of a lane that may start, and which of them is next. Pure.
 *
 *   resumed   started or blocked before; these go first
 *   parked    read back from courier.parked    } these two in turn
 *   fresh     from the stream, never started   }
 *   suspects  the destination did not answer them: they go when no other can,
 *             until it has answered others
 */
#pragma once

#include "base/list.h"
#include "lane/delivery.h"

#include <stdbool.h>

/* delivery::link of each; none is owned. */
struct ready_queue {
        struct list resumed; /* in delivery order; those that were read back at the front */
        struct list parked;
        struct list fresh; /* in delivery order */
        struct list suspects;
        bool is_turn_of_parked;
};

void ready_queue_init(struct ready_queue *ready);

/* Behind all others of its list. */
void ready_queue_add_fresh(struct ready_queue *ready, struct delivery *delivery);
void ready_queue_add_parked(struct ready_queue *ready, struct delivery *delivery);
void ready_queue_add_suspect(struct ready_queue *ready, struct delivery *delivery);

/* It was started or blocked before, and may start now. */
void ready_queue_resume(struct ready_queue *ready, struct delivery *delivery);

/* The destination has answered: suspects are tried like others. */
void ready_queue_clear_suspicion(struct ready_queue *ready);

bool ready_queue_is_any_ready(const struct ready_queue *ready);
struct delivery *ready_queue_take_next(struct ready_queue *ready); /* NULL if none is ready */
