/*
 * What holds for a lane between any two calls of lane.h. Builds with
 * PGCOURIER_CHECKS (debug and sanitizer builds, and the simulator always)
 * assert it where such a call ends; others do nothing here. Pure.
 *
 * A delivery:
 *  - It is READY in a queue, or left alone by a lane that drains; in no other state is it queued.
 *  - READY and BLOCKED have no verdict. IN_FLIGHT has none, or one that parks it first.
 *  - A second verdict waits behind one that is sent and parks.
 *  - Its verdict is in a list of the settler exactly if it is behind the cursor.
 *  - It has a row only behind the cursor.
 *  - It is claimed if it has a row, or was parked while under way, until it is let go.
 *  - BLOCKED, has_failed and is_overtaken say something about its place in a chain.
 *
 * A lane:
 *  - UNOWNED it holds nothing. LEAVING it waits for attempts in flight, and for nothing else.
 *  - What it counts is there: attempts, claimed rows, bytes, deliveries that are decided or hold a
 *    batch, and those of a key that failed, are blocked or being parked.
 *  - The cursor never waits for a delivery that is decided.
 *  - The first of a key is not blocked. Only a sink that keeps order has two of a key in flight.
 *  - Verdicts that wait have a time when they are due; those that are sent, a settle under way.
 */
#pragma once

#include "lane/delivery.h"
#include "lane/lane.h"

#ifdef PGCOURIER_CHECKS

void delivery_assert_consistent(const struct delivery *delivery);

/* Walks the lane's deliveries and keys only if they are few, so that large windows stay usable. */
void lane_assert_consistent(const struct lane *lane);

#else

static inline void delivery_assert_consistent(const struct delivery *delivery)
{
        (void)delivery;
}

static inline void lane_assert_consistent(const struct lane *lane)
{
        (void)lane;
}

#endif
