/* The steps that befall brokers: from STEP_NATS_KILL to STEP_BROKER_LINK. */
#pragma once

#include "chaos/faults.h"

/* False if the broker is not there, or starts just now. *incident as in step_begin(). */
bool broker_step_begin(struct faults *faults, const struct chaos_step *step, size_t *incident);
void broker_step_end(struct faults *faults, const struct chaos_step *step);

/* What is to be done when the cause of one was mended. To be called often. */
void broker_steps_see_to(struct faults *faults);

/* After its end: a server that was killed takes a while to answer. */
bool broker_step_is_over(struct faults *faults, const struct chaos_step *step);
