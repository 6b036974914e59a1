/* How each kind of step is done to the world, and undone. */
#pragma once

#include "chaos/faults.h"

/* False if it cannot be done at the moment. *incident is that which lasts until step_end(), and
 * stays as it is if there is none. */
bool step_begin(struct faults *faults, const struct chaos_step *step, size_t *incident);
void step_end(struct faults *faults, const struct chaos_step *step);
