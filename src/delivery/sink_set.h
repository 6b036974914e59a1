/*
 * The dispatchers of all sinks: those that serve, those that make way, and those
 * that wait to take their places. A sink has one that serves, or one that makes
 * way and perhaps one that waits for that; so no event is ever carried by two.
 */
#pragma once

#include "config/config.h"
#include "delivery/dispatcher.h"
#include "delivery/work.h"
#include "outbox/outbox.h"

#include <stdbool.h>
#include <uv.h>

struct sink_set;
struct telemetry;

struct sink_set_events {
        /* Another relay owns the lanes of a sink; they are tried again later. */
        void (*on_standby)(void *owner);
        /* A destination refuses our login. True: the files are being read for other credentials.
         * Then another dispatcher takes over the sink, or dispatcher_tell_refused() is called. */
        bool (*on_login_refused)(void *owner, const char *sink);
        /* A destination refuses us until an operator acts; or it does not any more. */
        void (*on_refused)(void *owner, const char *sink, const char *reason);
        void (*on_recovered)(void *owner, const char *sink);
        void (*on_empty)(void *owner); /* the last dispatcher is gone */
};

/* What the dispatchers have to do goes into `work`, which is borrowed as the others. */
struct sink_set *sink_set_create(uv_loop_t *loop, struct outbox *outbox,
    struct telemetry *telemetry, struct work *work, const struct sink_set_events *events,
    void *owner);
void sink_set_destroy(struct sink_set *sink_set); /* it is empty; NULL is allowed */

/* Opens the sink. Its dispatcher waits until an older one of the same name is out of the way. False
 * and *error if the sink cannot be opened. The settings are borrowed for the life of the
 * dispatcher. */
bool sink_set_add(struct sink_set *sink_set, const struct sink_config *config,
    const struct relay_config *relay, struct error *error);

/* The dispatcher that serves the sink of this name, or NULL. */
struct dispatcher *sink_set_find(const struct sink_set *sink_set, const char *name);

/* Every dispatcher; the body may not end one. */
struct dispatcher *sink_set_next(const struct sink_set *sink_set, const struct dispatcher *after);
#define sink_set_for_each(dispatcher, sink_set)                                                    \
        for (struct dispatcher *dispatcher = sink_set_next(sink_set, NULL); dispatcher != NULL;    \
             dispatcher = sink_set_next(sink_set, dispatcher))

/* Closes those that were added and have not begun to serve. */
void sink_set_discard_waiting(struct sink_set *sink_set);

/* While held, no dispatcher begins to serve. */
void sink_set_hold(struct sink_set *sink_set, bool is_held);
bool sink_set_is_held(const struct sink_set *sink_set);

/* No dispatcher makes way or is closing; and, besides, none waits. */
bool sink_set_has_made_way(const struct sink_set *sink_set);
bool sink_set_is_settled(const struct sink_set *sink_set);

/* The session can be used, or is lost. */
void sink_set_session_up(struct sink_set *sink_set);
void sink_set_session_down(struct sink_set *sink_set);

/* The end of a turn of the loop: asks the runners of the work list what they want, and does it. */
void sink_set_serve(struct sink_set *sink_set);

/* The relay ends: retires all dispatchers. When all are at rest, and the outbox is closed, closes
 * them; on_empty follows, perhaps inside the call. */
void sink_set_drain(struct sink_set *sink_set);
void sink_set_close(struct sink_set *sink_set);
