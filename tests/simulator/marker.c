#include "simulator/marker.h"

#include "simulator/database.h"
#include "simulator/relay.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST_ATTEMPTS 3

/* What an event is to the marker follows from the seed. */
static uint32_t trait(const struct world *world, size_t event, uint64_t what)
{
        struct dice dice = {.state = world->seed * 31 + event * 1009 + what};

        return dice_roll(&dice);
}

static bool is_of_table(const struct world *world, size_t event)
{
        return trait(world, event, 1) % 3 > 0;
}

static bool other_takes(const struct world *world, size_t event)
{
        return trait(world, event, 2) % 4 > 0;
}

/* So many marks fail before one succeeds. */
static unsigned n_refusals(const struct world *world, size_t event)
{
        return trait(world, event, 3) % 6 > 0 ? 0 : 1 + trait(world, event, 4) % 5;
}

static uint64_t commits_of(const struct frame *frame)
{
        return strtoull(frame->snapshot, NULL, 10);
}

static bool covers(const struct frame *newer, const struct frame *older)
{
        return newer != NULL && commits_of(newer) >= commits_of(older);
}

static bool is_newer(const struct frame *frame, const struct frame *than)
{
        return frame != NULL && commits_of(frame) > commits_of(than);
}

/* The lanes whose cursors are in the database. */
static const struct cursor *lane_cursor(const struct world *world, int lane)
{
        return lane == 0 ? &world->database.now.cursor : &world->database.now.other;
}

static bool lane_takes(const struct world *world, int lane, size_t event)
{
        return lane == 0 ? world->database.events[event].is_ours : other_takes(world, event);
}

/* courier.mark_difference() */
static int64_t open_difference(struct world *world)
{
        struct cursor *marker = &world->database.now.marker;
        struct frame *newest = NULL;
        int64_t upto = -1;

        for (int choice = 0; choice < 2 && marker->until == NULL; choice++) {
                for (int lane = 0; lane < 2; lane++) {
                        const struct cursor *cursor = lane_cursor(world, lane);
                        struct frame *frame = choice == 0 ? cursor->from : cursor->until;
                        if (is_newer(frame, marker->from) &&
                            (newest == NULL || is_newer(frame, newest)))
                                newest = frame;
                }
                marker->until = frame_ref(newest);
        }
        for (int lane = 0; lane < 2 && marker->until != NULL; lane++) {
                const struct cursor *cursor = lane_cursor(world, lane);
                int64_t reached = -1;
                if (covers(cursor->from, marker->until))
                        reached = marker->until->floor;
                else if (covers(cursor->until, marker->until))
                        reached = cursor->last_id < marker->until->floor ? cursor->last_id
                                                                         : marker->until->floor;
                upto = reached > upto ? reached : upto;
        }
        return upto;
}

/* courier.mark_obstacles(): puts it off, and says so. */
static bool is_held_up(struct world *world, size_t event)
{
        struct sim_progress *now = &world->database.now;

        for (int lane = 0; lane < 2; lane++) {
                if (!lane_takes(world, lane, event) ||
                    database_is_behind(world, event, lane_cursor(world, lane)))
                        continue;
                now->marks[event].state = MARK_BEHIND;
                now->marks[event].lane = lane;
                return true;
        }
        if (now->rows[event].exists) {
                now->marks[event].state = MARK_PARKED;
                return true;
        }
        return false;
}

static void check_mark(struct world *world, size_t event)
{
        const struct sim_database *database = &world->database;
        const struct sim_event *row = &database->events[event];

        must(world, database->now.marks[event].state != MARK_DONE, "rows are marked once",
            "%s is marked a second time", event_name(world, event));
        must(world, event_is_committed(row), "rolled-back events stay out",
            "%s is marked although it was not committed", event_name(world, event));
        must(world,
            !row->is_ours ||
                (database_is_done(world, event) &&
                    (row->was_acked || row->is_cancelled || database->now.dead[event].exists)),
            "rows are marked when all sinks have passed", "%s is marked before it was delivered",
            event_name(world, event));
        must(world,
            !other_takes(world, event) || database_is_behind(world, event, &database->now.other),
            "rows are marked when all sinks have passed",
            "%s is marked before the other sink has passed it", event_name(world, event));
}

/* courier.mark_rows() for one row. */
static void mark(struct world *world, size_t event)
{
        struct sim_mark *mark = &world->database.now.marks[event];

        if (world->marks.is_locked[event]) {
                mark->state = MARK_RETRY;
                return;
        }
        check_mark(world, event);
        if (mark->n_attempts < n_refusals(world, event)) {
                mark->n_attempts++;
                mark->state = mark->n_attempts == MOST_ATTEMPTS ? MARK_DEAD : MARK_RETRY;
        } else {
                mark->state = MARK_DONE;
        }
        say(world, "the mark of %s %s", event_name(world, event),
            mark->state == MARK_DONE   ? "is set"
            : mark->state == MARK_DEAD ? "is given up"
                                       : "fails");
}

static void look_at(struct world *world, size_t event)
{
        if (!is_held_up(world, event))
                mark(world, event);
}

/* courier.mark_passed() and courier.mark_due() */
static void look_at_what_waits(struct world *world, uint32_t batch)
{
        for (size_t i = 0; i < world->database.n_events && batch > 0; i++) {
                const struct sim_mark *mark = &world->database.now.marks[i];
                bool may_be_marked =
                    mark->state == MARK_PARKED || mark->state == MARK_RETRY ||
                    (mark->state == MARK_BEHIND &&
                        database_is_behind(world, i, lane_cursor(world, mark->lane)));
                if (!may_be_marked)
                        continue;
                look_at(world, i);
                batch--;
        }
}

static void close_difference(struct cursor *marker)
{
        frame_unref(marker->from);
        marker->from = marker->until;
        marker->until = NULL;
        marker->last_id = 0;
}

/* courier.mark_page() */
static void look_at_a_page(struct world *world, uint32_t batch)
{
        struct cursor *marker = &world->database.now.marker;
        int64_t upto = open_difference(world);

        while (marker->until != NULL && marker->last_id < upto && batch > 0) {
                size_t event = (size_t)marker->last_id;
                bool is_new = !database_is_behind(world, event, marker);
                marker->last_id++;
                if (!is_new || !is_of_table(world, event) ||
                    !database_is_behind(world, event, marker))
                        continue;
                look_at(world, event);
                batch--;
        }
        if (marker->until != NULL && marker->last_id >= marker->until->floor)
                close_difference(marker);
}

static void call(struct world *world, uint32_t batch)
{
        look_at_what_waits(world, batch);
        look_at_a_page(world, batch);
}

/* The other sink's lane, by itself: it opens a difference, goes on in it, ends it, and now and then
 * is moved back by an operator. */
static void move_other(struct world *world)
{
        struct dice *dice = &world->marks.dice;
        struct cursor *other = &world->database.now.other;
        char snapshot[48];

        if (other->until == NULL) {
                snprintf(snapshot, sizeof snapshot, "%llu:%llu",
                    (unsigned long long)world->database.n_commits,
                    (unsigned long long)world->database.xid);
                other->until = frame_create(
                    snapshot, (int64_t)world->database.n_events, world->database.xid + 1);
                other->last_id = 0;
        } else if (other->last_id < other->until->floor) {
                other->last_id += dice_between(dice, 1, 6);
        } else {
                close_difference(other);
        }
        if (dice_one_in(dice, 60) && other->until == NULL) {
                other->until = other->from;
                other->from = frame_create("0:0", 0, 1);
                other->last_id = dice_between(dice, 0, other->until->floor);
                say(world, "the other sink is moved back to #%lld", (long long)other->last_id);
        }
}

void marker_init(struct world *world)
{
        struct sim_progress *now = &world->database.now;

        world->marks.dice.state = world->seed * 0x9e3779b97f4a7c15u + 7;
        world->marks.pace = 1 + dice_below(&world->marks.dice, 12);
        now->marker.from = frame_create("0:0", 0, 1);
        now->other.from = frame_create("0:0", 0, 1);
}

void marker_step(struct world *world)
{
        struct dice *dice = &world->marks.dice;
        size_t n_events = world->database.n_events;

        if (dice_one_in(dice, world->marks.pace))
                move_other(world);
        if (n_events > 0 && dice_one_in(dice, 8)) {
                bool *is_locked = &world->marks.is_locked[dice_below(dice, (uint32_t)n_events)];
                *is_locked = !*is_locked;
        }
        if (dice_one_in(dice, 12))
                call(world, 1 + dice_below(dice, 6));
}

void marker_end(struct world *world)
{
        const struct sim_database *database = &world->database;

        for (size_t i = 0; i < MAX_EVENTS; i++)
                world->marks.is_locked[i] = false;
        for (int i = 0; i < 60; i++) {
                move_other(world);
                call(world, 12);
        }
        for (size_t i = 0; i < database->n_events; i++) {
                enum mark_state state = database->now.marks[i].state;
                must(world, state != MARK_DONE || is_of_table(world, i), "rows are marked once",
                    "%s is marked, and has no row", event_name(world, i));
                must(world,
                    !is_of_table(world, i) || !event_is_committed(&database->events[i]) ||
                        state == MARK_DONE || state == MARK_DEAD,
                    "every row is marked in the end", "%s is not marked", event_name(world, i));
        }
}
