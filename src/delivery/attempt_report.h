/*
 * Reports attempts to the log, to the telemetry and to a sink that remembers what
 * it has delivered. A delivery that works is logged at level debug; what needs a
 * look is a warning, once.
 */
#pragma once

#include "outbox/settlement.h"
#include "pgcourier/event.h"
#include "pgcourier/outcome.h"
#include "pgcourier/sink.h"
#include "telemetry/telemetry.h"

#include <stdbool.h>
#include <stdint.h>

struct delivery;
struct lane_result;
struct list;
struct runner;

void attempt_report_delivered(struct runner *runner, const struct delivery *delivery,
    const struct outcome *outcome, int64_t now_us);

/*
 * An attempt that failed is reported when the lane has decided about it, and then
 * its event may be gone: attempt_keep() copies what is shown.
 */
struct attempt_kept {
        struct attempt_seen seen;
        struct event event;
        char topic[160]; /* more than is shown */
        char key[160];
        char target[128]; /* "" if all events go to one */
};
void attempt_keep(struct attempt_kept *kept, const struct runner *runner,
    const struct delivery *delivery, int64_t now_us);
void attempt_report_failed(struct runner *runner, struct attempt_kept *kept,
    const struct outcome *outcome, const struct lane_result *result);

/* It is parked, and tried again after so long. */
void attempt_report_parked(const struct runner *runner, const struct attempt *attempt,
    const struct outcome *outcome, int64_t retry_ms);

/* `verdict` is VERDICT_DEAD. */
void attempt_report_dead(struct runner *runner, const struct verdict *verdict, int64_t now_us);

/* An outage is logged at level warning when it begins and info when it ends, not at each probe.
 * `kept`: NULL if it is not known any more who was answered so. */
void attempt_report_breaker(
    struct runner *runner, const struct attempt_kept *kept, const struct outcome *outcome);

/*
 * What was delivered is reported once more when it is settled for good: to the
 * telemetry, and to a sink with `remembers`, which may then forget it. What came
 * with the stream is settled when the cursor has passed it; what was parked, when
 * its verdict is written.
 */
void attempt_note_settling(struct runner *runner, const struct list *verdicts);
void attempt_report_settled(struct runner *runner, int64_t now_us);
void attempt_forget_delivered(struct runner *runner); /* they come again */
