/*
 * All dispatchers there are: those that serve, those that make way, and those that
 * are to take their places. A sink has one that serves, or one that makes way
 * and perhaps one that waits for that; so none of its events is ever carried by two.
 */
#pragma once

#include "config/config.h"
#include "delivery/dispatcher.h"
#include "outbox/outbox.h"

#include <stdbool.h>
#include <uv.h>

struct sink_set;
struct telemetry;

struct sink_set_events {
        void (*on_dirty)(void *owner); /* call sink_set_serve() before the loop waits */
        /* As dispatcher_events. */
        void (*on_standby)(void *owner);
        bool (*on_login_refused)(void *owner, const char *sink);
        void (*on_refused)(void *owner, const char *sink, const char *reason);
        void (*on_recovered)(void *owner, const char *sink);
        void (*on_empty)(void *owner); /* the last dispatcher is gone */
};

struct sink_set *sink_set_create(uv_loop_t *loop, struct outbox *outbox,
    struct telemetry *telemetry, const struct sink_set_events *events, void *owner);
void sink_set_destroy(struct sink_set *sink_set); /* it is empty; NULL is allowed */

/* Opens the sink. Its dispatcher waits until whoever serves a sink of this name is out of the way. False and
 * *error if it cannot be opened. The settings are borrowed for the life of the dispatcher. */
bool sink_set_add(struct sink_set *sink_set, const struct sink_config *config,
    const struct relay_config *relay, struct error *error);

/* Closes those that were added and have not begun to serve. */
void sink_set_discard_waiting(struct sink_set *sink_set);

/* The one of this name that serves finishes what is in flight, settles, gives its lanes back and ends.
 * NULL: all of them. */
void sink_set_retire(struct sink_set *sink_set, const char *name);

/* The one of this name goes on with settings that mean the same. */
void sink_set_configure(struct sink_set *sink_set, const char *name,
    const struct sink_config *config, const struct relay_config *relay);

/* While held, nobody begins to serve. */
void sink_set_hold(struct sink_set *sink_set, bool is_held);
bool sink_set_is_held(const struct sink_set *sink_set);

/* Nobody makes way or is closing; and, besides, nobody waits. */
bool sink_set_has_made_way(const struct sink_set *sink_set);
bool sink_set_is_settled(const struct sink_set *sink_set);

/* What the relay tells its dispatchers. */
void sink_set_session_up(struct sink_set *sink_set);
void sink_set_session_down(struct sink_set *sink_set);
void sink_set_take_pauses(struct sink_set *sink_set, const struct pause_list *pauses);
void sink_set_ring(struct sink_set *sink_set);
void sink_set_control(struct sink_set *sink_set);
void sink_set_retry_logins(struct sink_set *sink_set);
void sink_set_tell_refused(struct sink_set *sink_set, const char *name);
bool sink_set_is_any_owned(const struct sink_set *sink_set);
void sink_set_show(const struct sink_set *sink_set, int64_t now_us); /* where people look */
bool sink_set_is_caught_up(const struct sink_set *sink_set);

/* The end of a turn of the loop. */
void sink_set_serve(struct sink_set *sink_set);

/* The relay ends: all take on nothing new; hurry those that make way; are all at rest? Then the outbox is
 * closed, and all of them are. */
void sink_set_drain(struct sink_set *sink_set);
void sink_set_hurry(struct sink_set *sink_set);
bool sink_set_is_at_rest(const struct sink_set *sink_set);
void sink_set_close(struct sink_set *sink_set);
bool sink_set_is_empty(const struct sink_set *sink_set);
