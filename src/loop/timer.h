/*
 * A one-shot timer on the loop's monotonic clock. Like a socket watch it frees
 * itself, so its owner may be destroyed right after timer_destroy().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct timer;

/* The timer is not armed any more and may be armed again or destroyed inside the call. */
typedef void timer_fn(void *owner);

struct timer *timer_create_on(uv_loop_t *loop, timer_fn *on_due, void *owner);

/* Arms it, or arms it anew. 0 means the next turn of the loop; never inside this call. */
void timer_arm(struct timer *timer, uint64_t delay_ms);

/* Likewise, for a deadline of what a peer has to say: once it is due, the sockets are looked at
 * before the callback comes. If it was this process that stood still, the words are there, and are
 * read by then. */
void timer_arm_behind_sockets(struct timer *timer, uint64_t delay_ms);

void timer_disarm(struct timer *timer);
bool timer_is_armed(const struct timer *timer);

/* NULL is allowed. No callback comes after this line. */
void timer_destroy(struct timer *timer);
