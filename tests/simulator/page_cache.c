/*
 * The page cache alone, among lanes that are quick and slow, in a log that
 * grows: each lane must get what it takes, once and in the order of commits of
 * each writer, and when nothing more is published all must come to rest. What
 * happens follows from the seed.
 *
 *   page_cache_simulator [HISTORIES [FIRST_SEED]]
 *
 * An event is seen in a frame if it was committed before that; so a frame's
 * snapshot is a number of commits. A lane takes one topic, or all.
 */
#include "delivery/page_cache.h"

#include "base/alloc.h"
#include "simulator/dice.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        N_LANES = 12, /* more than the cache asks one by one, if they are together */
        MAX_EVENTS = 60,
        N_WRITERS = 4,
        N_TOPICS = 8,
        STEPS = 400,
        STEPS_TO_REST = 8000
};

static char patterns[N_TOPICS + 1][4] = {"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "**"};

struct event_state {
        unsigned topic, writer;
        unsigned commit; /* 0: not yet */
};

struct lane_state {
        struct page_waiter waiter;
        unsigned pattern;
        char *topics[1];
        struct routing routing;
        bool is_known; /* pages are read for it */
        bool is_owned, is_reading, is_rung;
        unsigned laziness; /* asks in one of so many steps */
        uint32_t max_events;
        uint64_t max_event_bytes;
        struct cursor next, settled;
        bool was_seen[MAX_EVENTS], was_seen_then[MAX_EVENTS]; /* then: when it settled */
        bool ever[MAX_EVENTS], always[MAX_EVENTS]; /* it took it, while it was still to come */
};

static struct {
        uint64_t seed;
        struct dice dice;
        struct event_state events[MAX_EVENTS];
        unsigned n_events, n_commits;
        uint64_t xid;
        struct lane_state lanes[N_LANES];
        struct page_waiter *waiters[N_LANES];
        struct page_cache *cache;
        int64_t now_ms;
        bool is_bell_ringing;

        /* What the database was asked. */
        bool is_reading;
        struct cursor read_from;
        uint32_t read_max;
        unsigned read_topics, route_topics;
        unsigned n_pages_held;
} sim;

static _Noreturn void broken(const char *what, unsigned lane, unsigned event)
{
        fprintf(stderr, "seed %" PRIu64 ": %s (lane %u, event %u)\n", sim.seed, what, lane, event);
        exit(1);
}

/* ---- the database ---------------------------------------------------------------------------- */

static bool is_visible(const struct event_state *event, const struct frame *frame)
{
        return event->commit != 0 && event->commit <= strtoul(frame->snapshot, NULL, 10);
}

static struct frame *frame_now(void)
{
        char snapshot[32];

        snprintf(snapshot, sizeof snapshot, "%u:%u:", sim.n_commits, sim.n_commits + 3);
        return frame_create(snapshot, sim.n_events, ++sim.xid);
}

void lane_store_read(struct lane_store *store, const struct page_request *request)
{
        (void)store;
        if (sim.is_reading)
                broken("a second page is asked for", 0, 0);
        sim.is_reading = true;
        cursor_assign(&sim.read_from, &request->start);
        sim.read_max = request->max_events;
        sim.read_topics = sim.route_topics;
}

static unsigned topics_of(unsigned pattern)
{
        return pattern < N_TOPICS ? 1u << pattern : (1u << N_TOPICS) - 1;
}

void lane_store_route(
    struct lane_store *store, const struct routing *const *routings, size_t n_routings)
{
        (void)store;
        sim.route_topics = 0;
        for (size_t i = 0; i < n_routings; i++)
                if (routings[i]->n_topics > 0)
                        sim.route_topics |=
                            topics_of((unsigned)(routings[i]->topics[0] - patterns[0]) /
                                      (unsigned)sizeof *patterns);
}

static void release_page(struct page *page)
{
        sim.n_pages_held--;
        cursor_deinit(&page->start);
        free(page->events);
        free(page);
}

static struct page *read_page(void)
{
        struct page *page = xcalloc(1, sizeof *page);
        const struct cursor *from = &sim.read_from;
        int64_t mark = from->from->floor - dice_between(&sim.dice, 0, 5);
        int64_t above = from->last_id > mark ? from->last_id : mark;
        int64_t scanned = above + dice_between(&sim.dice, 1, 30); /* as far as it looks */

        sim.n_pages_held++;
        page->release = release_page;
        cursor_assign(&page->start, &sim.read_from);
        if (page->start.until == NULL)
                page->start.until = frame_now();
        page->events = xcalloc(MAX_EVENTS, sizeof *page->events);
        page->upto = page->start.until->floor;
        for (int64_t id = page->start.last_id + 1; id <= page->start.until->floor; id++) {
                const struct event_state *event = &sim.events[id - 1];
                if (page->n_events == sim.read_max || id > scanned) {
                        page->upto = id - 1;
                        break;
                }
                if (!is_visible(event, page->start.until) || is_visible(event, page->start.from) ||
                    (sim.read_topics >> event->topic & 1u) == 0)
                        continue;
                page->events[page->n_events++] =
                    (struct event){.id = id, .topic = patterns[event->topic], .payload_bytes = 100};
                page->bytes += 100;
        }
        if (sim.read_from.until == NULL && page->n_events == 0 && page_ends_difference(page) &&
            page->start.until->floor == page->start.from->floor) {
                frame_unref(page->start.until);
                page->start.until = frame_ref(page->start.from);
        }
        return page;
}

/* ---- the lanes ------------------------------------------------------------------------------- */

static struct lane_state *lane_of(struct page_waiter *waiter)
{
        return list_owner(waiter, struct lane_state, waiter);
}

static unsigned number_of(const struct lane_state *lane)
{
        return (unsigned)(lane - sim.lanes);
}

static bool takes(const struct lane_state *lane, unsigned event)
{
        return (topics_of(lane->pattern) >> sim.events[event].topic & 1u) != 0;
}

static bool on_takes(void *waiter, const struct page *page, size_t i)
{
        return takes(lane_of(waiter), (unsigned)page->events[i].id - 1);
}

static void see(struct lane_state *lane, unsigned event)
{
        if (lane->was_seen[event])
                broken("an event comes twice", number_of(lane), event);
        if (!lane->ever[event])
                broken("an event comes that was never asked for", number_of(lane), event);
        for (unsigned later = event + 1; later < sim.n_events; later++)
                if (sim.events[later].writer == sim.events[event].writer && lane->was_seen[later])
                        broken("an event comes after a later one", number_of(lane), event);
        lane->was_seen[event] = true;
}

/* As lane_take_page() does. */
static void on_view(struct page_waiter *waiter, struct page *view)
{
        struct lane_state *lane = lane_of(waiter);
        bool is_nothing_new = page_is_nothing_new(view);
        struct cursor next = {
            .from = view->start.from, .until = view->start.until, .last_id = view->upto};

        if (!lane->is_reading)
                broken("a page comes that was not asked for", number_of(lane), 0);
        if (view->n_events > lane->max_events)
                broken("a page has more events than were asked for", number_of(lane), 0);
        lane->is_reading = false;
        lane->is_rung = true;
        for (size_t i = 0; i < view->n_events; i++)
                see(lane, (unsigned)view->events[i].id - 1);
        if (page_ends_difference(view))
                next = (struct cursor){.from = view->start.until};
        if (!is_nothing_new)
                cursor_assign(&lane->next, &next);
        view->release(view);
}

/* As lane_fail_page() does. */
static void on_failed(struct page_waiter *waiter, const struct error *error)
{
        struct lane_state *lane = lane_of(waiter);

        (void)error;
        if (!lane->is_reading)
                broken("a page comes that was not asked for", number_of(lane), 0);
        lane->is_reading = false;
        lane->is_rung |= lane->next.until == NULL;
}

static bool wants_page(const struct lane_state *lane)
{
        return lane->is_owned && !lane->is_reading && (lane->next.until != NULL || lane->is_rung);
}

static void ask(struct lane_state *lane)
{
        struct page_request request = {.start = lane->next,
            .max_events = lane->max_events,
            .max_event_bytes = lane->max_event_bytes};

        if (lane->next.until == NULL)
                lane->is_rung = false;
        lane->is_reading = true;
        page_cache_ask(sim.cache, &lane->waiter, &request);
}

static struct frame *read_frame(const struct frame *frame)
{
        return frame != NULL ? frame_create(frame->snapshot, frame->floor, frame->xid) : NULL;
}

static void note_lanes(void)
{
        size_t n = 0;

        for (unsigned i = 0; i < N_LANES; i++)
                if (sim.lanes[i].is_known)
                        sim.waiters[n++] = &sim.lanes[i].waiter;
        page_cache_set_waiters(sim.cache, sim.waiters, n);
}

/* From where it has settled, as text in the database says. */
static void own(struct lane_state *lane)
{
        struct cursor next = {.from = read_frame(lane->settled.from),
            .until = read_frame(lane->settled.until),
            .last_id = lane->settled.last_id};

        cursor_deinit(&lane->next);
        lane->next = next;
        lane->is_owned = lane->is_rung = true;
        memcpy(lane->was_seen, lane->was_seen_then, sizeof lane->was_seen);
}

/* A receiver is known before its lane is ours. */
static void know(struct lane_state *lane)
{
        lane->is_known = true;
        note_lanes();
}

/* As a shard that another relay is to have. */
static void give_back(struct lane_state *lane)
{
        page_cache_call_off(sim.cache, &lane->waiter);
        lane->is_owned = lane->is_known = false;
        note_lanes();
}

static void settle(struct lane_state *lane)
{
        if (!lane->is_owned)
                return;
        cursor_assign(&lane->settled, &lane->next);
        memcpy(lane->was_seen_then, lane->was_seen, sizeof lane->was_seen);
}

static void lose_session(void)
{
        page_cache_reset(sim.cache);
        sim.is_reading = false;
        for (unsigned i = 0; i < N_LANES; i++)
                sim.lanes[i].is_owned = sim.lanes[i].is_reading = false;
}

static void roll_routing(struct lane_state *lane)
{
        lane->pattern = dice_one_in(&sim.dice, 6) ? N_TOPICS : dice_below(&sim.dice, N_TOPICS);
        lane->topics[0] = patterns[lane->pattern];
        lane->routing = (struct routing){.topics = lane->topics, .n_topics = 1};
}

/* A new receiver takes the place of the lane's: it begins with what is not visible now. */
static void replace(struct lane_state *lane)
{
        page_cache_call_off(sim.cache, &lane->waiter);
        cursor_deinit(&lane->settled);
        lane->settled.from = frame_now();
        for (unsigned i = 0; i < sim.n_events; i++) {
                lane->was_seen_then[i] = false;
                lane->ever[i] = lane->always[i] =
                    takes(lane, i) && !is_visible(&sim.events[i], lane->settled.from);
        }
        know(lane);
        own(lane);
}

static bool is_behind(const struct cursor *cursor, unsigned event)
{
        const struct event_state *state = &sim.events[event];

        return is_visible(state, cursor->from) ||
               (cursor->until != NULL && is_visible(state, cursor->until) &&
                   (int64_t)event < cursor->last_id);
}

/* From here on it gets what it takes now, beyond where it stands. What lies between that and
 * where it has settled comes again after a loss of the session, as it would be taken then. */
static void change_routing(struct lane_state *lane)
{
        page_cache_call_off(sim.cache, &lane->waiter);
        roll_routing(lane);
        for (unsigned i = 0; i < sim.n_events; i++) {
                bool was_passed = is_behind(lane->is_owned ? &lane->next : &lane->settled, i);
                if (is_behind(&lane->settled, i))
                        continue;
                lane->ever[i] |= takes(lane, i);
                lane->always[i] = takes(lane, i) && (lane->always[i] || !was_passed);
        }
        note_lanes();
}

/* ---- what happens ---------------------------------------------------------------------------- */

static void ring(void)
{
        sim.is_bell_ringing = false;
        page_cache_ring(sim.cache);
}

static void publish(void)
{
        struct event_state *event = &sim.events[sim.n_events];

        if (sim.n_events == MAX_EVENTS)
                return;
        *event = (struct event_state){
            .topic = dice_below(&sim.dice, N_TOPICS), .writer = dice_below(&sim.dice, N_WRITERS)};
        for (unsigned i = 0; i < N_LANES; i++)
                sim.lanes[i].ever[sim.n_events] = sim.lanes[i].always[sim.n_events] =
                    takes(&sim.lanes[i], sim.n_events);
        sim.n_events++;
}

/* All that a writer has inserted, at once. */
static void commit(unsigned writer)
{
        sim.n_commits++;
        for (unsigned i = 0; i < sim.n_events; i++)
                if (sim.events[i].writer == writer && sim.events[i].commit == 0) {
                        sim.events[i].commit = sim.n_commits;
                        sim.is_bell_ringing = true;
                }
}

static bool answer_database(void)
{
        if (sim.is_reading && dice_one_in(&sim.dice, 20)) {
                const struct error error = {.kind = ERROR_TEMPORARY};
                sim.is_reading = false;
                page_cache_fail_page(sim.cache, &error);
        } else if (sim.is_reading) {
                sim.is_reading = false;
                page_cache_take_page(sim.cache, read_page());
        } else {
                return false;
        }
        return true;
}

static bool pump(bool all)
{
        bool any = false;

        for (unsigned i = 0; i < N_LANES; i++)
                if (wants_page(&sim.lanes[i]) &&
                    (all || dice_one_in(&sim.dice, sim.lanes[i].laziness))) {
                        ask(&sim.lanes[i]);
                        any = true;
                }
        page_cache_serve(sim.cache, sim.now_ms);
        /* Who was served may want more. */
        for (unsigned i = 0; i < N_LANES; i++)
                any |= wants_page(&sim.lanes[i]);
        return any;
}

static void step(void)
{
        struct lane_state *lane = &sim.lanes[dice_below(&sim.dice, N_LANES)];
        uint32_t roll = dice_below(&sim.dice, 100);

        sim.now_ms += dice_below(&sim.dice, 3000);
        if (roll < 12)
                publish();
        else if (roll < 20)
                commit(dice_below(&sim.dice, N_WRITERS));
        else if (roll < 28 && sim.is_bell_ringing)
                ring();
        else if (roll < 50)
                (void)answer_database();
        else if (roll < 52 && !lane->is_known)
                know(lane);
        else if (roll < 52 && !lane->is_owned)
                own(lane);
        else if (roll < 58)
                settle(lane);
        else if (roll < 60)
                change_routing(lane);
        else if (roll == 60 && dice_one_in(&sim.dice, 3))
                lose_session();
        else if (roll == 61 && dice_one_in(&sim.dice, 2))
                replace(lane);
        else if (roll == 62)
                give_back(lane);
        else if (roll == 61)
                page_cache_call_off(sim.cache, &lane->waiter);
        else
                (void)pump(false);
}

/* All that was committed has come, without a ring for what came before. */
static void come_to_rest(void)
{
        for (unsigned i = 0; i < N_LANES; i++)
                if (!sim.lanes[i].is_owned) {
                        know(&sim.lanes[i]);
                        own(&sim.lanes[i]);
                }
        if (sim.is_bell_ringing)
                ring();
        for (unsigned n = 0; pump(true) || answer_database(); n++)
                if (n == STEPS_TO_REST)
                        broken("the history does not end", 0, 0);
        for (unsigned i = 0; i < N_LANES; i++)
                if (!page_cache_is_at_end(sim.cache, &sim.lanes[i].waiter))
                        broken("a lane does not wait at the end", i, 0);
        for (unsigned i = 0; i < N_LANES; i++)
                for (unsigned event = 0; event < sim.n_events; event++)
                        if (sim.events[event].commit != 0 && sim.lanes[i].always[event] &&
                            !sim.lanes[i].was_seen[event])
                                broken("an event is missing", i, event);
}

static void begin(uint64_t seed)
{
        static const struct page_cache_events events = {
            .on_view = on_view, .on_failed = on_failed, .takes = on_takes};
        static const struct page_cache_settings settings = {
            .max_events = 64, .max_event_bytes = 16384};

        memset(&sim, 0, sizeof sim);
        sim.seed = sim.dice.state = seed;
        sim.cache = page_cache_create(NULL, &settings, &events);
        for (unsigned i = 0; i < N_LANES; i++) {
                struct lane_state *lane = &sim.lanes[i];
                page_waiter_init(&lane->waiter);
                lane->laziness = dice_one_in(&sim.dice, 3) ? 12 : 1;
                lane->max_events = 1 + dice_below(&sim.dice, 8);
                lane->max_event_bytes = dice_one_in(&sim.dice, 2) ? 60 : 1000;
                lane->settled.from = frame_create("0:3:", 0, 1);
                roll_routing(lane);
                lane->waiter.routing = &lane->routing;
        }
        sim.xid = 1;
}

static void end(void)
{
        page_cache_destroy(sim.cache);
        cursor_deinit(&sim.read_from);
        for (unsigned i = 0; i < N_LANES; i++) {
                cursor_deinit(&sim.lanes[i].next);
                cursor_deinit(&sim.lanes[i].settled);
        }
        if (sim.n_pages_held != 0)
                broken("a page is never released", 0, 0);
}

int main(int argc, char **argv)
{
        uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000;
        uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

        for (uint64_t i = 0; i < n; i++) {
                begin(first + i);
                for (unsigned k = 0; k < STEPS; k++)
                        step();
                come_to_rest();
                for (unsigned writer = 0; writer < N_WRITERS; writer++)
                        commit(writer);
                come_to_rest();
                end();
        }
        printf("%" PRIu64 " histories from seed %" PRIu64 ": every lane got what it takes\n", n,
            first);
        return 0;
}
