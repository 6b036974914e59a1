/* The parts of a dispatcher, among themselves: dispatcher.c, dispatcher_status.c, runner.c and fanout.c. */
#pragma once

#include "base/list.h"
#include "delivery/dispatcher.h"
#include "outbox/filter_queue.h"
#include "outbox/routing.h"
#include "pgcourier/outcome.h"

struct fanout;
struct lane;
struct runner;
struct sink_telemetry;

/* relay owns dispatchers; a dispatcher owns its sink and its runners; a runner its lane and its lane's
 * store; the lane owns pages, a page its events; a delivery borrows its event, and its attempt is
 * lent to the sink. */
struct dispatcher {
        uv_loop_t *loop;                  /* borrowed */
        struct outbox *outbox;            /* borrowed */
        const struct sink_config *config; /* borrowed */
        struct dispatcher_events events;
        void *owner; /* borrowed */

        struct routing routing; /* what may go there at all */
        const struct routing *only_routing;
        struct filter *filter;       /* owned; of the sink; NULL: it has none */
        char filter_reason[256];     /* why it was given up; else empty */
        struct sink *sink;           /* owned */
        struct list runners;         /* runner::link */
        struct list dirty;           /* runner::dirty_link: those with something to do */
        struct list starved;         /* runner::starved_link: those that wait for a free attempt */
        struct fanout *fanout;       /* owned; NULL: there is one runner */
        struct sink_telemetry *seen; /* one reference */

        char *settings;    /* owned: sink_settings() */
        char *differences; /* owned: of what another relay noted of the sink; NULL: none */
        struct lane_store
            *owner_lane; /* whoever has this lane's lock has all of the sink's lanes */
        int64_t standby_ms;
        struct timer *standby; /* the next try for a lock that another relay has */
        bool is_session_up;
        bool is_claiming;
        bool is_owned;
        bool is_standby; /* so that it is logged once */
        bool are_differences_news;
        bool is_draining;

        /* Rows of courier.pause, as far as we know. */
        bool is_paused_by_operator;
        char pause_reason[256]; /* the operator's, if there is one */
        bool is_paused_by_relay;

        int64_t login_retried_ms;
        bool is_login_retried; /* nobody knows yet whether there are other credentials; */
        struct outcome
            withheld;    /* until then this is not told; kind OUTCOME_SINK_DOWN: there is one */
        bool was_closed; /* the breaker, before that */
};

/* Then nothing is read for the sink until somebody resumes it, or changes its configuration. */
static inline bool dispatcher_is_filter_given_up(const struct dispatcher *dispatcher)
{
        return dispatcher->filter_reason[0] != '\0';
}

/* The owner_lane's answers; the first one comes before each of the next two. */
void dispatcher_note_settings(struct dispatcher *dispatcher, const char *theirs);
void dispatcher_note_owned(struct dispatcher *dispatcher);
void dispatcher_note_owned_elsewhere(struct dispatcher *dispatcher);
void dispatcher_note_released(struct dispatcher *dispatcher);

/* The sink's only runner: its destination refuses us until somebody does something, or takes events
 * again. */
void dispatcher_show_pause(
    struct dispatcher *dispatcher, const struct lane *lane, const char *reason);

/* The destination refuses us. True: nothing is to be told now; see dispatcher_events. */
bool dispatcher_withhold(
    struct dispatcher *dispatcher, const struct outcome *outcome, bool was_closed);

int64_t dispatcher_now_ms(void);
