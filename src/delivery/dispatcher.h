/*
 * Dispatches events from the outbox to one sink, by one runner for each of its shards, or for each
 * of its receivers. Owns the sink.
 */
#pragma once

#include "config/config.h"
#include "outbox/pause.h"

#include <stdbool.h>
#include <stdint.h>

struct dispatcher;

/* There may be something new in the outbox. */
void dispatcher_ring(struct dispatcher *dispatcher);

/* An operator, or another relay, may have changed what is parked, or the receivers. */
void dispatcher_control(struct dispatcher *dispatcher);

/* All rows of courier.pause, of any sink. */
void dispatcher_take_pauses(struct dispatcher *dispatcher, const struct pause_list *pauses);

/* The sink of this name is to be divided anew: its shards are given back. */
void dispatcher_note_division(struct dispatcher *dispatcher, const char *sink);

/* The session is lost: what is in flight is cancelled, because it could not be settled any more. */
void dispatcher_session_down(struct dispatcher *dispatcher);

/* If the destination refuses us: are there other credentials by now? */
void dispatcher_retry_login(struct dispatcher *dispatcher);

/* Writes its gauges and its state into the telemetry. */
void dispatcher_show(const struct dispatcher *dispatcher, int64_t now_us);

/* True while some shard of it is ours, and it was not retired. */
bool dispatcher_is_owned(const struct dispatcher *dispatcher);

/* All that was in the outbox is delivered and settled. */
bool dispatcher_is_caught_up(const struct dispatcher *dispatcher);

/* Retired, and nothing is in flight or to be settled; or it waits or closes. */
bool dispatcher_is_at_rest(const struct dispatcher *dispatcher);

/* Of one that drains: cancels what is in flight. */
void dispatcher_hurry(struct dispatcher *dispatcher);

/* In these NULL, as sink_set_find() may return it, is allowed. */

/* Starts nothing new; finishes what is in flight, settles, gives its lanes back and ends. */
void dispatcher_retire(struct dispatcher *dispatcher);

/* It goes on with settings that mean the same. They are borrowed. */
void dispatcher_configure(struct dispatcher *dispatcher, const struct sink_config *config,
    const struct relay_config *relay);

/* After sink_set_events::on_login_refused: there are no other credentials. */
void dispatcher_tell_refused(struct dispatcher *dispatcher);
