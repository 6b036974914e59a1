/* Who is answered when, among many lanes. That each gets what it takes: simulator/page_cache.c. */
#include "delivery/page_cache.h"

#include "base/alloc.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_LANES 1000

struct lane_state {
        struct page_waiter waiter;
        struct routing routing;
        char pattern[24], *patterns[1];
        struct cursor next;
        unsigned n_answers, n_events;
};

static struct lane_state lanes[N_LANES];
static struct page_waiter *waiters[N_LANES];
static struct page_cache *cache;
static struct page_request asked;
static bool is_asked;
static int64_t n_ids;
static unsigned n_answers;
static bool asks_again;

void lane_store_route(
    struct lane_store *store, const struct routing *const *routings, size_t n_routings)
{
        (void)store;
        (void)routings;
        (void)n_routings;
}

void lane_store_read(struct lane_store *store, const struct page_request *request)
{
        (void)store;
        cr_assert_not(is_asked, "one page at a time");
        is_asked = true;
        asked.start = (struct cursor){0};
        cursor_assign(&asked.start, &request->start);
}

static void ask(struct lane_state *lane)
{
        const struct page_request request = {
            .start = lane->next, .max_events = 32, .max_event_bytes = 1000};

        page_cache_ask(cache, &lane->waiter, &request);
}

static void on_view(struct page_waiter *waiter, struct page *view)
{
        struct lane_state *lane = list_owner(waiter, struct lane_state, waiter);
        const struct cursor within = {
            .from = view->start.from, .until = view->start.until, .last_id = view->upto};
        const struct cursor ended = {.from = view->start.until};

        cursor_assign(&lane->next, page_ends_difference(view) ? &ended : &within);
        lane->n_answers++;
        lane->n_events += (unsigned)view->n_events;
        n_answers++;
        view->release(view);
        if (asks_again)
                ask(lane);
}

static void on_failed(struct page_waiter *waiter, const struct error *error)
{
        (void)waiter;
        cr_assert_fail("%s", error->text);
}

static bool takes(void *owner, const struct page *page, size_t i)
{
        const struct lane_state *lane = list_owner(owner, struct lane_state, waiter);

        return strcmp(page->events[i].topic, lane->pattern) == 0;
}

static void release(struct page *page)
{
        cursor_deinit(&page->start);
        free(page->events);
        free(page);
}

/* The page that was asked for brings one event of the topic, or, NULL, nothing new. */
static void give(const char *topic)
{
        struct page *page = xcalloc(1, sizeof *page);
        char snapshot[32];

        cr_assert(is_asked);
        is_asked = false;
        page->start = asked.start;
        page->release = release;
        page->upto = ++n_ids;
        snprintf(snapshot, sizeof snapshot, "%d:%d:", (int)n_ids + 9, (int)n_ids + 9);
        if (topic == NULL) {
                page->start.until = frame_ref(page->start.from);
        } else {
                if (page->start.until == NULL)
                        page->start.until = frame_create(snapshot, n_ids, (uint64_t)n_ids);
                page->events = xcalloc(1, sizeof *page->events);
                page->events[0] = (struct event){.id = n_ids, .topic = topic};
                page->n_events = 1;
        }
        page_cache_take_page(cache, page);
}

static void look(const char *topic, int64_t now_ms)
{
        page_cache_ring(cache);
        page_cache_serve(cache, now_ms);
        give(topic);
}

static void begin(void)
{
        static const struct page_cache_events events = {
            .on_view = on_view, .on_failed = on_failed, .takes = takes};
        static const struct page_cache_settings settings = {
            .max_events = 64, .max_event_bytes = 16384};
        struct frame *frame = frame_create("9:9:", 0, 0);

        cache = page_cache_create(NULL, &settings, &events);
        for (size_t i = 0; i < N_LANES; i++) {
                struct lane_state *lane = &lanes[i];
                page_waiter_init(&lane->waiter);
                snprintf(lane->pattern, sizeof lane->pattern, "t%zu", i);
                lane->patterns[0] = lane->pattern;
                lane->routing = (struct routing){.topics = lane->patterns, .n_topics = 1};
                lane->waiter.routing = &lane->routing;
                lane->next.from = frame_ref(frame);
                waiters[i] = &lane->waiter;
        }
        frame_unref(frame);
        page_cache_set_waiters(cache, waiters, N_LANES);
        for (size_t i = 0; i < N_LANES; i++)
                ask(&lanes[i]);
}

static void end(void)
{
        page_cache_destroy(cache);
        for (size_t i = 0; i < N_LANES; i++)
                cursor_deinit(&lanes[i].next);
        if (is_asked)
                cursor_deinit(&asked.start);
}

TestSuite(page_cache, .init = begin, .fini = end);

Test(page_cache, answers_only_the_lane_that_takes_something)
{
        look("t700", 0);
        cr_expect_eq(n_answers, 1);
        cr_expect_eq(lanes[700].n_events, 1);
        look("t3", 0);
        cr_expect_eq(n_answers, 2);
        cr_expect_eq(lanes[3].n_events, 1);
        cr_expect_eq(lanes[3].next.from->floor, 2, "it is behind what has passed by, too");
}

Test(page_cache, has_only_lanes_at_the_end_that_nothing_is_known_for)
{
        cr_expect_not(page_cache_is_at_end(cache, &lanes[0].waiter), "it was not looked at yet");
        look("t1", 0);
        cr_expect(page_cache_is_at_end(cache, &lanes[0].waiter));
        cr_expect_not(page_cache_is_at_end(cache, &lanes[1].waiter), "it does not wait");
        page_cache_ring(cache);
        cr_expect_not(page_cache_is_at_end(cache, &lanes[0].waiter), "it may be new");
        page_cache_serve(cache, 0);
        cr_expect_not(page_cache_is_at_end(cache, &lanes[0].waiter), "it is being read");
        give(NULL);
        cr_expect(page_cache_is_at_end(cache, &lanes[0].waiter));
        page_cache_serve(cache, 0);
        cr_expect_not(is_asked, "nothing has rung");
}

Test(page_cache, looks_again_when_lanes_join)
{
        page_cache_set_waiters(cache, waiters, N_LANES - 1);
        look(NULL, 0);
        page_cache_serve(cache, 0);
        cr_expect_not(is_asked, "there was nothing new for the others");
        page_cache_set_waiters(cache, waiters, N_LANES);
        page_cache_serve(cache, 0);
        give("t999");
        cr_expect_eq(lanes[N_LANES - 1].n_events, 1);
}

Test(page_cache, tells_all_within_25_seconds_how_far_they_have_come_a_few_at_a_time)
{
        unsigned most = 0;

        asks_again = true;
        look("of nobody", 0);
        for (int64_t due_ms; (due_ms = page_cache_next_due(cache)) < 25000 && due_ms >= 0;) {
                unsigned before = n_answers;
                cr_assert_geq(due_ms, 15000);
                page_cache_serve(cache, due_ms);
                if (n_answers - before > most)
                        most = n_answers - before;
        }
        cr_expect_eq(n_answers, N_LANES);
        cr_expect_leq(most, N_LANES / 100 + 1);
        for (size_t i = 0; i < N_LANES; i++)
                cr_assert_eq(lanes[i].next.from->floor, 1);
}

Test(page_cache, tells_lanes_nothing_that_they_know)
{
        look("t0", 0);
        ask(&lanes[0]);
        for (size_t i = 1; i < N_LANES; i++)
                page_cache_call_off(cache, &lanes[i].waiter);
        page_cache_serve(cache, 0);
        page_cache_serve(cache, 100000);
        cr_expect_eq(lanes[0].n_answers, 1);
        cr_expect_gt(page_cache_next_due(cache), 100000);
}

Test(page_cache, answers_a_lane_that_is_called_off_with_how_far_it_has_come)
{
        page_cache_call_off(cache, &lanes[5].waiter);
        cr_expect_eq(lanes[5].n_answers, 1);
        cr_expect_eq(lanes[5].next.from->floor, 0, "nothing was read yet");
        look("t4", 0);
        page_cache_call_off(cache, &lanes[6].waiter);
        cr_expect_eq(lanes[6].next.from->floor, 1);
        cr_expect_eq(lanes[6].n_events, 0);
        page_cache_call_off(cache, &lanes[6].waiter);
        cr_expect_eq(lanes[6].n_answers, 1, "it does not wait any more");
}

Test(page_cache, leaves_lanes_where_they_stand_if_snapshots_are_the_same)
{
        struct frame *same = frame_create("9:9:", 0, 77); /* of another transaction */

        for (size_t i = 0; i < N_LANES; i++)
                page_cache_call_off(cache, &lanes[i].waiter);
        frame_unref(lanes[9].next.from);
        lanes[9].next.from = same;
        ask(&lanes[8]);
        ask(&lanes[9]);
        look("t8", 0);
        page_cache_serve(cache, 0);
        cr_expect_not(is_asked, "one page was read for both");
}
