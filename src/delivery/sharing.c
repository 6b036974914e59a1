#include "delivery/sharing.h"

#include "base/alloc.h"
#include "delivery/dispatcher_internal.h"
#include "delivery/shard.h"
#include "log/log.h"
#include "loop/timer.h"
#include "members/turns.h"

#include <stdlib.h>
#include <string.h>

struct sharing {
        struct sink_set *set; /* borrowed */
        struct turns *turns;  /* owned; NULL: no view has come in this session */
        char *name;           /* owned; of the member that the turns are for */
        struct timer *due;    /* the next look */
        int64_t interval_ms;
        size_t n_members; /* in the last view */
};

static void on_due(void *owner)
{
        struct sharing *sharing = owner;

        outbox_look_at_members(sharing->set->outbox);
}

static void forget(struct sharing *sharing)
{
        turns_destroy(sharing->turns);
        free(sharing->name);
        sharing->turns = NULL;
        sharing->name = NULL;
}

void sharing_destroy(struct sharing *sharing)
{
        if (sharing == NULL)
                return;
        timer_destroy(sharing->due);
        forget(sharing);
        free(sharing);
}

void sharing_configure(struct sharing *sharing, int64_t interval_ms)
{
        if (sharing != NULL)
                sharing->interval_ms = interval_ms;
}

void sharing_look(struct sharing *sharing)
{
        if (sharing != NULL)
                outbox_read_members(sharing->set->outbox);
}

static struct shard *find_shard(const struct sharing *sharing, const struct turn *turn)
{
        struct dispatcher *dispatcher = sink_set_find(sharing->set, turn->sink);

        if (dispatcher == NULL || dispatcher->agreement_state != AGREEMENT_REACHED ||
            turn->number >= dispatcher->n_shards)
                return NULL;
        return &dispatcher->shards[turn->number];
}

static void do_turn(struct sharing *sharing, const struct turn *turn)
{
        struct shard *shard = find_shard(sharing, turn);

        if (shard == NULL || (turn->kind == TURN_GIVE && shard->state == SHARD_UNOWNED)) {
                if (shard != NULL)
                        shard->is_wanted = false;
                turns_lost(sharing->turns, turn->sink, turn->number);
                return;
        }
        shard->is_wanted = turn->kind == TURN_CLAIM;
        if (turn->kind == TURN_GIVE)
                log_info("shard_given", kv_text("sink", turn->sink), kv_int("shard", turn->number),
                    kv_text("to", turn->to));
        dispatcher_wake(shard->dispatcher);
}

static void do_turns(struct sharing *sharing)
{
        struct turn turn;

        while (turns_next(sharing->turns, dispatcher_now_ms(), &turn) != TURN_NOTHING)
                do_turn(sharing, &turn);
}

/* Another session has a shard that this relay could own, or nobody has. */
static bool is_any_elsewhere(const struct sharing *sharing)
{
        sink_set_for_each (dispatcher, sharing->set)
                if (dispatcher_is_serving(dispatcher) &&
                    shards_count_owned(dispatcher) < dispatcher->n_shards)
                        return true;
        return false;
}

static void note_owner(
    struct shard *shard, const struct view *view, size_t number, const char *name)
{
        int owner = view->owners[number];

        shard->is_owned_elsewhere =
            owner != NOBODY && (owner == STRANGER || strcmp(view->members[owner].name, name) != 0);
}

/* What its shards know of the others. */
static void note_owners(const struct sharing *sharing, const struct view *view)
{
        size_t first = 0;

        for (size_t i = 0; i < view->n_sinks; i++) {
                struct dispatcher *dispatcher = sink_set_find(sharing->set, view->sinks[i].name);
                if (dispatcher != NULL && dispatcher->n_shards == view->sinks[i].n_shards) {
                        for (unsigned k = 0; k < dispatcher->n_shards; k++)
                                note_owner(&dispatcher->shards[k], view, first + k, sharing->name);
                        dispatcher_note_standby(dispatcher);
                }
                first += view->sinks[i].n_shards;
        }
}

void sharing_take_view(struct sharing *sharing, const struct view *view)
{
        const char *name;

        if (sharing == NULL)
                return;
        name = outbox_member(sharing->set->outbox);
        if (sharing->turns == NULL || strcmp(sharing->name, name) != 0) {
                forget(sharing);
                sharing->turns = turns_create(name);
                sharing->name = xstrdup(name);
        }
        if (view != NULL) {
                sharing->n_members = view->n_members;
                turns_see(sharing->turns, view, dispatcher_now_ms());
                note_owners(sharing, view);
        }
        do_turns(sharing);
        if (sharing->n_members > 1 || is_any_elsewhere(sharing))
                timer_arm(sharing->due, (uint64_t)sharing->interval_ms);
        sharing->set->work->is_pending = true;
}

void sharing_session_down(struct sharing *sharing)
{
        if (sharing == NULL)
                return;
        timer_disarm(sharing->due);
        if (sharing->turns != NULL)
                turns_lose(sharing->turns);
        sink_set_for_each (dispatcher, sharing->set)
                for (unsigned i = 0; i < dispatcher->n_shards; i++)
                        if (dispatcher_is_at_work(dispatcher))
                                dispatcher->shards[i].is_wanted = false;
}

static void on_agreed(void *owner)
{
        sharing_look(owner);
}

static void note_lost(struct sharing *sharing, struct shard *shard)
{
        if (sharing->turns == NULL)
                return;
        shard->is_wanted = false;
        turns_lost(sharing->turns, shard->dispatcher->name, shard->number);
}

/* It has the shards that are ours. */
static void on_begin(void *owner, struct dispatcher *dispatcher)
{
        const struct sharing *sharing = owner;

        for (unsigned i = 0; i < dispatcher->n_shards; i++)
                dispatcher->shards[i].is_wanted =
                    sharing->turns != NULL && turns_is_ours(sharing->turns, dispatcher->name, i);
}

/* It claims none any more. */
static void on_end(void *owner, struct dispatcher *dispatcher)
{
        for (unsigned i = 0; i < dispatcher->n_shards; i++) {
                struct shard *shard = &dispatcher->shards[i];
                if (shard->is_wanted && shard->state == SHARD_UNOWNED)
                        note_lost(owner, shard);
        }
}

/* Unless there is another for its sink, none of its shards is ours. */
static void on_gone(void *owner, const struct dispatcher *gone)
{
        const struct sharing *sharing = owner;

        if (sharing->turns == NULL)
                return;
        sink_set_for_each (dispatcher, sharing->set)
                if (strcmp(dispatcher->name, gone->name) == 0)
                        return;
        for (unsigned i = 0; i < gone->n_shards; i++)
                turns_lost(sharing->turns, gone->name, i);
}

static void on_owned(void *owner, struct shard *shard)
{
        const struct sharing *sharing = owner;

        if (sharing->turns != NULL)
                turns_claimed(sharing->turns, shard->dispatcher->name, shard->number, true);
}

static void on_lost(void *owner, struct shard *shard)
{
        note_lost(owner, shard);
}

/* What a dispatcher gives back that makes way, its successor takes again. */
static void on_released(void *owner, struct shard *shard)
{
        struct sharing *sharing = owner;

        if (sharing->turns == NULL ||
            (dispatcher_is_draining(shard->dispatcher) &&
                turns_is_ours(sharing->turns, shard->dispatcher->name, shard->number)))
                return;
        note_lost(sharing, shard);
        do_turns(sharing);
}

struct sharing *sharing_create(struct sink_set *set)
{
        static const struct sharing_events events = {.on_agreed = on_agreed,
            .on_begin = on_begin,
            .on_end = on_end,
            .on_gone = on_gone,
            .on_owned = on_owned,
            .on_lost = on_lost,
            .on_released = on_released};
        struct sharing *sharing = xcalloc(1, sizeof *sharing);

        sharing->set = set;
        sharing->interval_ms = 1000;
        sharing->due = timer_create_on(set->loop, on_due, sharing);
        set->sharing_events = &events;
        set->sharing = sharing;
        return sharing;
}

void sharing_leave(struct sharing *sharing)
{
        if (sharing != NULL)
                outbox_leave(sharing->set->outbox);
}

bool sharing_has_left(const struct sharing *sharing)
{
        return sharing == NULL || sharing->turns == NULL || turns_has_left(sharing->turns);
}
