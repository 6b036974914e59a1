/* Rows of courier.outbox, snapshots, cursors, pages; and what a crash of the server does to
 * them. */
#include "simulator/database.h"

#include "simulator/marker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *key_name(int key)
{
        static const char *const names[N_KEYS] = {"a", "b", "c", "d"};

        return key < 0 ? NULL : names[key];
}

void database_init(struct world *world)
{
        struct sim_database *database = &world->database;

        database->owner = -1;
        database->xid = 3;
        database->now.cursor.from = frame_create("0:0", 0, 1);
        marker_init(world);
        database->now.next_position = 1;
        database->clock_offset_ms = dice_between(&world->dice, 0, 1000000);
        database->scan_ids = dice_between(&world->dice, 3, 40);
        database_sync(world);
}

void database_deinit(struct world *world)
{
        struct sim_progress *progress[] = {&world->database.now, &world->database.on_disk};

        for (int i = 0; i < 2; i++) {
                cursor_deinit(&progress[i]->cursor);
                cursor_deinit(&progress[i]->other);
                cursor_deinit(&progress[i]->marker);
        }
}

int64_t database_now(const struct world *world)
{
        return world->now_ms + world->database.clock_offset_ms;
}

static void progress_assign(struct sim_progress *to, const struct sim_progress *from)
{
        struct cursor cursor = to->cursor, other = to->other, marker = to->marker;

        cursor_assign(&cursor, &from->cursor);
        cursor_assign(&other, &from->other);
        cursor_assign(&marker, &from->marker);
        *to = *from;
        to->cursor = cursor;
        to->other = other;
        to->marker = marker;
}

void database_sync(struct world *world)
{
        progress_assign(&world->database.on_disk, &world->database.now);
}

void database_crash(struct world *world)
{
        struct sim_database *database = &world->database;
        bool is_taken_back = dice_one_in(&world->dice, 2);

        say(world, "the server crashes%s",
            is_taken_back ? ", and what was not yet on disk is gone" : "");
        if (is_taken_back)
                progress_assign(&database->now, &database->on_disk);
        for (size_t i = 0; i < database->n_events; i++)
                if (database->events[i].n_commit == 0)
                        database->events[i].n_commit = NEVER;
        if (dice_one_in(&world->dice, 3))
                database->clock_offset_ms += dice_between(&world->dice, -2000, 2000);
        database_sync(world);
}

struct seen {
        uint64_t n_commits;
        uint64_t xid;
};

static struct seen seen_by(const struct frame *frame)
{
        struct seen seen;
        char *end;

        seen.n_commits = strtoull(frame->snapshot, &end, 10);
        seen.xid = strtoull(end + 1, NULL, 10);
        return seen;
}

bool event_is_committed(const struct sim_event *event)
{
        return event->n_commit != 0 && event->n_commit != NEVER;
}

static bool is_visible(const struct sim_event *event, uint64_t n_commits)
{
        return event->n_commit != 0 && event->n_commit <= n_commits;
}

bool database_is_behind(const struct world *world, size_t event, const struct cursor *cursor)
{
        const struct sim_event *row = &world->database.events[event];

        return is_visible(row, seen_by(cursor->from).n_commits) ||
               (cursor->until != NULL && (int64_t)event + 1 <= cursor->last_id &&
                   is_visible(row, seen_by(cursor->until).n_commits));
}

bool frame_is_sound(const struct frame *frame)
{
        return frame == NULL || frame->xid > seen_by(frame).xid || frame->xid == 1;
}

bool event_precedes(const struct sim_event *a, const struct sim_event *b)
{
        return a->is_ours && a->key >= 0 && a->key == b->key && a < b && event_is_committed(a) &&
               event_is_committed(b) && a->n_commit <= b->n_commit;
}

bool database_is_done(const struct world *world, size_t event)
{
        const struct sim_database *database = &world->database;

        return !database->now.rows[event].exists &&
               database_is_behind(world, event, &database->now.cursor);
}

static struct frame *frame_copy(const struct frame *frame)
{
        return frame != NULL ? frame_create(frame->snapshot, frame->floor, frame->xid) : NULL;
}

struct cursor cursor_copy(const struct cursor *cursor)
{
        return (struct cursor){.from = frame_copy(cursor->from),
            .until = frame_copy(cursor->until),
            .last_id = cursor->last_id};
}

/* What a page points into, in one piece, so that a use after its release is found. */
struct lent_page {
        struct page page; /* first, so that it is found from there */
        int *n_lent;
        struct event events[MAX_EVENTS];
        bool is_delayed[MAX_EVENTS];
        bool is_unjudged[MAX_EVENTS];
        char keys[MAX_EVENTS][2];
};

static void release_page(struct page *page)
{
        struct lent_page *lent = (struct lent_page *)(void *)page;

        --*lent->n_lent;
        cursor_deinit(&page->start);
        free(lent);
}

/* Its xid is known when the page has been read. */
static struct frame *open_frame(const struct sim_database *database)
{
        char snapshot[48];

        snprintf(snapshot, sizeof snapshot, "%llu:%llu", (unsigned long long)database->n_commits,
            (unsigned long long)database->xid);
        return frame_create(snapshot, (int64_t)database->n_events, 0);
}

enum { CELL = 16 };

static int64_t smaller(int64_t a, int64_t b)
{
        return a < b ? a : b;
}

/* Where the page ends. It begins at the frame's floor, or at a mark below it, and ends in its cell: it
 * may not reach the floor though nothing is new. */
static int64_t scan_bound(struct world *world, const struct cursor *start)
{
        int64_t above = start->from->floor - dice_between(&world->dice, 0, 20);

        if (above < start->last_id)
                above = start->last_id;
        return smaller(smaller(above + world->database.scan_ids, (above / CELL + 1) * CELL),
            start->until->floor);
}

static void add_event(struct world *world, struct lent_page *lent, size_t index)
{
        const struct sim_event *event = &world->database.events[index];
        size_t n = lent->page.n_events++;
        char *key = NULL;

        if (event->key >= 0) {
                key = lent->keys[n];
                key[0] = (char)('a' + event->key);
                key[1] = '\0';
        }
        lent->events[n] = (struct event){.id = (int64_t)index + 1,
            .topic = "orders",
            .key = key,
            .payload = "",
            .payload_bytes = event->bytes};
        lent->is_delayed[n] = event->deliver_ms != 0;
        lent->is_unjudged[n] =
            !world->is_calm && dice_one_in(&world->dice, world->climate.unjudged);
        lent->page.bytes += event->bytes;
}

static void complete_frame(struct sim_database *database, struct page *page)
{
        struct cursor *start = &page->start;

        if (page->n_events > 0 || start->until->floor != start->from->floor ||
            !page_ends_difference(page)) {
                start->until->xid = database->xid + 1;
        } else {
                frame_unref(start->until);
                start->until = frame_ref(start->from);
        }
}

struct page *database_read_page(struct world *world, const struct page_request *request)
{
        struct sim_database *database = &world->database;
        struct lent_page *lent = malloc(sizeof *lent);
        struct page *page = &lent->page;
        uint64_t n_before, n_until;
        bool is_cut = false;

        lent->n_lent = &database->n_lent;
        database->n_lent++;
        *page = (struct page){.events = lent->events,
            .is_delayed = lent->is_delayed,
            .is_unjudged = lent->is_unjudged,
            .release = release_page};
        page->start = (struct cursor){.from = frame_ref(request->start.from),
            .until = request->start.until != NULL ? frame_ref(request->start.until)
                                                  : open_frame(database),
            .last_id = request->start.last_id};
        page->upto = scan_bound(world, &page->start);
        n_before = seen_by(page->start.from).n_commits;
        n_until = seen_by(page->start.until).n_commits;
        for (int64_t id = page->start.last_id + 1; id <= page->upto && !is_cut; id++) {
                const struct sim_event *event = &database->events[id - 1];
                bool is_large = event->bytes > request->max_event_bytes;
                if (!event->is_ours || is_visible(event, n_before) || !is_visible(event, n_until))
                        continue;
                is_cut = is_large || page->n_events + 1 == request->max_events;
                if (is_large && page->n_events > 0)
                        break;
                add_event(world, lent, (size_t)id - 1);
        }
        if (is_cut)
                page->upto = page->events[page->n_events - 1].id;
        if (request->start.until == NULL)
                complete_frame(database, page);
        return page;
}
