/*
 * What the log says of deliveries and of their destinations. A delivery that
 * works is told at level debug; whatever needs a look is a warning, once.
 */
#pragma once

#include "outbox/settlement.h"
#include "pgcourier/outcome.h"
#include "pgcourier/sink.h"

#include <stdbool.h>
#include <stdint.h>

void report_delivered(const char *sink, const struct attempt *attempt);

/* It failed, and is tried again after so long. */
void report_parked(const char *sink, const struct attempt *attempt, const struct outcome *outcome,
    int64_t retry_ms);

/* `verdict` is VERDICT_DEAD. */
void report_dead_letter(const char *sink, const struct verdict *verdict);

/* An outage is told when it begins and when it ends, not at every probe. */
void report_breaker(
    const char *sink, bool was_closed, bool is_closed, const struct outcome *outcome);
