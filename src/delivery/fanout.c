#include "delivery/fanout.h"

#include "base/alloc.h"
#include "delivery/dispatcher_internal.h"
#include "delivery/reading.h"
#include "delivery/receiver_lane.h"
#include "delivery/runner.h"
#include "delivery/shard.h"
#include "log/log.h"
#include "outbox/receiver.h"
#include "pg/array_literal.h"

#include <stdlib.h>

static struct runner *runner_of_link(struct list *link)
{
        return list_owner(link, struct runner, link);
}

static struct shard *shard_of(const struct dispatcher *dispatcher, int32_t receiver)
{
        return &dispatcher->shards[(uint32_t)receiver % dispatcher->n_shards];
}

static bool is_ours(const struct dispatcher *dispatcher, const struct receiver *receiver)
{
        return shard_is_read(shard_of(dispatcher, receiver->id));
}

static void add(struct fanout *fanout, const struct receiver *receiver, struct list *before)
{
        if (is_ours(fanout->dispatcher, receiver))
                receiver_lane_add(
                    fanout, receiver, shard_of(fanout->dispatcher, receiver->id), before);
}

/* Both are in order of id. A new receiver need not have the highest: its transaction may have taken
 * longer than that of the next. */
static void reconcile(struct fanout *fanout, const struct receiver_list *list)
{
        struct dispatcher *dispatcher = fanout->dispatcher;
        size_t i = 0;

        list_for_each (link, &dispatcher->runners) {
                struct runner *runner = runner_of_link(link);
                while (i < list->n_receivers && list->receivers[i]->id < runner->lane_number)
                        add(fanout, list->receivers[i++], link);
                bool is_there =
                    i < list->n_receivers && list->receivers[i]->id == runner->lane_number;
                if (is_there && shard_is_read(runner->shard))
                        receiver_lane_update(runner, list->receivers[i]);
                else if (!is_there)
                        receiver_lane_remove(runner);
                i += is_there;
        }
        while (i < list->n_receivers)
                add(fanout, list->receivers[i++], &dispatcher->runners);
        reading_note_lanes(dispatcher->reading);
}

static void on_receivers(void *owner, const struct receiver_list *list)
{
        struct fanout *fanout = owner;

        if (dispatcher_is_draining(fanout->dispatcher)) {
                dispatcher_wake(fanout->dispatcher); /* it may be idle now */
                return;
        }
        if (list != NULL)
                reconcile(fanout, list);
        if (!fanout->is_current)
                log_info("receivers_read", kv_text("sink", fanout->dispatcher->name),
                    kv_int("receivers", list != NULL ? (int64_t)list->n_receivers : 0));
        fanout->is_current = true;
        dispatcher_wake(fanout->dispatcher);
}

struct fanout *fanout_create(struct dispatcher *dispatcher)
{
        static const struct receiver_table_events table_events = {.on_receivers = on_receivers};
        struct fanout *fanout = xcalloc(1, sizeof *fanout);

        fanout->dispatcher = dispatcher;
        fanout->table =
            receiver_table_create(dispatcher->set->outbox, dispatcher->name, &table_events, fanout);
        return fanout;
}

void fanout_destroy(struct fanout *fanout)
{
        receiver_table_destroy(fanout->table);
        free(fanout);
}

/* Removes the cursors of receivers that are gone, but not while their lanes still write them. */
static void forget_gone(struct fanout *fanout)
{
        const struct dispatcher *dispatcher = fanout->dispatcher;
        struct array_literal served = {0}, shards = {0};

        list_for_each (link, &dispatcher->runners)
                array_add_int(&served, runner_of_link(link)->lane_number);
        for (unsigned i = 0; i < dispatcher->n_shards; i++)
                if (shard_is_read(&dispatcher->shards[i]))
                        array_add_int(&shards, i);
        receiver_table_forget_gone(
            fanout->table, array_end(&served), dispatcher->n_shards, array_end(&shards));
        array_deinit(&served);
        array_deinit(&shards);
}

void fanout_owned(struct fanout *fanout)
{
        fanout->is_current = false;
        forget_gone(fanout);
        receiver_table_read_anew(fanout->table);
        list_for_each (link, &fanout->dispatcher->runners)
                runner_wake(runner_of_link(link));
}

void fanout_session_down(struct fanout *fanout)
{
        fanout->is_current = false;
        receiver_table_session_down(fanout->table);
}

void fanout_control(struct fanout *fanout)
{
        if (shards_count_owned(fanout->dispatcher) == 0)
                return;
        receiver_table_read(fanout->table);
}

/* The owner lane's cursor shows how far the log has been read for any receiver. */
static void settle_owner_lane(struct shard *shard, struct frame *newest)
{
        struct settlement settlement = {.cursor = {.from = newest}};
        struct list no_verdicts;

        if (!shard->has_settled || newest == NULL)
                return;
        list_init(&no_verdicts);
        settlement.verdicts = &no_verdicts;
        lane_store_settle(shard->owner_lane, &settlement);
}

void fanout_serve(struct fanout *fanout)
{
        struct dispatcher *dispatcher = fanout->dispatcher;

        for (unsigned i = 0; i < dispatcher->n_shards; i++) {
                struct shard *shard = &dispatcher->shards[i];
                if (shard->state == SHARD_OWNED || shard->state == SHARD_DRAINING)
                        settle_owner_lane(shard, reading_newest(dispatcher->reading));
                shard->has_settled = false;
        }
}

static void claim(struct runner *runner)
{
        if (runner->shard->state != SHARD_OWNED || runner->is_claiming || runner->is_leaving ||
            runner->lane.state != LANE_UNOWNED)
                return;
        runner->is_claiming = true;
        lane_store_claim(runner->store);
}

bool fanout_prepare(struct fanout *fanout, struct runner *runner)
{
        if (!runner->is_leaving || !runner_is_idle(runner)) {
                claim(runner);
                return true;
        }
        runner_destroy(runner);
        forget_gone(fanout);
        return false;
}

bool fanout_is_idle(const struct fanout *fanout)
{
        return receiver_table_is_idle(fanout->table);
}

bool fanout_is_caught_up(const struct fanout *fanout)
{
        return fanout->is_current;
}
