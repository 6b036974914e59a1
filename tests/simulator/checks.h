/*
 * What pgcourier promises, checked at each step from what can be seen from
 * outside: the checker keeps its own account of what each relay read, started
 * and was told, and of what an attempt may be charged for.
 */
#pragma once

#include "simulator/world.h"

/* The lane is read from this cursor on. */
void checks_own(struct world *world, int relay, const struct cursor *cursor);
void checks_page(struct world *world, int relay, const struct page *page);
void checks_parked(struct world *world, int relay, const struct parked_batch *batch);
void checks_taken(struct world *world, int relay); /* one of the two */

void checks_start(struct world *world, int relay, const struct delivery *delivery);

struct finish_view {
        bool was_owned;
        enum breaker_state breaker;
        bool was_suspicion;
        bool others_work;
        struct lane_result result;
};
void checks_before_finish(
    struct world *world, int relay, size_t event, struct finish_view *out_view);
void checks_after_finish(struct world *world, int relay, size_t event,
    const struct outcome *outcome, const struct finish_view *view);

void checks_settle(struct world *world, int relay, const struct settlement *settlement);
void checks_settled(struct world *world, int relay, const struct sim_session *session);

/* It stops, with nothing left to do. */
void checks_stopped(struct world *world, int relay);

/* At the destination, before it counts. */
void checks_arrival(struct world *world, const struct sim_attempt *attempt);

/* It was calm for long: only what fails for ever, and what has to wait for that, is left. */
void checks_calm(struct world *world);

/* Everything is at rest. */
void checks_end(struct world *world);
