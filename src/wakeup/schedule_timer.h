/*
 * Makes the outbox publish recurring events when they are due. Every relay has
 * one, also a relay that owns no lane: the first to ask publishes a tick, and the
 * database keeps the others from doing so, too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct outbox;
struct schedule_timer;

struct schedule_timer *schedule_timer_create(uv_loop_t *loop, struct outbox *outbox);
void schedule_timer_destroy(struct schedule_timer *schedule_timer); /* NULL is allowed */

/* The session can be used, or cannot any more. */
void schedule_timer_session_up(struct schedule_timer *schedule_timer);
void schedule_timer_session_down(struct schedule_timer *schedule_timer);

/* Some schedule was changed, or may have been; or the server's clock was. */
void schedule_timer_look(struct schedule_timer *schedule_timer);

/* outbox_events::on_tick. */
void schedule_timer_answer(struct schedule_timer *schedule_timer, int64_t next_ms);

/* For good. An answer may still come. */
void schedule_timer_stop(struct schedule_timer *schedule_timer);

/* Since the session is up, all that was due has been published. */
bool schedule_timer_is_caught_up(const struct schedule_timer *schedule_timer);
