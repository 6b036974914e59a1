#include "delivery/page_cache.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Pages kept for slow receivers, which read from memory what the others have read. */
#define KEPT_PAGES     64
#define KEPT_BYTES_MAX (8u << 20)

/* A page that was read for many lanes. It lives as long as a view, or the cache, refers to it. */
struct shared_page {
        struct list link; /* page_cache::kept */
        int n_references;
        struct page *page; /* owned */
};

struct page_cache {
        struct lane_store *store; /* borrowed */
        struct page_cache_events events;
        const struct routing *const *routings; /* borrowed */
        size_t n_routings;

        struct list asking;  /* page_waiter::link */
        struct list missing; /* page_waiter::link: their page is not in memory */
        struct list reading; /* page_waiter::link: the page being read answers them */
        bool is_reading;
        bool is_opening;  /* the page being read opens a difference that ends now */
        bool is_outdated; /* the routings have changed since it was asked for */

        /* The end of the newest difference, and the number of rings when it was opened. */
        struct frame *newest;
        uint64_t n_rings, n_rings_then, n_rings_asked;

        struct list kept;
        size_t n_kept, bytes_kept;
};

struct view {
        struct page page; /* first, so that release_view() finds the rest */
        struct shared_page *shared;
};

static struct shared_page *shared_page_create(struct page *page)
{
        struct shared_page *shared = xcalloc(1, sizeof *shared);

        list_init(&shared->link);
        shared->n_references = 1;
        shared->page = page;
        return shared;
}

static void shared_page_unref(struct shared_page *shared)
{
        if (--shared->n_references > 0)
                return;
        shared->page->release(shared->page);
        free(shared);
}

static void release_view(struct page *page)
{
        struct view *view = (struct view *)(void *)page;

        shared_page_unref(view->shared);
        cursor_deinit(&page->start);
        free(page->events);
        free(page->is_delayed);
        free(page->is_unjudged);
        free(view);
}

static void add_event(struct page *view, const struct page *page, size_t i, size_t n_max)
{
        if (view->events == NULL)
                view->events = xcalloc(n_max, sizeof *view->events);
        if (page->is_delayed != NULL && page->is_delayed[i]) {
                if (view->is_delayed == NULL)
                        view->is_delayed = xcalloc(n_max, sizeof *view->is_delayed);
                view->is_delayed[view->n_events] = true;
        }
        view->events[view->n_events++] = page->events[i];
        view->bytes += page->events[i].payload_bytes;
        view->upto = page->events[i].id;
}

/* The events that the lane takes, as many as it asked for, and one at least if there is any. They
 * point into the shared page. */
static struct page *view_create(struct shared_page *shared, size_t max_events, uint64_t max_bytes,
    page_takes_fn *takes, void *owner)
{
        struct view *view = xcalloc(1, sizeof *view);
        const struct page *page = shared->page;
        size_t n_max = page->n_events < max_events ? page->n_events : max_events;

        shared->n_references++;
        view->shared = shared;
        view->page.release = release_view;
        view->page.asked_us = page->asked_us;
        view->page.arrived_us = page->arrived_us;
        cursor_assign(&view->page.start, &page->start);
        for (size_t i = 0; i < page->n_events; i++) {
                if (!takes(owner, page, i))
                        continue;
                if (view->page.n_events == n_max ||
                    (view->page.n_events > 0 &&
                        view->page.bytes + page->events[i].payload_bytes > max_bytes))
                        return &view->page;
                add_event(&view->page, page, i, n_max);
        }
        view->page.upto = page->upto;
        return &view->page;
}

struct page_cache *page_cache_create(
    struct lane_store *store, const struct page_cache_events *events)
{
        struct page_cache *cache = xcalloc(1, sizeof *cache);

        cache->store = store;
        cache->events = *events;
        cache->n_rings = 1;
        list_init(&cache->asking);
        list_init(&cache->missing);
        list_init(&cache->reading);
        list_init(&cache->kept);
        return cache;
}

static void stop_keeping(struct page_cache *cache, struct shared_page *shared)
{
        list_remove(&shared->link);
        cache->n_kept--;
        cache->bytes_kept -= shared->page->bytes;
        shared_page_unref(shared);
}

static void forget_pages(struct page_cache *cache)
{
        list_for_each (link, &cache->kept)
                stop_keeping(cache, list_owner(link, struct shared_page, link));
}

static void forget_waiter(struct page_waiter *waiter)
{
        list_remove(&waiter->link);
        cursor_deinit(&waiter->start);
}

void page_cache_reset(struct page_cache *cache)
{
        forget_pages(cache);
        list_for_each (asking, &cache->asking)
                forget_waiter(list_owner(asking, struct page_waiter, link));
        list_for_each (missing, &cache->missing)
                forget_waiter(list_owner(missing, struct page_waiter, link));
        list_for_each (reading, &cache->reading)
                forget_waiter(list_owner(reading, struct page_waiter, link));
        cache->is_reading = false;
        frame_unref(cache->newest);
        cache->newest = NULL;
}

void page_cache_destroy(struct page_cache *cache)
{
        page_cache_reset(cache);
        free(cache);
}

void page_cache_set_routings(
    struct page_cache *cache, const struct routing *const *routings, size_t n_routings)
{
        cache->routings = routings;
        cache->n_routings = n_routings;
        cache->is_outdated = cache->is_reading;
        forget_pages(cache);
}

struct frame *page_cache_newest(const struct page_cache *cache)
{
        return cache->newest;
}

bool page_cache_is_idle(const struct page_cache *cache)
{
        return !cache->is_reading;
}

void page_cache_ring(struct page_cache *cache)
{
        cache->n_rings++;
}

void page_waiter_init(struct page_waiter *waiter)
{
        *waiter = (struct page_waiter){0};
        list_init(&waiter->link);
}

bool page_waiter_is_under_way(const struct page_waiter *waiter)
{
        return !list_is_empty(&waiter->link);
}

void page_cache_ask(
    struct page_cache *cache, struct page_waiter *waiter, const struct page_request *request)
{
        assert(!page_waiter_is_under_way(waiter));
        cursor_assign(&waiter->start, &request->start);
        waiter->max_events = request->max_events;
        waiter->max_bytes = request->max_event_bytes * request->max_events;
        list_push_back(&cache->asking, &waiter->link);
}

static bool frames_are_equal(const struct frame *a, const struct frame *b)
{
        if (a == b || a == NULL || b == NULL)
                return a == b;
        return a->floor == b->floor && a->xid == b->xid && strcmp(a->snapshot, b->snapshot) == 0;
}

/* True if the page begins at `start`. A lane that opens a difference takes any end. */
static bool begins_at(const struct page *page, const struct cursor *start)
{
        if (page->start.last_id != start->last_id ||
            !frames_are_equal(page->start.from, start->from))
                return false;
        return start->until == NULL || frames_are_equal(page->start.until, start->until);
}

static bool are_together(const struct cursor *a, const struct cursor *b)
{
        return a->last_id == b->last_id && frames_are_equal(a->from, b->from) &&
               frames_are_equal(a->until, b->until);
}

static void answer(
    struct page_cache *cache, struct page_waiter *waiter, struct shared_page *shared, bool is_old)
{
        struct page *view =
            view_create(shared, waiter->max_events, waiter->max_bytes, cache->events.takes, waiter);

        forget_waiter(waiter);
        cache->events.on_view(waiter, view, is_old);
}

static struct shared_page *find_kept(const struct page_cache *cache, const struct cursor *start)
{
        list_for_each (link, &cache->kept) {
                struct shared_page *shared = list_owner(link, struct shared_page, link);
                if (begins_at(shared->page, start))
                        return shared;
        }
        return NULL;
}

static void move_all(struct list *from, struct list *to)
{
        while (!list_is_empty(from)) {
                struct list *link = from->next;
                list_remove(link);
                list_push_back(to, link);
        }
}

/* Lanes that wait for a page that begins here can have this one. */
static void offer(struct page_cache *cache, const struct shared_page *shared)
{
        list_for_each (link, &cache->missing) {
                if (!begins_at(shared->page, &list_owner(link, struct page_waiter, link)->start))
                        continue;
                list_remove(link);
                list_push_back(&cache->asking, link);
        }
}

static void keep(struct page_cache *cache, struct shared_page *shared)
{
        offer(cache, shared);
        shared->n_references++;
        list_push_front(&cache->kept, &shared->link);
        cache->n_kept++;
        cache->bytes_kept += shared->page->bytes;
        while (
            cache->n_kept > KEPT_PAGES || (cache->n_kept > 1 && cache->bytes_kept > KEPT_BYTES_MAX))
                stop_keeping(cache, list_owner(cache->kept.prev, struct shared_page, link));
}

/* One request for all lanes at the place of the first, as small as the smallest of theirs. */
static void gather(struct page_cache *cache, struct page_request *request)
{
        struct page_waiter *first = list_owner(cache->missing.next, struct page_waiter, link);
        uint64_t max_bytes = first->max_bytes;

        request->start = first->start;
        request->max_events = first->max_events;
        list_for_each (link, &cache->missing) {
                struct page_waiter *waiter = list_owner(link, struct page_waiter, link);
                if (!are_together(&waiter->start, &first->start))
                        continue;
                if (waiter->max_events < request->max_events)
                        request->max_events = waiter->max_events;
                if (waiter->max_bytes < max_bytes)
                        max_bytes = waiter->max_bytes;
                list_remove(&waiter->link);
                list_push_back(&cache->reading, &waiter->link);
        }
        request->max_event_bytes = max_bytes / request->max_events;
}

static void read_page(struct page_cache *cache)
{
        struct page_request request = {
            .routings = cache->routings, .n_routings = cache->n_routings};

        gather(cache, &request);
        cache->is_opening = request.start.until == NULL;
        if (cache->is_opening && cache->newest != NULL && cache->n_rings_then == cache->n_rings &&
            !frames_are_equal(cache->newest, request.start.from)) {
                request.start.until = cache->newest;
                cache->is_opening = false;
        }
        cache->is_reading = true;
        cache->is_outdated = false;
        cache->n_rings_asked = cache->n_rings;
        lane_store_read(cache->store, &request);
}

void page_cache_serve(struct page_cache *cache)
{
        /* A lane that is answered may ask again at once: that waits for the next call. */
        struct list asking;

        list_init(&asking);
        move_all(&cache->asking, &asking);
        while (!list_is_empty(&asking)) {
                struct page_waiter *waiter = list_owner(asking.next, struct page_waiter, link);
                struct shared_page *shared = find_kept(cache, &waiter->start);
                list_remove(&waiter->link);
                if (shared != NULL)
                        answer(cache, waiter, shared,
                            cache->n_rings_then != cache->n_rings ||
                                shared->page->start.until != cache->newest);
                else
                        list_push_back(&cache->missing, &waiter->link);
        }
        if (!cache->is_reading && !list_is_empty(&cache->missing))
                read_page(cache);
}

/* Where nothing is new since the newest frame, that one is still up to date. */
static void note_opened(struct page_cache *cache, const struct page *page)
{
        if (!cache->is_opening)
                return;
        if (!page_is_nothing_new(page)) {
                frame_unref(cache->newest);
                cache->newest = frame_ref(page->start.until);
                cache->n_rings_then = cache->n_rings_asked;
        } else if (frames_are_equal(page->start.from, cache->newest)) {
                cache->n_rings_then = cache->n_rings_asked;
        }
}

void page_cache_take_page(struct page_cache *cache, struct page *page)
{
        struct shared_page *shared = shared_page_create(page);
        struct list readers;

        assert(cache->is_reading);
        list_init(&readers);
        cache->is_reading = false;
        note_opened(cache, page);
        move_all(&cache->reading, &readers);
        /* If the routings have changed, the page may lack events that a lane takes: read it again.
         * And where nothing is new now, something may be when a lane asks again from there. */
        if (!cache->is_outdated && !page_is_nothing_new(page))
                keep(cache, shared);
        while (!list_is_empty(&readers)) {
                struct page_waiter *waiter = list_owner(readers.next, struct page_waiter, link);
                if (cache->is_outdated) {
                        list_remove(&waiter->link);
                        list_push_back(&cache->asking, &waiter->link);
                } else {
                        answer(cache, waiter, shared, false);
                }
        }
        shared_page_unref(shared);
}

/* Lanes at other places in the log may have more luck: only these fail. */
void page_cache_fail_page(struct page_cache *cache, const struct error *error)
{
        struct list readers;

        assert(cache->is_reading);
        list_init(&readers);
        cache->is_reading = false;
        move_all(&cache->reading, &readers);
        while (!list_is_empty(&readers)) {
                struct page_waiter *waiter = list_owner(readers.next, struct page_waiter, link);
                forget_waiter(waiter);
                cache->events.on_failed(waiter, error);
        }
}
