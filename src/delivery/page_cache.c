#include "delivery/page_cache.h"

#include "base/alloc.h"
#include "delivery/page_view.h"
#include "text/topic_index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Pages kept for slow receivers, which read from memory what the others have read. */
#define KEPT_PAGES     64
#define KEPT_BYTES_MAX (8u << 20)

/* A lane is told how far it has come after so long; of many, one in a hundred each tenth of a
 * second, so that they do not write their cursors all at once. */
#define TELL_MS       15000
#define TELL_STEP_MS  100
#define TELL_IN_STEPS 100

/* Each lane of a small group is asked what it takes; those of a larger one are looked up. */
#define FEW_LANES 8

/* Lanes that stand at one place in the log. */
struct group {
        struct list link;    /* page_cache::groups */
        struct cursor place; /* no lane of the group takes anything before it */
        struct list waiters; /* page_waiter::link */
        size_t n_waiters;
};

struct page_cache {
        struct lane_store *store; /* borrowed */
        struct page_cache_settings settings;
        struct page_cache_events events;
        const struct routing **routings; /* owned; of all that may ask */
        struct topic_index index;        /* of these; its owners are the waiters */

        struct list asking;    /* page_waiter::link: not looked at yet */
        struct list groups;    /* group::link; the one read longest ago comes first */
        struct list by_age;    /* page_waiter::age_link: those in groups */
        int64_t told_ms;       /* when lanes were told last how far they have come */
        struct group *reading; /* its page is being read; NULL: none is */
        bool is_opening;       /* and opens a difference that ends now */
        bool is_outdated;      /* the routings have changed since it was asked for */

        /* The end of the newest difference, and the number of rings when it was opened. */
        struct frame *newest;
        uint64_t n_rings, n_rings_then, n_rings_asked;

        struct list kept; /* shared_page::link, the newest first */
        size_t n_kept, bytes_kept;
};

struct page_cache *page_cache_create(struct lane_store *store,
    const struct page_cache_settings *settings, const struct page_cache_events *events)
{
        struct page_cache *cache = xcalloc(1, sizeof *cache);

        cache->store = store;
        cache->settings = *settings;
        cache->events = *events;
        cache->n_rings = 1;
        list_init(&cache->asking);
        list_init(&cache->groups);
        list_init(&cache->by_age);
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

static void leave_group(struct page_waiter *waiter)
{
        list_remove(&waiter->link);
        list_remove(&waiter->age_link);
        if (waiter->group != NULL)
                waiter->group->n_waiters--;
        waiter->group = NULL;
}

static void forget_waiter(struct page_waiter *waiter)
{
        leave_group(waiter);
        cursor_deinit(&waiter->start);
}

static void drop_group(struct group *group)
{
        list_for_each (link, &group->waiters)
                forget_waiter(list_owner(link, struct page_waiter, link));
        list_remove(&group->link);
        cursor_deinit(&group->place);
        free(group);
}

void page_cache_reset(struct page_cache *cache)
{
        forget_pages(cache);
        list_for_each (asking, &cache->asking)
                forget_waiter(list_owner(asking, struct page_waiter, link));
        list_for_each (link, &cache->groups)
                drop_group(list_owner(link, struct group, link));
        cache->reading = NULL;
        frame_unref(cache->newest);
        cache->newest = NULL;
}

void page_cache_destroy(struct page_cache *cache)
{
        page_cache_reset(cache);
        topic_index_deinit(&cache->index);
        free(cache->routings);
        free(cache);
}

void page_cache_ring(struct page_cache *cache)
{
        cache->n_rings++;
}

void page_cache_set_waiters(
    struct page_cache *cache, struct page_waiter *const *waiters, size_t n_waiters)
{
        static const struct routing nothing;

        cache->routings =
            xrealloc(cache->routings, (n_waiters + 1) * sizeof(const struct routing *));
        topic_index_deinit(&cache->index);
        for (size_t i = 0; i < n_waiters; i++) {
                const struct routing *routing = waiters[i]->routing;
                cache->routings[i] = routing;
                topic_index_add(&cache->index, routing->topics, routing->n_topics, waiters[i]);
        }
        cache->routings[n_waiters] = &nothing; /* so that there are several, or none */
        lane_store_route(cache->store, cache->routings,
            cache->settings.are_alike && n_waiters > 0 ? 1 : n_waiters + 1);
        cache->is_outdated = cache->reading != NULL;
        page_cache_ring(cache); /* that nothing is new was said of what other lanes take */
        forget_pages(cache);
}

struct frame *page_cache_newest(const struct page_cache *cache)
{
        return cache->newest;
}

bool page_cache_is_idle(const struct page_cache *cache)
{
        return cache->reading == NULL;
}

void page_waiter_init(struct page_waiter *waiter)
{
        *waiter = (struct page_waiter){0};
        list_init(&waiter->link);
        list_init(&waiter->age_link);
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

/* The snapshot alone says what is visible; floor and xid, where to look for it. */
static bool frames_are_equal(const struct frame *a, const struct frame *b)
{
        if (a == b || a == NULL || b == NULL)
                return a == b;
        return strcmp(a->snapshot, b->snapshot) == 0;
}

/* The difference that the page belongs to has no event at all. */
static bool is_of_nothing(const struct page *page)
{
        return frames_are_equal(page->start.from, page->start.until);
}

static bool are_together(const struct cursor *a, const struct cursor *b)
{
        return a->last_id == b->last_id && frames_are_equal(a->from, b->from) &&
               frames_are_equal(a->until, b->until);
}

/* True if the page says what comes next at the place. Where a difference is to be opened, any end
 * will do. */
static bool covers(const struct page *page, const struct cursor *place)
{
        if (place->last_id < page->start.last_id ||
            (place->last_id >= page->upto && place->last_id > page->start.last_id) ||
            !frames_are_equal(page->start.from, place->from))
                return false;
        return place->until == NULL || frames_are_equal(page->start.until, place->until);
}

static void move_behind(struct cursor *place, const struct page *page)
{
        const struct cursor within = {
            .from = page->start.from, .until = page->start.until, .last_id = page->upto};
        const struct cursor ended = {.from = page->start.until};

        cursor_assign(place, page_ends_difference(page) ? &ended : &within);
}

static struct page_wish wish_of(const struct page_cache *cache, struct page_waiter *waiter)
{
        return (struct page_wish){.first = waiter->first,
            .max_events = waiter->max_events,
            .max_bytes = waiter->max_bytes,
            .takes = cache->events.takes,
            .owner = waiter};
}

/* Finds the first event from number `first` on that the lane takes, if there is any. */
static bool takes_any(const struct page_cache *cache, struct page_waiter *waiter,
    const struct page *page, size_t first)
{
        struct page_wish wish;

        waiter->first = first;
        wish = wish_of(cache, waiter);
        waiter->first = page_wish_find(&wish, page);
        return waiter->first < page->n_events;
}

static void answer(struct page_cache *cache, struct page_waiter *waiter, struct shared_page *shared)
{
        const struct page_wish wish = wish_of(cache, waiter);
        struct page *view = page_view_create(shared, &wish);

        forget_waiter(waiter);
        cache->events.on_view(waiter, view);
}

/* Tells a lane how far it has come, and no more. */
static void answer_passed(struct page_cache *cache, struct page_waiter *waiter)
{
        struct page *page = page_create_passed(
            &waiter->start, waiter->group != NULL ? &waiter->group->place : &waiter->start);

        forget_waiter(waiter);
        cache->events.on_view(waiter, page);
}

void page_cache_call_off(struct page_cache *cache, struct page_waiter *waiter)
{
        if (page_waiter_is_under_way(waiter))
                answer_passed(cache, waiter);
}

static struct shared_page *find_kept(const struct page_cache *cache, const struct cursor *place)
{
        list_for_each (link, &cache->kept) {
                struct shared_page *shared = list_owner(link, struct shared_page, link);
                if (covers(shared->page, place))
                        return shared;
        }
        return NULL;
}

static struct group *find_group(
    const struct page_cache *cache, const struct cursor *place, const struct group *other_than)
{
        list_for_each (link, &cache->groups) {
                struct group *group = list_owner(link, struct group, link);
                if (group != other_than && are_together(&group->place, place))
                        return group;
        }
        return NULL;
}

static void add_to_group(struct group *group, struct page_waiter *waiter)
{
        list_push_back(&group->waiters, &waiter->link);
        waiter->group = group;
        group->n_waiters++;
}

static void join(struct page_cache *cache, struct page_waiter *waiter, const struct cursor *place,
    int64_t now_ms)
{
        struct group *group = find_group(cache, place, NULL);

        if (group == NULL) {
                group = xcalloc(1, sizeof *group);
                list_init(&group->waiters);
                cursor_assign(&group->place, place);
                list_push_back(&cache->groups, &group->link);
        }
        add_to_group(group, waiter);
        list_push_back(&cache->by_age, &waiter->age_link);
        waiter->since_ms = now_ms;
}

/* The number of the first event that is not behind the place. */
static size_t first_event(const struct page *page, const struct cursor *place)
{
        size_t i = 0;

        while (i < page->n_events && page->events[i].id <= place->last_id)
                i++;
        return i;
}

/* Goes through the pages in memory, to the first with an event that the lane takes. */
static void seek(struct page_cache *cache, struct page_waiter *waiter, int64_t now_ms)
{
        struct cursor place = {0};
        struct shared_page *shared;

        list_remove(&waiter->link);
        cursor_assign(&place, &waiter->start);
        while ((shared = find_kept(cache, &place)) != NULL &&
               !takes_any(cache, waiter, shared->page, first_event(shared->page, &place)))
                move_behind(&place, shared->page);
        if (shared != NULL)
                answer(cache, waiter, shared);
        else
                join(cache, waiter, &place, now_ms);
        cursor_deinit(&place);
}

/* The lanes of a group that take something of a page. */
struct search {
        const struct page_cache *cache;
        struct group *group;
        const struct page *page;
        size_t i; /* the event */
        struct list takers;
};

static void note_taker(struct search *search, struct page_waiter *waiter)
{
        list_remove(&waiter->link);
        list_push_back(&search->takers, &waiter->link);
        search->group->n_waiters--;
        waiter->group = NULL;
}

static void ask_found(void *context, void *owner)
{
        struct search *search = context;
        struct page_waiter *waiter = owner;

        if (waiter->group != search->group ||
            !search->cache->events.takes(waiter, search->page, search->i))
                return;
        waiter->first = search->i;
        note_taker(search, waiter);
}

static void find_takers(struct page_cache *cache, struct search *search)
{
        const struct page *page = search->page;
        size_t first = first_event(page, &search->group->place);

        if (search->group->n_waiters > FEW_LANES) {
                for (search->i = first; search->i < page->n_events; search->i++)
                        topic_index_find(
                            &cache->index, page->events[search->i].topic, ask_found, search);
                return;
        }
        list_for_each (link, &search->group->waiters) {
                struct page_waiter *waiter = list_owner(link, struct page_waiter, link);
                if (takes_any(cache, waiter, page, first))
                        note_taker(search, waiter);
        }
}

/* Takes the group to the page's end, but for the lanes that the page has something for. */
static void pass(struct page_cache *cache, struct group *group, struct shared_page *shared)
{
        struct search search = {.cache = cache, .group = group, .page = shared->page};

        list_init(&search.takers);
        find_takers(cache, &search);
        move_behind(&group->place, shared->page);
        while (!list_is_empty(&search.takers))
                answer(cache, list_owner(search.takers.next, struct page_waiter, link), shared);
}

static void merge(struct page_cache *cache, struct group *group)
{
        struct group *other = find_group(cache, &group->place, group);

        if (other == NULL)
                return;
        list_for_each (link, &group->waiters) {
                list_remove(link);
                add_to_group(other, list_owner(link, struct page_waiter, link));
        }
        group->n_waiters = 0;
}

static void advance(struct page_cache *cache, struct group *group, struct shared_page *shared)
{
        while (shared != NULL && group->n_waiters > 0) {
                pass(cache, group, shared);
                shared = find_kept(cache, &group->place);
        }
        merge(cache, group);
}

static void keep(struct page_cache *cache, struct shared_page *shared)
{
        list_push_front(&cache->kept, &shared_page_ref(shared)->link);
        cache->n_kept++;
        cache->bytes_kept += shared->page->bytes;
        while (
            cache->n_kept > KEPT_PAGES || (cache->n_kept > 1 && cache->bytes_kept > KEPT_BYTES_MAX))
                stop_keeping(cache, list_owner(cache->kept.prev, struct shared_page, link));
}

static bool is_wanting(const struct page_cache *cache, const struct group *group)
{
        return group->place.until != NULL || cache->n_rings_then != cache->n_rings ||
               cache->newest == NULL || frame_is_older(group->place.from, cache->newest);
}

static void read_page(struct page_cache *cache, struct group *group)
{
        struct page_request request = {.start = group->place,
            .max_events = cache->settings.max_events,
            .max_event_bytes = cache->settings.max_event_bytes};

        cache->is_opening = request.start.until == NULL;
        if (cache->is_opening && cache->newest != NULL && cache->n_rings_then == cache->n_rings &&
            frame_is_older(request.start.from, cache->newest)) {
                request.start.until = cache->newest;
                cache->is_opening = false;
        }
        cache->reading = group;
        cache->is_outdated = false;
        cache->n_rings_asked = cache->n_rings;
        lane_store_read(cache->store, &request);
}

/* Reads for the group that has waited longest. */
static void read_next(struct page_cache *cache)
{
        list_for_each (link, &cache->groups) {
                struct group *group = list_owner(link, struct group, link);
                if (group->n_waiters == 0) {
                        drop_group(group);
                } else if (is_wanting(cache, group)) {
                        list_remove(link);
                        list_push_back(&cache->groups, link);
                        read_page(cache, group);
                        return;
                }
        }
}

static size_t n_to_tell(const struct page_cache *cache)
{
        size_t n = 0;

        list_for_each (link, &cache->groups)
                n += list_owner(link, struct group, link)->n_waiters;
        return n / TELL_IN_STEPS + 1;
}

/* Tells lanes that have waited for long how far they have come. */
static void tell(struct page_cache *cache, int64_t now_ms)
{
        cache->told_ms = now_ms;
        for (size_t n = n_to_tell(cache); n > 0 && !list_is_empty(&cache->by_age); n--) {
                struct page_waiter *waiter =
                    list_owner(cache->by_age.next, struct page_waiter, age_link);

                if (now_ms < waiter->since_ms + TELL_MS)
                        return;
                if (are_together(&waiter->start, &waiter->group->place)) {
                        list_remove(&waiter->age_link);
                        list_push_back(&cache->by_age, &waiter->age_link);
                        waiter->since_ms = now_ms;
                } else {
                        answer_passed(cache, waiter);
                }
        }
}

int64_t page_cache_next_due(const struct page_cache *cache)
{
        int64_t due_ms;

        if (list_is_empty(&cache->by_age))
                return -1;
        due_ms = list_owner(cache->by_age.next, struct page_waiter, age_link)->since_ms + TELL_MS;
        return due_ms < cache->told_ms + TELL_STEP_MS ? cache->told_ms + TELL_STEP_MS : due_ms;
}

void page_cache_serve(struct page_cache *cache, int64_t now_ms)
{
        int64_t due_ms = page_cache_next_due(cache);
        struct list asking;

        if (due_ms >= 0 && due_ms <= now_ms)
                tell(cache, now_ms);
        /* A lane that is answered may ask again at once: that waits for the next call. */
        list_init(&asking);
        list_move_all(&cache->asking, &asking);
        while (!list_is_empty(&asking))
                seek(cache, list_owner(asking.next, struct page_waiter, link), now_ms);
        if (cache->reading == NULL)
                read_next(cache);
}

bool page_cache_is_at_end(const struct page_cache *cache, const struct page_waiter *waiter)
{
        return waiter->group != NULL && waiter->group != cache->reading &&
               !is_wanting(cache, waiter->group);
}

/* Where nothing is new since a frame, that one is still up to date, and so is any newer one. */
static void note_opened(struct page_cache *cache, const struct page *page)
{
        if (!cache->is_opening || (cache->is_outdated && is_of_nothing(page)))
                return;
        cache->n_rings_then = cache->n_rings_asked;
        if (cache->newest != NULL && !frame_is_older(cache->newest, page->start.until))
                return;
        frame_unref(cache->newest);
        cache->newest = frame_ref(page->start.until);
}

/* Other groups may stand where it begins, or within. */
static void offer(struct page_cache *cache, struct shared_page *shared)
{
        list_for_each (link, &cache->groups) {
                struct group *group = list_owner(link, struct group, link);
                if (group->n_waiters > 0 && covers(shared->page, &group->place))
                        advance(cache, group, shared);
        }
}

void page_cache_take_page(struct page_cache *cache, struct page *page)
{
        struct shared_page *shared = shared_page_create(page);
        struct group *group = cache->reading;

        assert(group != NULL);
        cache->reading = NULL;
        note_opened(cache, page);
        /* If the routings have changed, the page may lack events that a lane takes: it is read
         * again. And where nothing is new now, something may be when it is read again. */
        if (!cache->is_outdated && !is_of_nothing(page)) {
                keep(cache, shared);
                advance(cache, group, shared);
                offer(cache, shared);
        }
        shared_page_unref(shared);
}

/* Lanes at other places in the log may have more luck: only these fail. */
void page_cache_fail_page(struct page_cache *cache, const struct error *error)
{
        struct group *group = cache->reading;

        assert(group != NULL);
        cache->reading = NULL;
        while (!list_is_empty(&group->waiters)) {
                struct page_waiter *waiter =
                    list_owner(group->waiters.next, struct page_waiter, link);
                forget_waiter(waiter);
                cache->events.on_failed(waiter, error);
        }
}
