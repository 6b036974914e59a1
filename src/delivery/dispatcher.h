/*
 * Carries events from the outbox to one sink, by one route, or by one for each
 * of its receivers. Owns the sink and the right to deliver to it.
 */
#pragma once

#include "config/config.h"
#include "outbox/outbox.h"

#include <stdbool.h>
#include <uv.h>

struct carrier;
struct telemetry;

struct carrier_events {
        /* The carrier has something to do: call carrier_pump() before the loop waits. */
        void (*on_dirty)(void *owner);
        /* Another relay owns the lane; it is tried again later. */
        void (*on_standby)(void *owner);
        /* The destination refuses us. True: the files are read for other credentials. Then somebody who has
         * them takes the sink over, or carrier_tell_refused() is called. */
        bool (*on_login_refused)(void *owner, const char *sink);
        /* The destination refuses us until somebody does something; or it does not any more. */
        void (*on_refused)(void *owner, const char *sink, const char *reason);
        void (*on_recovered)(void *owner, const char *sink);
        void (*on_closed)(void *owner);
};

/* NULL and *error if the sink cannot be opened. */
struct carrier *carrier_create(uv_loop_t *loop, const struct sink_config *config,
    const struct relay_config *relay, struct outbox *outbox, struct telemetry *telemetry,
    const struct carrier_events *events, void *owner, struct error *error);

/* Writes its gauges and its state where people look. */
void carrier_show(const struct carrier *carrier, int64_t now_us);

/* The session can be used, or cannot any more. */
void carrier_session_up(struct carrier *carrier);
void carrier_session_down(struct carrier *carrier);

/* Some lane of it is ours. */
bool carrier_is_owned(const struct carrier *carrier);

/* There may be something new in the outbox. */
void carrier_ring(struct carrier *carrier);

/* Somebody may have changed what is parked, or who the receivers are. */
void carrier_control(struct carrier *carrier);

/* If the destination refuses us: are there other credentials by now? And there are none. */
void carrier_retry_login(struct carrier *carrier);
void carrier_tell_refused(struct carrier *carrier);

/* All pauses there are, of any sink. */
void carrier_take_pauses(struct carrier *carrier, const struct pause_list *pauses);

void carrier_pump(struct carrier *carrier);

/* Takes on nothing new. */
void carrier_drain(struct carrier *carrier);
void carrier_cancel(struct carrier *carrier); /* hurries what is in flight */
bool carrier_is_at_rest(const struct carrier *carrier);
bool carrier_is_caught_up(const struct carrier *carrier);

/* It was drained, and is at rest; and nothing is asked of the database that would be answered, except
 * perhaps progress that was written. */
bool carrier_is_idle(const struct carrier *carrier);

/* Gives the sink's lanes back, for an idle one: carrier_is_owned() becomes false, at the latest with the
 * session, and then no answer is on its way any more. */
void carrier_release(struct carrier *carrier);

/* The sink goes on, but its settings, which are the same, have moved. */
void carrier_configure(
    struct carrier *carrier, const struct sink_config *config, const struct relay_config *relay);

/* Consumes the carrier, which is at rest; on_closed comes when its sink has closed. No answer may be on
 * its way: it was released, or never owned anything, or the outbox's session is closed. */
void carrier_close(struct carrier *carrier);
