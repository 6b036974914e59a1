/* The parts of a lane, among themselves: lane.c, lane_read.c, lane_deliver.c, lane_decide.c and
 * lane_settle.c. */
#pragma once

#include "lane/lane.h"

/* lane.c */
bool lane_is_idle(const struct lane *lane); /* not ours, draining or paused: nothing new */
void lane_leave(struct lane *lane); /* LEAVING: forgets everything once nothing is in flight */

/* lane_read.c: could parked ones be claimed if some were due? */
bool lane_may_claim(const struct lane *lane);

/* lane_decide.c: what becomes of a delivery. `words` may be NULL: nothing has failed. Whoever is dead
 * stays in the chain of its key until that is settled. */
void lane_decide_delivered(struct lane *lane, struct delivery *delivery, int64_t now_ms);
void lane_decide_dead(struct lane *lane, struct delivery *delivery, enum dead_reason reason,
    const char *words, int64_t now_ms);
void lane_decide_delayed(struct lane *lane, struct delivery *delivery, int64_t now_ms);
/* To be tried at due_ms if it is the first of its key then, else behind those before it. Those
 * behind it in memory go the same way. */
void lane_decide_parked(struct lane *lane, struct delivery *delivery, int64_t due_ms,
    const char *words, int64_t now_ms);
/* As window_verdict_fn: its verdict may be written. */
void lane_queue_verdict(void *lane, struct delivery *delivery);
/* Its row moves behind all others of its key. */
void lane_decide_last(struct lane *lane, struct delivery *delivery, int64_t now_ms);

/* It has a row and is neither in flight nor decided: it is forgotten, and read again. */
void lane_unload(struct lane *lane, struct delivery *delivery, int64_t now_ms);

/* Parks what is slow and holds up what is done; -1, or when to ask again. */
void lane_park_slow(struct lane *lane, int64_t now_ms);
int64_t lane_slow_due(const struct lane *lane);

/* Parks what stands before something that is done, so that the cursor can pass it. */
void lane_park_holes(struct lane *lane, int64_t now_ms);

/* lane_settle.c */
void lane_note_moved(struct lane *lane, int64_t now_ms);
void lane_note_moved_idly(struct lane *lane, int64_t now_ms);
void lane_note_parked_due(struct lane *lane, int64_t due_ms);
bool lane_is_pressing(const struct lane *lane);

/* The delivery's batch may go; the delivery is gone when this returns. */
void lane_let_go(struct lane *lane, struct delivery *delivery);
void lane_note_claimed(struct lane *lane, struct delivery *delivery);
