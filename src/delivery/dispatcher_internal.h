/* A dispatcher from within: for the files of this folder. */
#pragma once

#include "base/clock.h"
#include "base/list.h"
#include "delivery/dispatcher.h"
#include "delivery/sink_set.h"
#include "delivery/starts.h"
#include "delivery/work.h"
#include "outbox/filter_queue.h"
#include "outbox/outbox.h"
#include "outbox/routing.h"
#include "pgcourier/outcome.h"

struct fanout;
struct reading;
struct runner;
struct shard;
struct page_cache;
struct sink_telemetry;

/* What the sharing of shards with other relays hears (sharing.h). */
struct sharing_events {
        void (*on_agreed)(void *owner); /* a sink's shards may be claimed */
        /* A dispatcher takes its place, leaves it, or is gone. */
        void (*on_begin)(void *owner, struct dispatcher *dispatcher);
        void (*on_end)(void *owner, struct dispatcher *dispatcher);
        void (*on_gone)(void *owner, const struct dispatcher *dispatcher);
        /* A shard is ours; or it is not, although it was wanted; or it was given back. */
        void (*on_owned)(void *owner, struct shard *shard);
        void (*on_lost)(void *owner, struct shard *shard);
        void (*on_released)(void *owner, struct shard *shard);
};

struct sink_set {
        uv_loop_t *loop; /* borrowed, as the next three */
        struct outbox *outbox;
        struct telemetry *telemetry;
        struct work *work;
        const struct sharing_events *sharing_events; /* NULL: it shares with no other relay */
        void *sharing;                               /* their owner; borrowed */
        struct list dispatchers; /* dispatcher::link, in the order in which they were added */
        struct sink_set_events events;
        void *owner; /* borrowed */
        bool is_session_up;
        bool is_held;   /* no dispatcher begins */
        bool is_ending; /* drained dispatchers wait for sink_set_close() */
};

/*
 * The life of a dispatcher. enter() of dispatcher.c is the only function that assigns its state;
 * who owns what is the shards' (shard.h). An older dispatcher with the same shards makes way at
 * once: its successor takes each shard when that is given back, so no shard waits for another's
 * attempts.
 *
 *   WAITING -its place is free-> SERVING -retired-> RETIRING -no shard is ours, nothing in flight->
 *   CLOSING -the sink has closed-> gone
 *   WAITING -discarded-> CLOSING
 *   any -the relay ends, and the session is closed-> CLOSING
 */
enum dispatcher_state {
        DISPATCHER_WAITING,  /* added; an older dispatcher of the sink has not made way yet */
        DISPATCHER_SERVING,  /* takes shards, and delivers */
        DISPATCHER_RETIRING, /* finishes what is in flight, and gives its shards back */
        DISPATCHER_CLOSING,  /* only its sink is left */
};

/*
 * Its relays agree on the number of the sink's shards before they take any, and again when it is to
 * change.
 *
 *   NEEDED -no shard is ours-> ASKING -ready-> REACHED
 *   ASKING -another number is in force, or not yet ours-> LATER -timer, or news-> NEEDED
 *   REACHED -the number is to change-> NEEDED
 *   any -session lost-> NEEDED
 */
enum agreement_state {
        AGREEMENT_NEEDED,
        AGREEMENT_ASKING,
        AGREEMENT_LATER,
        AGREEMENT_REACHED,
};

/* A login that the destination refused: see attempts.h. */
struct login {
        int64_t retried_ms;      /* 0: never */
        bool is_retried;         /* whether there are other credentials is not known yet; */
        struct outcome withheld; /* until then this is not reported; DELIVERED: nothing */
};

/* The set owns dispatchers; a dispatcher owns its sink, its shards and its runners; a runner its
 * lane and its lane's store; the lane owns pages, a page its events; a delivery borrows its event,
 * and its attempt is lent to the sink. */
struct dispatcher {
        struct sink_set *set;             /* borrowed */
        struct list link;                 /* sink_set::dispatchers */
        const struct sink_config *config; /* borrowed */
        char *name;                       /* owned; the sink's, which outlives the configuration */
        enum dispatcher_state state;
        bool knows_pauses; /* so that no sink that is paused starts */
        /* Borrowed; NULL: it takes the shards of no other, and gives its own to none. */
        struct dispatcher *older, *newer;

        struct routing routing; /* what the sink takes */
        struct filter *filter;  /* owned; of the sink; NULL: it has none */
        struct sink *sink;      /* owned */
        struct shard *shards;   /* owned; n_shards; NULL while CLOSING */
        unsigned n_shards;      /* as its configuration has it */
        struct list runners;    /* runner::link */
        struct starts starts;
        struct fanout *fanout;         /* owned; NULL: each shard has one runner */
        struct reading *reading;       /* owned; NULL: the only runner reads itself */
        struct page_cache *page_cache; /* its; NULL likewise */
        struct sink_telemetry *seen;   /* one reference */
        struct login login;

        struct agreement agreement;
        enum agreement_state agreement_state;
        struct timer *agree_again; /* armed while AGREEMENT_LATER */
        bool is_standby;           /* other relays have all its shards; that was logged */
        bool is_older;             /* another number of shards is in force; that was logged */
        int64_t standby_ms;
        int64_t drain_ms;
        char *settings;    /* owned: sink_settings() */
        char *topics;      /* owned: sink_patterns() */
        char *types;       /* owned, likewise */
        char *differences; /* owned: of what another relay noted of the sink; NULL: none */
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
        return dispatcher->state == DISPATCHER_SERVING;
}

static inline bool dispatcher_is_draining(const struct dispatcher *dispatcher)
{
        return dispatcher->state >= DISPATCHER_RETIRING;
}

/* It has runners that may have something under way. */
static inline bool dispatcher_is_at_work(const struct dispatcher *dispatcher)
{
        return dispatcher->state == DISPATCHER_SERVING || dispatcher->state == DISPATCHER_RETIRING;
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

/* The newer one is to take the older one's shards, each when it is free. False: it has to wait
 * until the older one has left. */
bool dispatcher_succeed(struct dispatcher *older, struct dispatcher *newer);

/* The end of a turn of the loop, after its runners. It may be gone when this returns. `may_begin`:
 * other dispatchers of the sink have left, or give it their shards. */
void dispatcher_serve(struct dispatcher *dispatcher, bool may_begin);

/* NULL and *error if the sink cannot be opened. */
struct dispatcher *dispatcher_create(struct sink_set *set, const struct sink_config *config,
    const struct relay_config *relay, struct error *error);

/* For good: its attempts have ended. No answer may be on its way: it was released, or never owned
 * anything, or the outbox's session is closed. It may be gone when this returns. */
void dispatcher_close(struct dispatcher *dispatcher);

/* It is known anew which shards are another relay's. */
void dispatcher_note_standby(struct dispatcher *dispatcher);

/* dispatcher_status.c: opens the sink's filter, if it has one. */
void dispatcher_open_filter(struct dispatcher *dispatcher);

/* dispatcher_status.c: runner_ops::on_outcome of a sink's only runner. */
void dispatcher_note_outcome(struct runner *runner, const struct outcome *outcome);
