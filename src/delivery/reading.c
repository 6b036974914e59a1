#include "delivery/reading.h"

#include "base/alloc.h"
#include "delivery/dispatcher_internal.h"
#include "delivery/page_cache.h"
#include "delivery/runner.h"
#include "delivery/shard.h"
#include "loop/timer.h"
#include "outbox/receiver.h"
#include "telemetry/telemetry.h"

#include <stdlib.h>

struct reading {
        struct dispatcher *dispatcher; /* borrowed */
        struct lane_store *store;      /* owned */
        struct page_cache *page_cache; /* owned */
        struct page_waiter **waiters;  /* owned; of all lanes that may ask */
        struct timer *due;             /* page_cache_next_due() */
        bool is_looking;               /* for lanes with something parked that is due */
        bool looks_again;              /* something may have changed since it was asked */
};

static struct runner *runner_of(struct page_waiter *waiter)
{
        return list_owner(waiter, struct runner, waiter);
}

/* The lane asks again as soon as it has room: the cache knows whether there is more. */
static void on_view(struct page_waiter *waiter, struct page *view)
{
        runner_take_page(runner_of(waiter), view, true);
}

static void on_view_failed(struct page_waiter *waiter, const struct error *error)
{
        runner_fail_page(runner_of(waiter), error);
}

static bool receiver_takes(void *waiter, const struct page *page, size_t i)
{
        const struct runner *runner = runner_of(waiter);

        return routing_matches(&runner->receiver->routing, &page->events[i]) &&
               routing_matches(&runner->dispatcher->routing, &page->events[i]);
}

/* The page has only what the sink takes. */
static bool shard_takes(void *waiter, const struct page *page, size_t i)
{
        return page->shards[i] == runner_of(waiter)->shard->number;
}

static void on_page(void *owner, struct page *page)
{
        struct reading *reading = owner;

        telemetry_see_poll(reading->dispatcher->seen->telemetry, page->arrived_us - page->asked_us);
        page_cache_take_page(reading->page_cache, page);
        dispatcher_wake(reading->dispatcher); /* the cache may have more to ask */
}

static void on_page_failed(void *owner, const struct error *error)
{
        struct reading *reading = owner;

        page_cache_fail_page(reading->page_cache, error);
        dispatcher_wake(reading->dispatcher);
}

static void on_due(void *owner)
{
        const struct reading *reading = owner;

        dispatcher_wake(reading->dispatcher);
}

static int32_t lane_of(const struct runner *runner)
{
        return runner->receiver != NULL ? runner->lane_number : -1 - (int32_t)runner->shard->number;
}

static int compare_lanes(const void *a, const void *b)
{
        const int32_t x = ((const struct due_lane *)a)->lane,
                      y = ((const struct due_lane *)b)->lane;

        return (x > y) - (x < y);
}

static void on_due_lanes(void *owner, const struct due_lane *lanes, size_t n_lanes)
{
        struct reading *reading = owner;
        int64_t now_ms = dispatcher_now_ms();

        reading->is_looking = false;
        if (reading->looks_again)
                reading_ring_parked(reading);
        list_for_each (link, &reading->dispatcher->runners) {
                struct runner *runner = list_owner(link, struct runner, link);
                const struct due_lane its = {.lane = lane_of(runner)}, *found;
                found = bsearch(&its, lanes, n_lanes, sizeof *lanes, compare_lanes);
                if (found != NULL && found->due_ms == 0)
                        runner_ring_parked(runner);
                else if (found != NULL)
                        runner_note_parked_due(runner, now_ms + found->due_ms);
        }
        dispatcher_wake(reading->dispatcher); /* it may be idle now */
}

/* The shards of a sink take much, receivers little. */
static struct page_cache_settings cache_settings(const struct dispatcher *dispatcher)
{
        enum { RECEIVER_EVENTS = 64, RECEIVER_EVENT_BYTES = 16384, SHARD_EVENTS = 1000 };
        const struct sink_config *config = dispatcher->config;

        if (dispatcher->fanout != NULL)
                return (struct page_cache_settings){
                    .max_events = RECEIVER_EVENTS, .max_event_bytes = RECEIVER_EVENT_BYTES};
        return (struct page_cache_settings){.are_alike = true,
            .max_events =
                config->max_in_flight < SHARD_EVENTS ? config->max_in_flight : SHARD_EVENTS,
            .max_event_bytes = config->max_in_flight_bytes / config->max_in_flight + 1};
}

struct reading *reading_create(struct dispatcher *dispatcher)
{
        static const struct lane_store_events store_events = {
            .on_page = on_page, .on_page_failed = on_page_failed, .on_due = on_due_lanes};
        static const struct page_cache_events of_receivers = {
            .on_view = on_view, .on_failed = on_view_failed, .takes = receiver_takes};
        static const struct page_cache_events of_shards = {
            .on_view = on_view, .on_failed = on_view_failed, .takes = shard_takes};
        const struct lane_store_settings settings = {.sink = dispatcher->name};
        const struct page_cache_settings caching = cache_settings(dispatcher);
        struct reading *reading = xcalloc(1, sizeof *reading);

        reading->dispatcher = dispatcher;
        reading->store =
            lane_store_create(dispatcher->set->outbox, &settings, &store_events, reading);
        reading->page_cache = page_cache_create(
            reading->store, &caching, dispatcher->fanout != NULL ? &of_receivers : &of_shards);
        reading->due = timer_create_on(dispatcher->set->loop, on_due, reading);
        dispatcher->page_cache = reading->page_cache;
        return reading;
}

void reading_destroy(struct reading *reading)
{
        if (reading == NULL)
                return;
        timer_destroy(reading->due);
        page_cache_destroy(reading->page_cache);
        lane_store_destroy(reading->store);
        free(reading->waiters);
        free(reading);
}

/* The database leaves out the shards of other relays. */
static void choose_shards(const struct reading *reading)
{
        const struct dispatcher *dispatcher = reading->dispatcher;
        struct array_literal shards = {0};
        unsigned n_chosen = 0;

        for (unsigned i = 0; i < dispatcher->n_shards; i++) {
                if (!shard_is_read(&dispatcher->shards[i]))
                        continue;
                array_add_int(&shards, i);
                n_chosen++;
        }
        lane_store_choose(reading->store, dispatcher->n_shards,
            n_chosen < dispatcher->n_shards ? array_end(&shards) : NULL);
        array_deinit(&shards);
}

void reading_note_lanes(struct reading *reading)
{
        struct dispatcher *dispatcher = reading->dispatcher;
        size_t n = 0;

        list_for_each (link, &dispatcher->runners)
                n++;
        free(reading->waiters);
        reading->waiters = xcalloc(n + 1, sizeof *reading->waiters);
        n = 0;
        list_for_each (runner_link, &dispatcher->runners) {
                struct runner *runner = list_owner(runner_link, struct runner, link);
                if (runner->is_leaving || !shard_is_read(runner->shard))
                        continue;
                runner->waiter.routing =
                    runner->receiver != NULL ? &runner->receiver->routing : &dispatcher->routing;
                reading->waiters[n++] = &runner->waiter;
        }
        if (dispatcher->fanout == NULL)
                choose_shards(reading);
        page_cache_set_waiters(reading->page_cache, reading->waiters, n);
}

void reading_leave_out(struct reading *reading, const char *newest_end)
{
        lane_store_leave_out(reading->store, newest_end);
}

void reading_ring(struct reading *reading)
{
        page_cache_ring(reading->page_cache);
        dispatcher_wake(reading->dispatcher);
}

void reading_ring_parked(struct reading *reading)
{
        const struct dispatcher *dispatcher = reading->dispatcher;

        reading->looks_again = reading->is_looking;
        if (reading->is_looking || !dispatcher->set->is_session_up ||
            shards_count_owned(dispatcher) == 0)
                return;
        reading->is_looking = true;
        lane_store_read_due(reading->store);
}

bool reading_is_looking(const struct reading *reading)
{
        return reading->is_looking;
}

void reading_ask(struct runner *runner, struct page_request *request)
{
        page_cache_ask(runner->dispatcher->page_cache, &runner->waiter, request);
}

struct frame *reading_newest(const struct reading *reading)
{
        return page_cache_newest(reading->page_cache);
}

void reading_serve(struct reading *reading, int64_t now_ms)
{
        int64_t due_ms;

        page_cache_serve(reading->page_cache, now_ms);
        due_ms = page_cache_next_due(reading->page_cache);
        if (due_ms < 0)
                timer_disarm(reading->due);
        else
                timer_arm(reading->due, due_ms > now_ms ? (uint64_t)(due_ms - now_ms) : 0);
}

bool reading_is_idle(const struct reading *reading)
{
        return page_cache_is_idle(reading->page_cache) && !reading->is_looking;
}

void reading_reset(struct reading *reading)
{
        reading->is_looking = reading->looks_again = false;
        page_cache_reset(reading->page_cache);
}
