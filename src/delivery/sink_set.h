/*
 * All carriers there are: those that serve, those that make way, and those that
 * are to take their places. A sink has one that serves, or one that makes way
 * and perhaps one that waits for that; so none of its events is ever carried by two.
 */
#pragma once

#include "config/config.h"
#include "delivery/dispatcher.h"
#include "outbox/outbox.h"

#include <stdbool.h>
#include <uv.h>

struct fleet;
struct telemetry;

struct fleet_events {
        void (*on_dirty)(void *owner); /* call fleet_serve() before the loop waits */
        /* As carrier_events. */
        void (*on_standby)(void *owner);
        bool (*on_login_refused)(void *owner, const char *sink);
        void (*on_refused)(void *owner, const char *sink, const char *reason);
        void (*on_recovered)(void *owner, const char *sink);
        void (*on_empty)(void *owner); /* the last carrier is gone */
};

struct fleet *fleet_create(uv_loop_t *loop, struct outbox *outbox, struct telemetry *telemetry,
    const struct fleet_events *events, void *owner);
void fleet_destroy(struct fleet *fleet); /* it is empty; NULL is allowed */

/* Opens the sink. Its carrier waits until whoever serves a sink of this name is out of the way. False and
 * *error if it cannot be opened. The settings are borrowed for the life of the carrier. */
bool fleet_add(struct fleet *fleet, const struct sink_config *config,
    const struct relay_config *relay, struct error *error);

/* Closes those that were added and have not begun to serve. */
void fleet_discard_waiting(struct fleet *fleet);

/* The one of this name that serves finishes what is in flight, settles, gives its lanes back and ends.
 * NULL: all of them. */
void fleet_retire(struct fleet *fleet, const char *name);

/* The one of this name goes on with settings that mean the same. */
void fleet_configure(struct fleet *fleet, const char *name, const struct sink_config *config,
    const struct relay_config *relay);

/* While held, nobody begins to serve. */
void fleet_hold(struct fleet *fleet, bool is_held);
bool fleet_is_held(const struct fleet *fleet);

/* Nobody makes way or is closing; and, besides, nobody waits. */
bool fleet_has_made_way(const struct fleet *fleet);
bool fleet_is_settled(const struct fleet *fleet);

/* What the relay tells its carriers. */
void fleet_session_up(struct fleet *fleet);
void fleet_session_down(struct fleet *fleet);
void fleet_take_pauses(struct fleet *fleet, const struct pause_list *pauses);
void fleet_ring(struct fleet *fleet);
void fleet_control(struct fleet *fleet);
void fleet_retry_logins(struct fleet *fleet);
void fleet_tell_refused(struct fleet *fleet, const char *name);
bool fleet_is_any_owned(const struct fleet *fleet);
void fleet_show(const struct fleet *fleet, int64_t now_us); /* where people look */
bool fleet_is_caught_up(const struct fleet *fleet);

/* The end of a turn of the loop. */
void fleet_serve(struct fleet *fleet);

/* The relay ends: all take on nothing new; hurry those that make way; are all at rest? Then the outbox is
 * closed, and all of them are. */
void fleet_drain(struct fleet *fleet);
void fleet_hurry(struct fleet *fleet);
bool fleet_is_at_rest(const struct fleet *fleet);
void fleet_close(struct fleet *fleet);
bool fleet_is_empty(const struct fleet *fleet);
