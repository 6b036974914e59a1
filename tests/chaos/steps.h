/* How each kind of step is done to the world, and undone. */
#pragma once

#include "chaos/faults.h"

/* False if it cannot be done at the moment. *incident is that which lasts until step_end(), and
 * stays as it is if there is none. */
bool step_begin(struct faults *faults, const struct chaos_step *step, size_t *incident);
void step_end(struct faults *faults, const struct chaos_step *step);

/* After its end: what was done may take a while to take its course. */
bool step_is_over(struct faults *faults, const struct chaos_step *step);

/* A fault of the network, as the step's variant says; it is counted. A connection that is to be cut
 * lives for `few_bytes` at least. */
struct fault step_choose_fault(
    struct faults *faults, const struct chaos_step *step, unsigned few_bytes);
