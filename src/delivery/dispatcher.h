/*
 * Dispatches events from the outbox to one sink, by one runner, or by one for each
 * of its receivers. Owns the sink and the right to deliver to it.
 */
#pragma once

#include "config/config.h"
#include "outbox/outbox.h"

#include <stdbool.h>
#include <uv.h>

struct dispatcher;
struct telemetry;

struct dispatcher_events {
        /* The dispatcher has something to do: call dispatcher_pump() before the loop waits. */
        void (*on_dirty)(void *owner);
        /* Another relay owns the lane; it is tried again later. */
        void (*on_standby)(void *owner);
        /* The destination refuses us. True: the files are read for other credentials. Then somebody who has
         * them takes the sink over, or dispatcher_tell_refused() is called. */
        bool (*on_login_refused)(void *owner, const char *sink);
        /* The destination refuses us until somebody does something; or it does not any more. */
        void (*on_refused)(void *owner, const char *sink, const char *reason);
        void (*on_recovered)(void *owner, const char *sink);
        void (*on_closed)(void *owner);
};

/* NULL and *error if the sink cannot be opened. */
struct dispatcher *dispatcher_create(uv_loop_t *loop, const struct sink_config *config,
    const struct relay_config *relay, struct outbox *outbox, struct telemetry *telemetry,
    const struct dispatcher_events *events, void *owner, struct error *error);

/* Writes its gauges and its state where people look. */
void dispatcher_show(const struct dispatcher *dispatcher, int64_t now_us);

/* The session can be used, or cannot any more. */
void dispatcher_session_up(struct dispatcher *dispatcher);
void dispatcher_session_down(struct dispatcher *dispatcher);

/* Some lane of it is ours. */
bool dispatcher_is_owned(const struct dispatcher *dispatcher);

/* There may be something new in the outbox. */
void dispatcher_ring(struct dispatcher *dispatcher);

/* Somebody may have changed what is parked, or who the receivers are. */
void dispatcher_control(struct dispatcher *dispatcher);

/* If the destination refuses us: are there other credentials by now? And there are none. */
void dispatcher_retry_login(struct dispatcher *dispatcher);
void dispatcher_tell_refused(struct dispatcher *dispatcher);

/* All pauses there are, of any sink. */
void dispatcher_take_pauses(struct dispatcher *dispatcher, const struct pause_list *pauses);

void dispatcher_pump(struct dispatcher *dispatcher);

/* Takes on nothing new. */
void dispatcher_drain(struct dispatcher *dispatcher);
void dispatcher_cancel(struct dispatcher *dispatcher); /* hurries what is in flight */
bool dispatcher_is_at_rest(const struct dispatcher *dispatcher);
bool dispatcher_is_caught_up(const struct dispatcher *dispatcher);

/* It was drained, and is at rest; and nothing is asked of the database that would be answered, except
 * perhaps progress that was written. */
bool dispatcher_is_idle(const struct dispatcher *dispatcher);

/* Gives the sink's lanes back, for an idle one: dispatcher_is_owned() becomes false, at the latest with the
 * session, and then no answer is on its way any more. */
void dispatcher_release(struct dispatcher *dispatcher);

/* The sink goes on, but its settings, which are the same, have moved. */
void dispatcher_configure(struct dispatcher *dispatcher, const struct sink_config *config,
    const struct relay_config *relay);

/* Consumes the dispatcher, which is at rest; on_closed comes when its sink has closed. No answer may be on
 * its way: it was released, or never owned anything, or the outbox's session is closed. */
void dispatcher_close(struct dispatcher *dispatcher);
