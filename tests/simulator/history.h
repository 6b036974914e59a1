/* One whole history: rough weather of some kind, then calm, in which everything must come to
 * rest. */
#pragma once

#include "simulator/world.h"

/* False if a promise was broken: world->failed_check and world->failure say which and how. */
bool history_run(struct world *world, uint64_t seed, bool is_tracing);
