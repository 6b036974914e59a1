#include "delivery/page_cache.h"

#include "base/alloc.h"
#include "delivery/page_view.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Pages kept for those who come later: a slow receiver reads from memory what others have read. */
#define KEPT_PAGES     64
#define KEPT_BYTES_MAX (8u << 20)

struct page_cache {
        struct lane_store *store; /* borrowed */
        struct page_cache_events events;
        const struct routing *const *routings; /* borrowed */
        size_t n_routings;

        struct list asking;  /* page_waiter::link */
        struct list missing; /* page_waiter::link: what they ask for is not in memory */
        struct list reading; /* page_waiter::link: those whom the page under way answers */
        bool is_reading;
        bool is_opening;   /* the page under way opens a difference that ends now */
        bool is_outdated;  /* the routings have changed since it was asked for */
        struct page *page; /* read, but its frame needs a transaction id */

        /* The end of the newest difference, and how often somebody had rung when it was opened. */
        struct frame *newest;
        uint64_t n_rings, n_rings_then, n_rings_asked;

        struct list kept;
        size_t n_kept, bytes_kept;
};

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

static void forget_ask(struct page_waiter *ask)
{
        list_remove(&ask->link);
        cursor_deinit(&ask->start);
}

void page_cache_reset(struct page_cache *cache)
{
        forget_pages(cache);
        list_for_each (asking, &cache->asking)
                forget_ask(list_owner(asking, struct page_waiter, link));
        list_for_each (missing, &cache->missing)
                forget_ask(list_owner(missing, struct page_waiter, link));
        list_for_each (reading, &cache->reading)
                forget_ask(list_owner(reading, struct page_waiter, link));
        if (cache->page != NULL)
                cache->page->release(cache->page);
        cache->page = NULL;
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
        return !cache->is_reading && cache->page == NULL;
}

void page_cache_ring(struct page_cache *cache)
{
        cache->n_rings++;
}

void page_waiter_init(struct page_waiter *ask)
{
        *ask = (struct page_waiter){0};
        list_init(&ask->link);
}

bool page_waiter_is_under_way(const struct page_waiter *ask)
{
        return !list_is_empty(&ask->link);
}

void page_cache_ask(
    struct page_cache *cache, struct page_waiter *ask, const struct page_request *request)
{
        assert(!page_waiter_is_under_way(ask));
        cursor_assign(&ask->start, &request->start);
        ask->max_events = request->max_events;
        ask->max_bytes = request->max_event_bytes * request->max_events;
        list_push_back(&cache->asking, &ask->link);
}

static bool frames_are_equal(const struct frame *a, const struct frame *b)
{
        if (a == b || a == NULL || b == NULL)
                return a == b;
        return a->floor == b->floor && a->xid == b->xid && strcmp(a->snapshot, b->snapshot) == 0;
}

/* Where a page begins that was kept: if it opened its difference, any end will do. */
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
    struct page_cache *cache, struct page_waiter *ask, struct shared_page *shared, bool is_old)
{
        struct page *view =
            page_view_create(shared, ask->max_events, ask->max_bytes, cache->events.takes, ask);

        forget_ask(ask);
        cache->events.on_view(ask, view, is_old);
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

/* Who waits for a page that begins here can have this one. */
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

/* Everybody at the same place, and as little as the most modest of them asked for. */
static void gather(struct page_cache *cache, struct page_request *request)
{
        struct page_waiter *first = list_owner(cache->missing.next, struct page_waiter, link);
        uint64_t max_bytes = first->max_bytes;

        request->start = first->start;
        request->max_events = first->max_events;
        list_for_each (link, &cache->missing) {
                struct page_waiter *ask = list_owner(link, struct page_waiter, link);
                if (!are_together(&ask->start, &first->start))
                        continue;
                if (ask->max_events < request->max_events)
                        request->max_events = ask->max_events;
                if (ask->max_bytes < max_bytes)
                        max_bytes = ask->max_bytes;
                list_remove(&ask->link);
                list_push_back(&cache->reading, &ask->link);
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
        /* Who is answered may ask again at once: that is for the next time. */
        struct list asking;

        list_init(&asking);
        move_all(&cache->asking, &asking);
        while (!list_is_empty(&asking)) {
                struct page_waiter *ask = list_owner(asking.next, struct page_waiter, link);
                struct shared_page *shared = find_kept(cache, &ask->start);
                list_remove(&ask->link);
                if (shared != NULL)
                        answer(cache, ask, shared,
                            cache->n_rings_then != cache->n_rings ||
                                shared->page->start.until != cache->newest);
                else
                        list_push_back(&cache->missing, &ask->link);
        }
        if (!cache->is_reading && !list_is_empty(&cache->missing))
                read_page(cache);
}

/* A frame without a transaction id is nobody's next start: nothing was new. Then the newest one is
 * as good as this. */
static void note_opened(struct page_cache *cache, const struct page *page)
{
        if (!cache->is_opening)
                return;
        if (page->start.until->xid != 0) {
                frame_unref(cache->newest);
                cache->newest = frame_ref(page->start.until);
                cache->n_rings_then = cache->n_rings_asked;
        } else if (frames_are_equal(page->start.from, cache->newest)) {
                cache->n_rings_then = cache->n_rings_asked;
        }
}

static void hand_out(struct page_cache *cache, struct page *page)
{
        struct shared_page *shared = shared_page_create(page);
        struct list readers;

        list_init(&readers);
        cache->is_reading = false;
        note_opened(cache, page);
        move_all(&cache->reading, &readers);
        /* Under other routings the page may lack what somebody takes: it has to be read again. */
        if (!cache->is_outdated && page->start.until->xid != 0)
                keep(cache, shared);
        while (!list_is_empty(&readers)) {
                struct page_waiter *ask = list_owner(readers.next, struct page_waiter, link);
                if (cache->is_outdated) {
                        list_remove(&ask->link);
                        list_push_back(&cache->asking, &ask->link);
                } else {
                        answer(cache, ask, shared, false);
                }
        }
        shared_page_unref(shared);
}

/* Nobody can go on from a frame without its transaction id; but where nothing is new, nobody does. */
static bool needs_xid(const struct page *page)
{
        return page->start.until->xid == 0 &&
               (page->n_events > 0 || page->start.until->floor != page->start.from->floor);
}

void page_cache_take_page(struct page_cache *cache, struct page *page)
{
        assert(cache->is_reading && cache->page == NULL);
        if (needs_xid(page)) {
                cache->page = page;
                lane_store_draw_xid(cache->store);
        } else {
                hand_out(cache, page);
        }
}

/* Those who stand elsewhere in the log may be luckier. */
void page_cache_fail_page(struct page_cache *cache, const struct error *error)
{
        struct list readers;

        assert(cache->is_reading && cache->page == NULL);
        list_init(&readers);
        cache->is_reading = false;
        move_all(&cache->reading, &readers);
        while (!list_is_empty(&readers)) {
                struct page_waiter *ask = list_owner(readers.next, struct page_waiter, link);
                forget_ask(ask);
                cache->events.on_failed(ask, error);
        }
}

void page_cache_take_xid(struct page_cache *cache, uint64_t xid)
{
        struct page *page = cache->page;

        cache->page = NULL;
        page->start.until->xid = xid;
        hand_out(cache, page);
}
