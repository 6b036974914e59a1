/*
 * A sink with many receivers: one runner for each row of courier.endpoint, made,
 * changed and dropped while the relay runs. They share the reading of the log
 * (page_cache.h) and the writing of their progress.
 */
#pragma once

#include "delivery/dispatcher_internal.h"
#include "delivery/receiver_health.h"

struct fanout;

struct fanout *fanout_create(struct dispatcher *dispatcher);
void fanout_destroy(struct fanout *fanout); /* NULL is allowed */

/* The sink's lanes are ours, or not any more. */
void fanout_owned(struct fanout *fanout);
void fanout_session_down(struct fanout *fanout);

/* There may be something new in the outbox; somebody may have changed what is parked, or who the
 * receivers are. */
void fanout_ring(struct fanout *fanout);
void fanout_control(struct fanout *fanout);

/* After the runners have been pumped: what they asked for together. */
void fanout_serve(struct fanout *fanout);

/* What a runner wants from all of them. */
struct page_cache *fanout_page_cache(struct fanout *fanout);
int64_t fanout_disable_after_ms(const struct fanout *fanout);
void fanout_note_settling(struct fanout *fanout); /* it settles in this pump */
void fanout_drop_idle_runner(struct fanout *fanout, struct runner *runner);
void fanout_note_health(
    struct fanout *fanout, struct runner *runner, enum health_news news, const char *reason);

/* For a reason of our own; as HEALTH_HOPELESS. */
void fanout_give_up(struct fanout *fanout, struct runner *runner, const char *reason);

/* It was not even possible to try. */
void fanout_disable(struct fanout *fanout, struct runner *runner, const char *reason);

/* Nothing that is answered is asked of the database but what the lanes know of, and progress. */
bool fanout_is_idle(const struct fanout *fanout);

bool fanout_is_caught_up(const struct fanout *fanout);
