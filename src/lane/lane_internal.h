/* What the files of a lane offer each other. Each calls only those that come before it here. */
#pragma once

#include "lane/lane.h"

/* Not owned, draining or paused: nothing new is read or started. */
static inline bool lane_is_idle(const struct lane *lane)
{
        return lane->state != LANE_OWNED || lane->is_draining || lane->is_paused;
}

/* lane_decide.c: what becomes of a delivery. `words` say what has failed; NULL: nothing. A dead
 * delivery stays in the chain of its key until its dead letter is written. */
void lane_decide_delivered(struct lane *lane, struct delivery *delivery, int64_t now_ms);
void lane_decide_dead(struct lane *lane, struct delivery *delivery, enum dead_reason reason,
    const char *words, int64_t now_ms);
void lane_decide_delayed(struct lane *lane, struct delivery *delivery, int64_t now_ms);

/* It is to be tried at due_ms if it is the first of its key then, else after those before it. The
 * deliveries behind it in memory go the same way. */
void lane_decide_parked(struct lane *lane, struct delivery *delivery, int64_t due_ms,
    const char *words, int64_t now_ms);

/* Its row moves behind all others of its key. */
void lane_decide_last(struct lane *lane, struct delivery *delivery, int64_t now_ms);

/* Its batch may go. The delivery may be gone when this returns. */
void lane_let_go(struct lane *lane, struct delivery *delivery);

/* It has a row and is neither in flight nor decided: it is forgotten, and read again. */
void lane_unload(struct lane *lane, struct delivery *delivery, int64_t now_ms);

/* When settles may begin: at_ms or soon after, with those of other lanes. */
int64_t lane_next_step(const struct lane *lane, int64_t at_ms);

/* Something is to be settled then, or sooner. */
void lane_settle_by(struct lane *lane, int64_t due_ms);

/* Parks what is slow and holds up what is done. When to ask again, or -1. */
void lane_park_slow(struct lane *lane, int64_t now_ms);
int64_t lane_slow_due(const struct lane *lane);

/* Parks what stands before something that is done, so that the cursor can pass it. */
void lane_park_holes(struct lane *lane, int64_t now_ms);

/* lane_read.c: could rows be read back if some were due? And is the window so full, or anything in
 * such a hurry, that a settle is to come at once? */
bool lane_may_claim(const struct lane *lane);
bool lane_is_pressing(const struct lane *lane);

/* There is more to read, and no room for it. */
bool lane_is_full(const struct lane *lane, int64_t now_ms);

/* lane_deliver.c: a delivery may start as far as the breaker and the rate let it. */
bool lane_may_start(const struct lane *lane);

/* When an open breaker lets the next one start; -1: it is not open. */
int64_t lane_probe_due(const struct lane *lane);

/* lane_finish() of a lane that is owned. */
struct lane_result lane_judge(struct lane *lane, struct delivery *delivery,
    const struct outcome *outcome, int64_t now_ms, uint32_t jitter);
