/*
 * A part of a sink's keys, or of its receivers, that one relay owns at a time: by the lock of its
 * owner lane. That is the shard's only lane; where the sink has receivers, it delivers nothing, and
 * its lock covers theirs.
 *
 *   UNOWNED -wanted, and nothing in flight-> CLAIMING -granted-> OWNED
 *   CLAIMING -another relay has the lock-> STANDBY -timer-> UNOWNED
 *   CLAIMING -the sink was divided anew-> UNOWNED
 *   CLAIMING -granted, but not wanted any more-> DRAINING
 *   OWNED -not wanted any more-> DRAINING -nothing is under way, or too long-> RELEASING
 *   RELEASING -unlocked-> UNOWNED
 *   any -session lost-> UNOWNED
 *
 * RELEASING: the answer to the unlock is the last that the database owes the shard. A session may
 * hold an advisory lock twice, and would not notice that the first holder still writes: so only
 * then the same lock may be tried for again, by this shard or by the next dispatcher of the sink.
 */
#pragma once

#include "delivery/dispatcher_internal.h"

enum shard_state {
        SHARD_UNOWNED,   /* no session, or not wanted, or attempts of before are still in flight */
        SHARD_CLAIMING,  /* its lock is asked for */
        SHARD_STANDBY,   /* another relay has the lock; it is asked for again later */
        SHARD_OWNED,     /* delivers */
        SHARD_DRAINING,  /* finishes what is in flight, and settles it */
        SHARD_RELEASING, /* the unlock is not answered yet */
};

struct shard {
        struct dispatcher *dispatcher; /* borrowed */
        const struct shard_events *events;
        uint16_t number;
        enum shard_state state;
        bool is_wanted;                /* by the sharing (sharing.h) */
        bool is_owned_elsewhere;       /* as far as is known */
        bool has_settled;              /* some receiver's lane, since the fan-out was served last */
        struct runner *runner;         /* of its only lane; NULL: it has receivers */
        struct lane_store *owner_lane; /* owned if it has receivers; else its runner's */
        struct timer *due; /* armed while STANDBY, and while DRAINING, unless the dispatcher ends */
        bool is_late;      /* it has drained for so long that it leaves what is in flight */
};

struct shard_events {
        void (*on_owned)(struct shard *shard);
        void (*on_elsewhere)(struct shard *shard); /* in place of on_owned */
        void (*on_gone)(struct shard *shard);      /* the same: the sink was divided anew */
        void (*on_released)(struct shard *shard);
};

/* Makes dispatcher->shards, with their lanes. */
void shards_create(struct dispatcher *dispatcher, const struct shard_events *events);
void shards_destroy(struct dispatcher *dispatcher); /* its runners are gone */

/* Its lanes may read: they are ours, and stay so. */
static inline bool shard_is_read(const struct shard *shard)
{
        return shard->state == SHARD_OWNED;
}

/* So many of its shards deliver. */
static inline unsigned shards_count_owned(const struct dispatcher *dispatcher)
{
        unsigned n = 0;

        for (unsigned i = 0; i < dispatcher->n_shards; i++)
                n += dispatcher->shards[i].state == SHARD_OWNED;
        return n;
}

/* None of its shards is ours, and some are another relay's. */
static inline bool shards_are_elsewhere(const struct dispatcher *dispatcher)
{
        bool is_any = false;

        if (shards_count_owned(dispatcher) > 0)
                return false;
        for (unsigned i = 0; i < dispatcher->n_shards; i++)
                is_any = is_any || dispatcher->shards[i].is_owned_elsewhere;
        return is_any;
}

/* The end of a turn of the loop. `may_own`: the sink's shards may be owned here; otherwise it is
 * given back. */
void shard_serve(struct shard *shard, bool may_own);

void shard_session_down(struct shard *shard);
