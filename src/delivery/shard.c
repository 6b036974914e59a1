#include "delivery/shard.h"

#include "base/alloc.h"
#include "delivery/fanout.h"
#include "delivery/reading.h"
#include "delivery/runner.h"
#include "log/log.h"
#include "loop/timer.h"
#include "outbox/sink_settings.h"
#include "sinks/sink_contract.h"

#include <assert.h>
#include <stdlib.h>

static struct runner *runner_of(struct list *link)
{
        return list_owner(link, struct runner, link);
}

static void drain(struct shard *shard)
{
        list_for_each (link, &shard->dispatcher->runners)
                if (runner_of(link)->shard == shard)
                        runner_drain(runner_of(link));
}

/* Nothing is in flight: the lanes can be taken again. */
static void leave_lanes(struct shard *shard)
{
        list_for_each (link, &shard->dispatcher->runners)
                if (runner_of(link)->shard == shard)
                        runner_leave(runner_of(link));
}

/* What the configuration says of a sink holds for all its shards together. */
static struct lane_policy shard_policy(const struct dispatcher *dispatcher)
{
        struct lane_policy policy = runner_policy(dispatcher);

        policy.rate_per_s /= dispatcher->n_shards;
        policy.rate_burst = (policy.rate_burst + dispatcher->n_shards - 1) / dispatcher->n_shards;
        policy.max_parked = (policy.max_parked + dispatcher->n_shards - 1) / dispatcher->n_shards;
        return policy;
}

/* The shards of a sink in one relay share its window. */
static void share_window(struct dispatcher *dispatcher)
{
        unsigned n_owned = shards_count_owned(dispatcher);
        struct lane_policy policy = shard_policy(dispatcher);

        if (dispatcher->n_shards == 1 || n_owned == 0)
                return;
        policy.max_in_flight =
            policy.max_in_flight / n_owned > 2 ? policy.max_in_flight / n_owned : 2;
        policy.max_in_flight_bytes /= n_owned;
        for (unsigned i = 0; i < dispatcher->n_shards; i++)
                if (dispatcher->shards[i].runner != NULL)
                        lane_set_policy(&dispatcher->shards[i].runner->lane, &policy);
}

static void note_lanes(struct shard *shard)
{
        struct dispatcher *dispatcher = shard->dispatcher;

        if (dispatcher->reading != NULL)
                reading_note_lanes(dispatcher->reading);
        if (dispatcher->fanout == NULL)
                share_window(dispatcher);
}

/* A shard that another relay is to have can wait for its attempts as long as a relay that ends. But
 * while the sink is being divided anew, all its shards wait for the last one. */
static void arm_limit(const struct shard *shard)
{
        enum { DIVISION_MS = 1500 };
        const struct dispatcher *dispatcher = shard->dispatcher;

        if (dispatcher_is_serving(dispatcher))
                timer_arm(shard->due, dispatcher->agreement_state == AGREEMENT_REACHED
                                          ? (uint64_t)dispatcher->drain_ms
                                          : DIVISION_MS);
}

/* The only function that assigns shard->state. */
static void enter(struct shard *shard, enum shard_state state)
{
        struct dispatcher *dispatcher = shard->dispatcher;
        bool was_read = shard_is_read(shard);

        shard->state = state;
        shard->is_late = false;
        dispatcher_wake(dispatcher);
        timer_disarm(shard->due);
        if (was_read != shard_is_read(shard))
                note_lanes(shard);
        switch (state) {
        case SHARD_UNOWNED:
                return;
        case SHARD_CLAIMING:
                lane_store_claim(shard->owner_lane);
                return;
        case SHARD_STANDBY:
                leave_lanes(shard);
                timer_arm(shard->due, (uint64_t)dispatcher->standby_ms);
                return;
        case SHARD_OWNED:
                if (dispatcher->fanout != NULL)
                        fanout_owned(dispatcher->fanout);
                return;
        case SHARD_DRAINING:
                drain(shard);
                arm_limit(shard);
                return;
        case SHARD_RELEASING:
                lane_store_release(shard->owner_lane);
                return;
        }
}

static void on_due(void *owner)
{
        struct shard *shard = owner;

        if (shard->state == SHARD_STANDBY)
                enter(shard, SHARD_UNOWNED);
        shard->is_late = shard->state == SHARD_DRAINING;
        dispatcher_wake(shard->dispatcher);
}

static void note_owned(struct shard *shard)
{
        assert(shard->state == SHARD_CLAIMING);
        shard->is_owned_elsewhere = false;
        enter(shard, SHARD_OWNED);
        shard->events->on_owned(shard);
}

static void note_owned_elsewhere(struct shard *shard)
{
        shard->is_owned_elsewhere = true;
        enter(shard, SHARD_STANDBY);
        shard->events->on_elsewhere(shard);
}

static void note_gone(struct shard *shard)
{
        enter(shard, SHARD_UNOWNED);
        shard->events->on_gone(shard);
}

static void note_released(struct shard *shard)
{
        leave_lanes(shard);
        enter(shard, SHARD_UNOWNED);
        shard->events->on_released(shard);
}

/* lane_store_events of its only lane. */

static void on_only_owned(
    void *owner, const struct cursor *cursor, const struct parked_keys *parked)
{
        struct runner *runner = owner;

        note_owned(runner->shard);
        runner_own(runner, cursor, parked);
}

static void on_only_owned_elsewhere(void *owner)
{
        const struct runner *runner = owner;

        note_owned_elsewhere(runner->shard);
}

static void on_only_gone(void *owner)
{
        const struct runner *runner = owner;

        note_gone(runner->shard);
}

static void on_only_page(void *owner, struct page *page)
{
        runner_take_page(owner, page, false);
}

static void on_only_released(void *owner)
{
        const struct runner *runner = owner;

        note_released(runner->shard);
}

static void read_page(struct runner *runner, struct page_request *request)
{
        lane_store_read(runner->store, request);
}

/* Those of an owner lane that delivers nothing itself. */

static void on_owned(void *owner, const struct cursor *cursor, const struct parked_keys *parked)
{
        (void)cursor;
        (void)parked;
        note_owned(owner);
}

static void on_owned_elsewhere(void *owner)
{
        note_owned_elsewhere(owner);
}

static void on_gone(void *owner)
{
        note_gone(owner);
}

static void on_settled(void *owner, enum cursor_room room)
{
        (void)owner;
        (void)room;
}

static void on_released(void *owner)
{
        note_released(owner);
}

/* The relay that has shard 0 notes with which settings it serves the sink. */
static struct lane_store_settings lane_settings(const struct shard *shard)
{
        const struct dispatcher *dispatcher = shard->dispatcher;

        return (struct lane_store_settings){.sink = dispatcher->name,
            .lane = dispatcher->n_shards == 1 ? 0 : -1 - (int32_t)shard->number,
            .n_shards = dispatcher->n_shards,
            .settings = shard->number == 0 ? dispatcher->settings : NULL,
            .topics = dispatcher->topics,
            .types = dispatcher->types};
}

static void create_owner_lane(struct shard *shard)
{
        static const struct lane_store_events events = {.on_owned = on_owned,
            .on_owned_elsewhere = on_owned_elsewhere,
            .on_gone = on_gone,
            .on_settled = on_settled,
            .on_released = on_released};
        struct lane_store_settings settings = lane_settings(shard);

        settings.is_owner_lane = true;
        shard->owner_lane =
            lane_store_create(shard->dispatcher->set->outbox, &settings, &events, shard);
}

static void create_only_lane(struct shard *shard)
{
        static const struct runner_ops reads_itself = {
            .read = read_page, .on_outcome = dispatcher_note_outcome};
        static const struct runner_ops reads_together = {
            .read = reading_ask, .on_outcome = dispatcher_note_outcome};
        static const struct lane_store_events events = {.on_owned = on_only_owned,
            .on_owned_elsewhere = on_only_owned_elsewhere,
            .on_gone = on_only_gone,
            .on_page_end = runner_note_page_end,
            .on_page = on_only_page,
            .on_page_failed = runner_fail_page,
            .on_parked = runner_take_parked,
            .on_missing = runner_note_missing,
            .on_settled = runner_note_settled,
            .on_released = on_only_released};
        struct dispatcher *dispatcher = shard->dispatcher;
        struct lane_store_settings settings = lane_settings(shard);
        const struct lane_policy policy = shard_policy(dispatcher);
        const struct routing *routing = &dispatcher->routing;
        struct runner *runner = runner_create(
            shard, dispatcher->n_shards == 1 ? &reads_itself : &reads_together, &policy);

        settings.is_durable = dispatcher->sink->remembers;
        runner->label = dispatcher->n_shards == 1
                            ? xstrdup(dispatcher->name)
                            : xasprintf("%s#%u", dispatcher->name, (unsigned)shard->number);
        runner->store = lane_store_create(dispatcher->set->outbox, &settings, &events, runner);
        lane_store_route(runner->store, &routing, 1);
        shard->owner_lane = runner->store;
        shard->runner = runner;
        runner_update_pause(runner);
}

void shards_create(struct dispatcher *dispatcher, const struct shard_events *events)
{
        dispatcher->n_shards = dispatcher->config->shards;
        dispatcher->shards = xcalloc(dispatcher->n_shards, sizeof *dispatcher->shards);
        for (unsigned i = 0; i < dispatcher->n_shards; i++) {
                struct shard *shard = &dispatcher->shards[i];
                shard->dispatcher = dispatcher;
                shard->events = events;
                shard->number = (uint16_t)i;
                shard->due = timer_create_on(dispatcher->set->loop, on_due, shard);
                if (sink_config_fans_out(dispatcher->config))
                        create_owner_lane(shard);
                else
                        create_only_lane(shard);
        }
}

void shards_destroy(struct dispatcher *dispatcher)
{
        for (unsigned i = 0; i < dispatcher->n_shards; i++) {
                struct shard *shard = &dispatcher->shards[i];
                timer_destroy(shard->due);
                if (shard->runner == NULL)
                        lane_store_destroy(shard->owner_lane);
        }
        free(dispatcher->shards);
        dispatcher->shards = NULL;
}

/* Nothing of its lanes is under way but progress that was written; or attempts that nobody waits
 * for any more. */
static bool is_idle(const struct shard *shard)
{
        list_for_each (link, &shard->dispatcher->runners) {
                const struct runner *runner = runner_of(link);
                const struct lane *lane = &runner->lane;
                if (runner->shard == shard &&
                    (runner->is_claiming || lane_is_asking(lane) ||
                        (!lane_is_at_rest(lane) && lane->state != LANE_LEAVING)))
                        return false;
        }
        return true;
}

/* Gives up the attempts in flight, once all that could be settled is: their events are delivered
 * again by the next owner. */
static void abandon(struct shard *shard)
{
        uint32_t n_in_flight = 0;

        list_for_each (link, &shard->dispatcher->runners) {
                struct runner *runner = runner_of(link);
                if (runner->shard != shard)
                        continue;
                if (lane_is_asking(&runner->lane))
                        return;
                n_in_flight += runner->lane.n_in_flight;
        }
        shard->is_late = false;
        log_warn("shard_abandoned", kv_text("sink", shard->dispatcher->name),
            kv_int("shard", shard->number), kv_int("in_flight", n_in_flight),
            kv_text("consequence", "what was in flight is delivered again by the next owner"));
        leave_lanes(shard);
}

/* An only lane starts anew when nothing is in flight from the time before; those of receivers that
 * have left must be gone. */
static bool may_claim(const struct shard *shard)
{
        if (shard->runner != NULL)
                return shard->runner->lane.state == LANE_UNOWNED;
        list_for_each (link, &shard->dispatcher->runners)
                if (runner_of(link)->shard == shard && runner_of(link)->is_leaving)
                        return false;
        return true;
}

void shard_serve(struct shard *shard, bool may_own)
{
        bool is_wanted = may_own && shard->is_wanted;

        switch (shard->state) {
        case SHARD_UNOWNED:
                if (is_wanted && may_claim(shard))
                        enter(shard, SHARD_CLAIMING);
                return;
        case SHARD_STANDBY:
                if (!is_wanted)
                        enter(shard, SHARD_UNOWNED);
                return;
        case SHARD_OWNED:
                if (!is_wanted)
                        enter(shard, SHARD_DRAINING);
                return;
        case SHARD_DRAINING:
                if (shard->is_late)
                        abandon(shard);
                if (!shard->dispatcher->set->is_ending && is_idle(shard))
                        enter(shard, SHARD_RELEASING);
                return;
        case SHARD_CLAIMING:
        case SHARD_RELEASING:
                return;
        }
}

void shard_session_down(struct shard *shard)
{
        enter(shard, SHARD_UNOWNED);
}
