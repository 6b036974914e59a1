/* What arrived in a world, and what became a dead letter there, against what its writers
 * committed. */
#pragma once

#include "chaos/faults.h"

/* So far. */
void judge_world(
    struct world *world, const struct faults *faults, struct chaos_verdict out_verdicts[N_SINKS]);
