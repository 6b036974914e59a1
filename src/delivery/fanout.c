#include "delivery/fanout.h"

#include "base/alloc.h"
#include "delivery/dispatcher_internal.h"
#include "delivery/receiver_lane.h"
#include "delivery/runner.h"
#include "log/log.h"
#include "loop/timer.h"
#include "outbox/receiver.h"
#include "telemetry/telemetry.h"

#include <stdlib.h>

static struct runner *runner_of_link(struct list *link)
{
        return list_owner(link, struct runner, link);
}

/* What the receivers take, together, is read once for all of them. */
static void collect_waiters(struct fanout *fanout)
{
        size_t n = 0;

        list_for_each (link, &fanout->dispatcher->runners)
                n++;
        free(fanout->waiters);
        fanout->waiters = xcalloc(n + 1, sizeof *fanout->waiters);
        n = 0;
        list_for_each (runner_link, &fanout->dispatcher->runners) {
                struct runner *runner = runner_of_link(runner_link);
                if (runner->is_leaving)
                        continue;
                runner->waiter.routing = &runner->receiver->routing;
                fanout->waiters[n++] = &runner->waiter;
        }
        page_cache_set_waiters(fanout->page_cache, fanout->waiters, n);
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
                        receiver_lane_add(fanout, list->receivers[i++], link);
                if (i < list->n_receivers && list->receivers[i]->id == runner->lane_number)
                        receiver_lane_update(runner, list->receivers[i++]);
                else
                        receiver_lane_remove(runner);
        }
        while (i < list->n_receivers)
                receiver_lane_add(fanout, list->receivers[i++], &dispatcher->runners);
        collect_waiters(fanout);
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

static void on_due(void *owner, const int32_t *lanes, size_t n_lanes)
{
        struct fanout *fanout = owner;
        size_t i = 0;

        fanout->is_looking = false;
        list_for_each (link, &fanout->dispatcher->runners) {
                struct runner *runner = runner_of_link(link);
                while (i < n_lanes && lanes[i] < runner->lane_number)
                        i++;
                if (i < n_lanes && lanes[i] == runner->lane_number)
                        runner_ring_parked(runner);
        }
        dispatcher_wake(fanout->dispatcher);
}

/* Reading: the cache asks the owner lane, and answers the runners. */

static struct runner *runner_of_waiter(struct page_waiter *waiter)
{
        return list_owner(waiter, struct runner, waiter);
}

/* The lane asks again as soon as it has room: the cache knows whether there is more. */
static void on_view(struct page_waiter *waiter, struct page *view)
{
        runner_take_page(runner_of_waiter(waiter), view, true);
}

static void on_view_failed(struct page_waiter *waiter, const struct error *error)
{
        runner_fail_page(runner_of_waiter(waiter), error);
}

static bool takes(void *waiter, const struct page *page, size_t i)
{
        const struct runner *runner = runner_of_waiter(waiter);
        const struct routing *of_sink = &runner->dispatcher->routing;
        const struct routing *of_receiver = &runner->receiver->routing;

        return routing_matches(of_receiver, &page->events[i]) &&
               routing_matches(of_sink, &page->events[i]);
}

void fanout_take_page(void *owner, struct page *page)
{
        struct dispatcher *dispatcher = owner;

        telemetry_see_poll(dispatcher->seen->telemetry, page->arrived_us - page->asked_us);
        page_cache_take_page(dispatcher->fanout->page_cache, page);
        dispatcher_wake(dispatcher); /* the cache may have more to ask */
}

void fanout_fail_page(void *owner, const struct error *error)
{
        struct dispatcher *dispatcher = owner;

        page_cache_fail_page(dispatcher->fanout->page_cache, error);
        dispatcher_wake(dispatcher);
}

static void on_page_cache_due(void *owner)
{
        struct fanout *fanout = owner;

        dispatcher_wake(fanout->dispatcher);
}

struct fanout *fanout_create(struct dispatcher *dispatcher)
{
        static const struct receiver_table_events table_events = {
            .on_receivers = on_receivers, .on_due = on_due};
        static const struct page_cache_events cache_events = {
            .on_view = on_view, .on_failed = on_view_failed, .takes = takes};
        struct fanout *fanout = xcalloc(1, sizeof *fanout);

        fanout->dispatcher = dispatcher;
        fanout->table = receiver_table_create(
            dispatcher->set->outbox, dispatcher->config->name, &table_events, fanout);
        fanout->page_cache = page_cache_create(dispatcher->owner_lane, &cache_events);
        collect_waiters(fanout);
        fanout->due = timer_create_on(dispatcher->set->loop, on_page_cache_due, fanout);
        return fanout;
}

void fanout_destroy(struct fanout *fanout)
{
        timer_destroy(fanout->due);
        page_cache_destroy(fanout->page_cache);
        receiver_table_destroy(fanout->table);
        free(fanout->waiters);
        free(fanout);
}

/* Removes the cursors of receivers that are gone, but not while their lanes still write them. */
static void forget_gone(struct fanout *fanout)
{
        int32_t *served;
        size_t n = 0;

        list_for_each (link, &fanout->dispatcher->runners)
                n++;
        served = xcalloc(n + 1, sizeof *served);
        n = 0;
        list_for_each (runner_link, &fanout->dispatcher->runners)
                served[n++] = runner_of_link(runner_link)->lane_number;
        receiver_table_forget_gone(fanout->table, served, n);
        free(served);
}

void fanout_owned(struct fanout *fanout)
{
        fanout->is_current = false;
        forget_gone(fanout);
        receiver_table_read(fanout->table);
        list_for_each (link, &fanout->dispatcher->runners)
                runner_wake(runner_of_link(link));
}

void fanout_session_down(struct fanout *fanout)
{
        fanout->is_current = false;
        fanout->is_looking = false;
        fanout->dispatcher->has_settled = false;
        page_cache_reset(fanout->page_cache);
        receiver_table_session_down(fanout->table);
}

void fanout_control(struct fanout *fanout)
{
        if (fanout->dispatcher->state != DISPATCHER_OWNED)
                return;
        receiver_table_read(fanout->table);
        receiver_table_read_due(fanout->table);
        fanout->is_looking = true;
}

/* The owner lane's cursor shows how far the log has been read for any receiver. */
static void settle_owner_lane(struct fanout *fanout)
{
        struct settlement settlement = {.cursor = {.from = page_cache_newest(fanout->page_cache)}};
        struct list no_verdicts;

        if (!fanout->dispatcher->has_settled || settlement.cursor.from == NULL)
                return;
        list_init(&no_verdicts);
        settlement.verdicts = &no_verdicts;
        lane_store_settle(fanout->dispatcher->owner_lane, &settlement);
}

void fanout_serve(struct fanout *fanout)
{
        int64_t now_ms = dispatcher_now_ms(), due_ms;

        settle_owner_lane(fanout);
        fanout->dispatcher->has_settled = false;
        page_cache_serve(fanout->page_cache, now_ms);
        due_ms = page_cache_next_due(fanout->page_cache);
        if (due_ms < 0)
                timer_disarm(fanout->due);
        else
                timer_arm(fanout->due, due_ms > now_ms ? (uint64_t)(due_ms - now_ms) : 0);
}

static void claim(struct runner *runner)
{
        if (runner->dispatcher->state != DISPATCHER_OWNED || runner->is_claiming ||
            runner->is_leaving || runner->lane.state != LANE_UNOWNED)
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
        return receiver_table_is_idle(fanout->table) && page_cache_is_idle(fanout->page_cache);
}

bool fanout_is_caught_up(const struct fanout *fanout)
{
        return fanout->is_current && !fanout->is_looking;
}
