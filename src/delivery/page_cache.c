#include "delivery/page_cache.h"

#include "base/alloc.h"
#include "delivery/page_view.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Pages kept for those who come later: a slow receiver reads from memory what others have read. */
#define KEPT_PAGES     64
#define KEPT_BYTES_MAX (8u << 20)

struct page_desk {
        struct lane_store *store; /* borrowed */
        struct page_desk_events events;
        const struct routing *const *routings; /* borrowed */
        size_t n_routings;

        struct list asking;  /* page_ask::link */
        struct list missing; /* page_ask::link: what they ask for is not in memory */
        struct list reading; /* page_ask::link: those whom the page under way answers */
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

struct page_desk *page_desk_create(struct lane_store *store, const struct page_desk_events *events)
{
        struct page_desk *desk = xcalloc(1, sizeof *desk);

        desk->store = store;
        desk->events = *events;
        desk->n_rings = 1;
        list_init(&desk->asking);
        list_init(&desk->missing);
        list_init(&desk->reading);
        list_init(&desk->kept);
        return desk;
}

static void stop_keeping(struct page_desk *desk, struct shared_page *shared)
{
        list_remove(&shared->link);
        desk->n_kept--;
        desk->bytes_kept -= shared->page->bytes;
        shared_page_unref(shared);
}

static void forget_pages(struct page_desk *desk)
{
        list_for_each (link, &desk->kept)
                stop_keeping(desk, list_owner(link, struct shared_page, link));
}

static void forget_ask(struct page_ask *ask)
{
        list_remove(&ask->link);
        cursor_deinit(&ask->start);
}

void page_desk_reset(struct page_desk *desk)
{
        forget_pages(desk);
        list_for_each (asking, &desk->asking)
                forget_ask(list_owner(asking, struct page_ask, link));
        list_for_each (missing, &desk->missing)
                forget_ask(list_owner(missing, struct page_ask, link));
        list_for_each (reading, &desk->reading)
                forget_ask(list_owner(reading, struct page_ask, link));
        if (desk->page != NULL)
                desk->page->release(desk->page);
        desk->page = NULL;
        desk->is_reading = false;
        frame_unref(desk->newest);
        desk->newest = NULL;
}

void page_desk_destroy(struct page_desk *desk)
{
        page_desk_reset(desk);
        free(desk);
}

void page_desk_set_routings(
    struct page_desk *desk, const struct routing *const *routings, size_t n_routings)
{
        desk->routings = routings;
        desk->n_routings = n_routings;
        desk->is_outdated = desk->is_reading;
        forget_pages(desk);
}

struct frame *page_desk_newest(const struct page_desk *desk)
{
        return desk->newest;
}

bool page_desk_is_idle(const struct page_desk *desk)
{
        return !desk->is_reading && desk->page == NULL;
}

void page_desk_ring(struct page_desk *desk)
{
        desk->n_rings++;
}

void page_ask_init(struct page_ask *ask)
{
        *ask = (struct page_ask){0};
        list_init(&ask->link);
}

bool page_ask_is_under_way(const struct page_ask *ask)
{
        return !list_is_empty(&ask->link);
}

void page_desk_ask(struct page_desk *desk, struct page_ask *ask, const struct page_request *request)
{
        assert(!page_ask_is_under_way(ask));
        cursor_assign(&ask->start, &request->start);
        ask->max_events = request->max_events;
        ask->max_bytes = request->max_event_bytes * request->max_events;
        list_push_back(&desk->asking, &ask->link);
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
    struct page_desk *desk, struct page_ask *ask, struct shared_page *shared, bool is_old)
{
        struct page *view =
            page_view_create(shared, ask->max_events, ask->max_bytes, desk->events.takes, ask);

        forget_ask(ask);
        desk->events.on_view(ask, view, is_old);
}

static struct shared_page *find_kept(const struct page_desk *desk, const struct cursor *start)
{
        list_for_each (link, &desk->kept) {
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
static void offer(struct page_desk *desk, const struct shared_page *shared)
{
        list_for_each (link, &desk->missing) {
                if (!begins_at(shared->page, &list_owner(link, struct page_ask, link)->start))
                        continue;
                list_remove(link);
                list_push_back(&desk->asking, link);
        }
}

static void keep(struct page_desk *desk, struct shared_page *shared)
{
        offer(desk, shared);
        shared->n_references++;
        list_push_front(&desk->kept, &shared->link);
        desk->n_kept++;
        desk->bytes_kept += shared->page->bytes;
        while (desk->n_kept > KEPT_PAGES || (desk->n_kept > 1 && desk->bytes_kept > KEPT_BYTES_MAX))
                stop_keeping(desk, list_owner(desk->kept.prev, struct shared_page, link));
}

/* Everybody at the same place, and as little as the most modest of them asked for. */
static void gather(struct page_desk *desk, struct page_request *request)
{
        struct page_ask *first = list_owner(desk->missing.next, struct page_ask, link);
        uint64_t max_bytes = first->max_bytes;

        request->start = first->start;
        request->max_events = first->max_events;
        list_for_each (link, &desk->missing) {
                struct page_ask *ask = list_owner(link, struct page_ask, link);
                if (!are_together(&ask->start, &first->start))
                        continue;
                if (ask->max_events < request->max_events)
                        request->max_events = ask->max_events;
                if (ask->max_bytes < max_bytes)
                        max_bytes = ask->max_bytes;
                list_remove(&ask->link);
                list_push_back(&desk->reading, &ask->link);
        }
        request->max_event_bytes = max_bytes / request->max_events;
}

static void read_page(struct page_desk *desk)
{
        struct page_request request = {.routings = desk->routings, .n_routings = desk->n_routings};

        gather(desk, &request);
        desk->is_opening = request.start.until == NULL;
        if (desk->is_opening && desk->newest != NULL && desk->n_rings_then == desk->n_rings &&
            !frames_are_equal(desk->newest, request.start.from)) {
                request.start.until = desk->newest;
                desk->is_opening = false;
        }
        desk->is_reading = true;
        desk->is_outdated = false;
        desk->n_rings_asked = desk->n_rings;
        lane_store_read(desk->store, &request);
}

void page_desk_serve(struct page_desk *desk)
{
        /* Who is answered may ask again at once: that is for the next time. */
        struct list asking;

        list_init(&asking);
        move_all(&desk->asking, &asking);
        while (!list_is_empty(&asking)) {
                struct page_ask *ask = list_owner(asking.next, struct page_ask, link);
                struct shared_page *shared = find_kept(desk, &ask->start);
                list_remove(&ask->link);
                if (shared != NULL)
                        answer(desk, ask, shared,
                            desk->n_rings_then != desk->n_rings ||
                                shared->page->start.until != desk->newest);
                else
                        list_push_back(&desk->missing, &ask->link);
        }
        if (!desk->is_reading && !list_is_empty(&desk->missing))
                read_page(desk);
}

/* A frame without a transaction id is nobody's next start: nothing was new. Then the newest one is
 * as good as this. */
static void note_opened(struct page_desk *desk, const struct page *page)
{
        if (!desk->is_opening)
                return;
        if (page->start.until->xid != 0) {
                frame_unref(desk->newest);
                desk->newest = frame_ref(page->start.until);
                desk->n_rings_then = desk->n_rings_asked;
        } else if (frames_are_equal(page->start.from, desk->newest)) {
                desk->n_rings_then = desk->n_rings_asked;
        }
}

static void hand_out(struct page_desk *desk, struct page *page)
{
        struct shared_page *shared = shared_page_create(page);
        struct list readers;

        list_init(&readers);
        desk->is_reading = false;
        note_opened(desk, page);
        move_all(&desk->reading, &readers);
        /* Under other routings the page may lack what somebody takes: it has to be read again. */
        if (!desk->is_outdated && page->start.until->xid != 0)
                keep(desk, shared);
        while (!list_is_empty(&readers)) {
                struct page_ask *ask = list_owner(readers.next, struct page_ask, link);
                if (desk->is_outdated) {
                        list_remove(&ask->link);
                        list_push_back(&desk->asking, &ask->link);
                } else {
                        answer(desk, ask, shared, false);
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

void page_desk_take_page(struct page_desk *desk, struct page *page)
{
        assert(desk->is_reading && desk->page == NULL);
        if (needs_xid(page)) {
                desk->page = page;
                lane_store_draw_xid(desk->store);
        } else {
                hand_out(desk, page);
        }
}

/* Those who stand elsewhere in the log may be luckier. */
void page_desk_fail_page(struct page_desk *desk, const struct error *error)
{
        struct list readers;

        assert(desk->is_reading && desk->page == NULL);
        list_init(&readers);
        desk->is_reading = false;
        move_all(&desk->reading, &readers);
        while (!list_is_empty(&readers)) {
                struct page_ask *ask = list_owner(readers.next, struct page_ask, link);
                forget_ask(ask);
                desk->events.on_failed(ask, error);
        }
}

void page_desk_take_xid(struct page_desk *desk, uint64_t xid)
{
        struct page *page = desk->page;

        desk->page = NULL;
        page->start.until->xid = xid;
        hand_out(desk, page);
}
