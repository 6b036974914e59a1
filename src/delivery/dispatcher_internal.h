/* A dispatcher from within: for the files of this folder. */
#pragma once

#include "base/clock.h"
#include "base/list.h"
#include "delivery/dispatcher.h"
#include "delivery/sink_set.h"
#include "delivery/starts.h"
#include "delivery/work.h"
#include "outbox/filter_queue.h"
#include "outbox/routing.h"
#include "pgcourier/outcome.h"

struct fanout;
struct runner;
struct sink_telemetry;

struct sink_set {
        uv_loop_t *loop; /* borrowed, as the next three */
        struct outbox *outbox;
        struct telemetry *telemetry;
        struct work *work;
        struct list dispatchers; /* dispatcher::link, in the order in which they were added */
        struct sink_set_events events;
        void *owner; /* borrowed */
        bool is_session_up;
        bool is_held;   /* no dispatcher begins */
        bool is_ending; /* drained dispatchers wait for sink_set_close() */
};

/*
 * The life of a dispatcher. enter() of dispatcher.c is the only function that
 * assigns its state.
 *
 *   WAITING -its place is free-> UNOWNED -session is up-> CLAIMING -granted-> OWNED
 *   CLAIMING -another relay has the lock-> STANDBY -timer-> CLAIMING
 *   UNOWNED, CLAIMING, STANDBY, OWNED -session lost-> UNOWNED
 *
 *   retired:    OWNED -> DRAINING    CLAIMING -> WITHDRAWING    UNOWNED, STANDBY -> FINISHING
 *   WITHDRAWING -granted-> DRAINING  -refused-> FINISHING
 *   DRAINING -nothing is under way-> RELEASING -unlocked-> FINISHING -nothing in flight-> CLOSING
 *   WITHDRAWING, DRAINING, RELEASING -session lost-> FINISHING
 *
 *   WAITING -discarded-> CLOSING -the sink has closed-> gone
 *   any -the relay ends, and the session is closed-> CLOSING
 *
 * RELEASING: the answer to the unlock is the last that the database owes the
 * dispatcher. Only then may its store go, and only then does the next dispatcher
 * of the same sink try for the same lock: a session may hold an advisory lock
 * twice, and would not notice that the first holder still writes.
 */
enum dispatcher_state {
        DISPATCHER_WAITING,     /* added; an older dispatcher of the same sink has not left yet */
        DISPATCHER_UNOWNED,     /* no session, or attempts from the last one are still in flight */
        DISPATCHER_CLAIMING,    /* the lock of the sink is asked for */
        DISPATCHER_STANDBY,     /* another relay has the lock; it is asked for again later */
        DISPATCHER_OWNED,       /* delivers */
        DISPATCHER_WITHDRAWING, /* retired, but the claim is not answered yet */
        DISPATCHER_DRAINING,    /* retired: finishes what is in flight, and settles it */
        DISPATCHER_RELEASING,   /* the unlock is not answered yet */
        DISPATCHER_FINISHING,   /* retired without a lock: what is in flight ends */
        DISPATCHER_CLOSING,     /* only its sink is left */
};

/* A login that the destination refused: see attempts.h. */
struct login {
        int64_t retried_ms;      /* 0: never */
        bool is_retried;         /* whether there are other credentials is not known yet; */
        struct outcome withheld; /* until then this is not reported; DELIVERED: nothing */
        bool was_closed;         /* the breaker, before that */
};

/* The set owns dispatchers; a dispatcher owns its sink and its runners; a runner its lane and its
 * lane's store; the lane owns pages, a page its events; a delivery borrows its event, and its
 * attempt is lent to the sink. */
struct dispatcher {
        struct sink_set *set;             /* borrowed */
        struct list link;                 /* sink_set::dispatchers */
        const struct sink_config *config; /* borrowed */
        char *name;                       /* owned; the sink's, which outlives the configuration */
        enum dispatcher_state state;
        bool knows_pauses; /* so that no sink that is paused starts */

        struct routing routing; /* what the sink takes */
        struct filter *filter;  /* owned; of the sink; NULL: it has none */
        struct sink *sink;      /* owned */
        struct list runners;    /* runner::link */
        struct starts starts;
        struct fanout *fanout;       /* owned; NULL: there is one runner */
        struct sink_telemetry *seen; /* one reference */
        struct login login;

        struct lane_store *owner_lane; /* its lock covers all lanes of the sink */
        struct timer *standby;         /* armed while STANDBY */
        int64_t standby_ms;
        bool is_owned_elsewhere; /* by the last answer; so that this is logged once */
        bool has_settled;        /* some lane, since the fan-out was served last */
        char *settings;          /* owned: sink_settings() */
        char *topics;            /* owned: sink_patterns() */
        char *types;             /* owned, likewise */
        char *differences;       /* owned: of what another relay noted of the sink; NULL: none */
        bool are_differences_news;

        /* Rows of courier.pause, as far as is known. */
        bool is_paused_by_operator;
        char pause_reason[256]; /* the operator's; may be empty */
        bool is_paused_by_relay;
        char filter_reason[256]; /* why the filter was given up; else empty */
};

/* It has taken its place, and was not retired. */
static inline bool dispatcher_is_serving(const struct dispatcher *dispatcher)
{
        return dispatcher->state >= DISPATCHER_UNOWNED && dispatcher->state <= DISPATCHER_OWNED;
}

static inline bool dispatcher_is_draining(const struct dispatcher *dispatcher)
{
        return dispatcher->state >= DISPATCHER_WITHDRAWING;
}

/* It has runners that may have something under way. */
static inline bool dispatcher_is_at_work(const struct dispatcher *dispatcher)
{
        return dispatcher->state != DISPATCHER_WAITING && dispatcher->state != DISPATCHER_CLOSING;
}

/* The lock is ours. */
static inline bool dispatcher_has_lock(const struct dispatcher *dispatcher)
{
        return dispatcher->state == DISPATCHER_OWNED || dispatcher->state == DISPATCHER_DRAINING ||
               dispatcher->state == DISPATCHER_RELEASING;
}

/* The end of a turn of the loop may change its state. */
static inline void dispatcher_wake(struct dispatcher *dispatcher)
{
        dispatcher->set->work->is_pending = true;
}

static inline int64_t dispatcher_now_ms(void)
{
        return clock_monotonic_us() / 1000;
}

/* The end of a turn of the loop, after its runners. It may be gone when this returns. `may_begin`:
 * no other dispatcher of the sink is at work. */
void dispatcher_serve(struct dispatcher *dispatcher, bool may_begin);

/* NULL and *error if the sink cannot be opened. */
struct dispatcher *dispatcher_create(struct sink_set *set, const struct sink_config *config,
    const struct relay_config *relay, struct error *error);

/* For good: its attempts have ended. No answer may be on its way: it was released, or never owned
 * anything, or the outbox's session is closed. It may be gone when this returns. */
void dispatcher_close(struct dispatcher *dispatcher);

/* dispatcher_status.c: opens the sink's filter, if it has one. */
void dispatcher_open_filter(struct dispatcher *dispatcher);

/* dispatcher_status.c: runner_ops::on_outcome of a sink's only runner. */
void dispatcher_note_outcome(struct runner *runner, const struct outcome *outcome);
