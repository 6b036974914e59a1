#include "delivery/sink_set.h"

#include "base/alloc.h"
#include "delivery/dispatcher_internal.h"
#include "delivery/fanout.h"
#include "delivery/runner.h"
#include "delivery/shard.h"

#include <stdlib.h>
#include <string.h>

static struct dispatcher *dispatcher_of(struct list *link)
{
        return list_owner(link, struct dispatcher, link);
}

struct sink_set *sink_set_create(uv_loop_t *loop, struct outbox *outbox,
    struct telemetry *telemetry, struct work *work, const struct sink_set_events *events,
    void *owner)
{
        struct sink_set *set = xcalloc(1, sizeof *set);

        set->loop = loop;
        set->outbox = outbox;
        set->telemetry = telemetry;
        set->work = work;
        set->events = *events;
        set->owner = owner;
        list_init(&set->dispatchers);
        return set;
}

void sink_set_destroy(struct sink_set *set)
{
        free(set);
}

bool sink_set_add(struct sink_set *set, const struct sink_config *config,
    const struct relay_config *relay, struct error *error)
{
        struct dispatcher *dispatcher = dispatcher_create(set, config, relay, error);

        if (dispatcher == NULL)
                return false;
        list_push_back(&set->dispatchers, &dispatcher->link);
        outbox_read_pauses(set->outbox);
        dispatcher_wake(dispatcher);
        return true;
}

struct dispatcher *sink_set_find(const struct sink_set *set, const char *name)
{
        sink_set_for_each (dispatcher, set)
                if (dispatcher_is_serving(dispatcher) && strcmp(dispatcher->name, name) == 0)
                        return dispatcher;
        return NULL;
}

struct dispatcher *sink_set_next(const struct sink_set *set, const struct dispatcher *after)
{
        struct list *next = after != NULL ? after->link.next : set->dispatchers.next;

        return next != &set->dispatchers ? dispatcher_of(next) : NULL;
}

void sink_set_discard_waiting(struct sink_set *set)
{
        list_for_each (link, &set->dispatchers)
                if (dispatcher_of(link)->state == DISPATCHER_WAITING)
                        dispatcher_close(dispatcher_of(link));
}

void sink_set_hold(struct sink_set *set, bool is_held)
{
        set->is_held = is_held;
        set->work->is_pending = true;
}

bool sink_set_is_held(const struct sink_set *set)
{
        return set->is_held;
}

bool sink_set_has_made_way(const struct sink_set *set)
{
        sink_set_for_each (dispatcher, set)
                if (dispatcher_is_draining(dispatcher))
                        return false;
        return true;
}

bool sink_set_is_settled(const struct sink_set *set)
{
        sink_set_for_each (dispatcher, set)
                if (!dispatcher_is_serving(dispatcher))
                        return false;
        return true;
}

void sink_set_session_up(struct sink_set *set)
{
        set->is_session_up = true;
        set->work->is_pending = true;
}

void sink_set_session_down(struct sink_set *set)
{
        set->is_session_up = false;
        set->work->is_pending = true;
        sink_set_for_each (dispatcher, set)
                dispatcher_session_down(dispatcher);
}

/* True: no other dispatcher of the sink is at work but one that gives it its shards, and it is
 * known whether the sink is paused: without a session that is read before the next session is
 * up. */
static bool take_place(struct dispatcher *waiting)
{
        const struct sink_set *set = waiting->set;
        struct dispatcher *older = NULL;

        if (set->is_held || set->is_ending || (set->is_session_up && !waiting->knows_pauses))
                return false;
        sink_set_for_each (dispatcher, set)
                if (dispatcher != waiting && strcmp(dispatcher->name, waiting->name) == 0 &&
                    dispatcher_is_at_work(dispatcher)) {
                        if (older != NULL)
                                return false;
                        older = dispatcher;
                }
        return older == NULL || dispatcher_succeed(older, waiting);
}

static void pump(struct runner *runner, int64_t now_ms)
{
        const struct dispatcher *dispatcher = runner->dispatcher;

        if (!dispatcher_is_at_work(dispatcher) || runner->shard->state == SHARD_RELEASING)
                return;
        if (dispatcher->fanout == NULL || fanout_prepare(dispatcher->fanout, runner))
                runner_pump(runner, now_ms);
}

/* A runner that is woken meanwhile has its turn in the next call. */
static void pump_runners(struct work *work)
{
        int64_t now_ms = dispatcher_now_ms();
        struct list end;

        list_init(&end);
        list_push_back(&work->runners, &end);
        while (work->runners.next != &end) {
                struct runner *runner = list_owner(work->runners.next, struct runner, work_link);
                list_remove(&runner->work_link);
                pump(runner, now_ms);
        }
        list_remove(&end);
}

void sink_set_serve(struct sink_set *set)
{
        pump_runners(set->work);
        list_for_each (link, &set->dispatchers) {
                struct dispatcher *dispatcher = dispatcher_of(link);
                dispatcher_serve(
                    dispatcher, dispatcher->state == DISPATCHER_WAITING && take_place(dispatcher));
        }
}

void sink_set_drain(struct sink_set *set)
{
        set->is_ending = true;
        sink_set_discard_waiting(set);
        sink_set_for_each (dispatcher, set)
                dispatcher_retire(dispatcher);
}

void sink_set_close(struct sink_set *set)
{
        if (list_is_empty(&set->dispatchers)) {
                set->events.on_empty(set->owner);
                return;
        }
        list_for_each (link, &set->dispatchers)
                dispatcher_close(dispatcher_of(link));
}
