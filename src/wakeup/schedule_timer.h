/*
 * Has the outbox publish recurring events when they are due. Every relay has
 * one, also one that owns no lane: whoever asks first publishes a tick, and
 * the database sees to it that nobody else does.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct outbox;
struct ticker;

struct ticker *ticker_create(uv_loop_t *loop, struct outbox *outbox);
void ticker_destroy(struct ticker *ticker); /* NULL is allowed */

/* The session can be used, or cannot any more. */
void ticker_session_up(struct ticker *ticker);
void ticker_session_down(struct ticker *ticker);

/* Some schedule was changed, or may have been; or the server's clock was. */
void ticker_look(struct ticker *ticker);

/* outbox_events::on_tick. */
void ticker_answer(struct ticker *ticker, int64_t next_ms);

/* For good. An answer may still come. */
void ticker_stop(struct ticker *ticker);

/* Since the session is up, all that was due has been published. */
bool ticker_is_caught_up(const struct ticker *ticker);
