/* The table at the end of a chaos run. */
#pragma once

#include "chaos/faults.h"
#include "chaos/ticks.h"

void report_print(const struct faults *faults, const struct chaos_verdict verdicts[N_SINKS],
    const struct ticks *ticks, double minutes, double settled_after_s);
