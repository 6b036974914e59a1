/* What is read and settled: the window's bound, the cursor, clean stops, the end. */
#include "simulator/checks.h"

#include "simulator/database.h"
#include "simulator/destination.h"
#include "simulator/relay.h"

#include <string.h>

static struct sim_shadow *shadow_of(struct world *world, int relay, size_t event)
{
        return &world->relays[relay].shadow[event];
}

void checks_own(struct world *world, int relay, const struct cursor *cursor)
{
        struct sim_relay *at = &world->relays[relay];

        memset(at->shadow, 0, sizeof at->shadow);
        memset(at->blamed, 0, sizeof at->blamed);
        for (size_t i = 0; i < world->database.n_events; i++) {
                if (world->database.now.rows[i].exists)
                        at->shadow[i].standing = STANDING_ROW;
                else if (database_is_behind(world, i, cursor))
                        at->shadow[i].standing = STANDING_BEHIND;
        }
}

void checks_page(struct world *world, int relay, const struct page *page)
{
        for (size_t i = 0; i < page->n_events; i++) {
                size_t event = (size_t)page->events[i].id - 1;
                struct sim_shadow *shadow = shadow_of(world, relay, event);
                must(world, shadow->standing == STANDING_UNREAD, "events are read once",
                    "%s is read from the stream a second time", event_name(world, event));
                must(world, event_is_committed(&world->database.events[event]),
                    "rolled-back events stay out", "%s is read although it was not committed",
                    event_name(world, event));
                *shadow = (struct sim_shadow){.standing = STANDING_READ,
                    .is_in_window = true,
                    .is_due = !page->is_delayed[i],
                    .is_unjudged = page->is_unjudged[i],
                    .n_read = ++world->relays[relay].n_reads};
                if (page->is_delayed[i])
                        world->database.events[event].is_unplaced = true;
        }
}

void checks_parked(struct world *world, int relay, const struct parked_batch *batch)
{
        for (size_t i = 0; i < batch->n_rows; i++) {
                const struct parked_row *row = &batch->rows[i];
                size_t event = (size_t)row->event.id - 1;
                struct sim_shadow *shadow = shadow_of(world, relay, event);
                bool is_in_window = shadow->is_in_window;
                must(world,
                    shadow->standing != STANDING_IN_FLIGHT && shadow->standing != STANDING_DONE,
                    "events are claimed once", "%s is read back although it is %s",
                    event_name(world, event),
                    shadow->standing == STANDING_DONE ? "done" : "in flight");
                *shadow = (struct sim_shadow){.standing = STANDING_LOADED,
                    .is_in_window = is_in_window,
                    .was_delayed = row->state == PARKED_DELAYED,
                    .is_due = row->state == PARKED_BLOCKED || row->is_skipped ||
                              (world->was_switched && row->state == PARKED_RETRY) ||
                              world->database.now.rows[event].due_ms <= database_now(world),
                    .n_read = ++world->relays[relay].n_reads,
                    .n_charged = row->n_attempts,
                    .retried_ms = row->retried_ms,
                    .not_before_ms = shadow->not_before_ms,
                    .n_placed = shadow->n_placed,
                    .blamed = shadow->blamed};
        }
}

static void give_up(struct world *world, int relay, size_t event)
{
        shadow_of(world, relay, event)->standing = STANDING_DONE;
        shadow_of(world, relay, event)->is_given_up = true;
}

/* Counted from outside, but for those read back, which the lane may forget again. */
static void check_window(struct world *world, int relay)
{
        const struct lane *lane = &world->relays[relay].lane;
        uint64_t n_claimed = 0, bytes = 0, largest = 0;

        for (size_t i = 0; i < world->database.n_events; i++) {
                if (!shadow_of(world, relay, i)->is_in_window)
                        continue;
                n_claimed++;
        }
        list_for_each (link, &lane->parked.claimed) {
                const struct delivery *delivery = list_owner(link, struct delivery, claimed_link);
                if (shadow_of(world, relay, (size_t)delivery->event->id - 1)->is_in_window)
                        continue;
                n_claimed++;
        }
        list_for_each (link, &lane->parked.batches)
                bytes += list_owner(link, struct batch, link)->bytes;
        for (size_t i = 0; i < world->database.n_events; i++)
                if (world->database.events[i].bytes > largest)
                        largest = world->database.events[i].bytes;
        must(world, n_claimed <= world->policy.max_in_flight, "the window is bounded",
            "%llu events are claimed and not settled; at most %u may be",
            (unsigned long long)n_claimed, world->policy.max_in_flight);
        must(world,
            lane->window.bytes <= world->policy.max_in_flight_bytes ||
                lane->window.bytes <= world->policy.max_in_flight_bytes / 2 + largest,
            "the window is bounded", "%zu bytes came with the stream; at most %llu may",
            lane->window.bytes, (unsigned long long)world->policy.max_in_flight_bytes);
        must(world,
            bytes + lane->window.bytes <= 3 * world->policy.max_in_flight_bytes / 2 + 3 * largest,
            "the window is bounded", "%llu bytes are in memory; at most %llu may",
            (unsigned long long)(bytes + lane->window.bytes),
            (unsigned long long)world->policy.max_in_flight_bytes);
}

void checks_taken(struct world *world, int relay)
{
        const struct lane *lane = &world->relays[relay].lane;

        check_window(world, relay);
        /* Given up without an attempt: skipped, too large, or not judged. */
        for (size_t i = 0; i < world->database.n_events; i++) {
                struct sim_shadow *shadow = shadow_of(world, relay, i);
                bool is_too_large = world->policy.max_event_bytes != 0 &&
                                    world->database.events[i].bytes > world->policy.max_event_bytes;
                if (shadow->standing == STANDING_READ && !lane->is_draining &&
                    (shadow->is_unjudged || (shadow->is_due && is_too_large)))
                        give_up(world, relay, i);
        }
        list_for_each (link, &lane->parked.claimed) {
                const struct delivery *delivery = list_owner(link, struct delivery, claimed_link);
                size_t event = (size_t)delivery->event->id - 1;
                if (delivery->verdict != NULL && delivery->verdict->kind == VERDICT_DEAD &&
                    shadow_of(world, relay, event)->standing == STANDING_LOADED)
                        give_up(world, relay, event);
        }
}

void checks_settle(struct world *world, int relay, const struct settlement *settlement)
{
        bool has_verdict[MAX_EVENTS] = {false};

        list_for_each (link, settlement->verdicts) {
                const struct verdict *verdict = list_owner(link, struct verdict, link);
                size_t event = (size_t)verdict->event->id - 1;
                struct sim_shadow *shadow = shadow_of(world, relay, event);
                must(world, !has_verdict[event], "verdicts fit their events",
                    "%s has two verdicts in one settle", event_name(world, event));
                has_verdict[event] = true;
                if (verdict->goes_last)
                        shadow->n_placed = world->relays[relay].n_started;
                say(world, "relay %d settles %s: %s%s, %u attempts", relay,
                    event_name(world, event),
                    verdict->kind == VERDICT_DELIVERED ? "delivered"
                    : verdict->kind == VERDICT_DEAD    ? "dead"
                    : verdict->state == PARKED_RETRY   ? "retry"
                    : verdict->state == PARKED_BLOCKED ? "blocked"
                                                       : "delayed",
                    verdict->goes_last ? ", last" : "", verdict->n_attempts);
                must(world,
                    verdict->kind != VERDICT_PARK || verdict->n_attempts == shadow->n_charged,
                    "attempts are counted", "%s had %u attempts, and is parked with %u",
                    event_name(world, event), shadow->n_charged, verdict->n_attempts);
                must(world,
                    verdict->kind != VERDICT_PARK || verdict->retried_ms == shadow->retried_ms,
                    "age is counted", "%s was retried for %lld ms, and is parked with %lld",
                    event_name(world, event), (long long)shadow->retried_ms,
                    (long long)verdict->retried_ms);
        }
        for (size_t i = 0; i < world->database.n_events; i++) {
                const struct sim_shadow *shadow = shadow_of(world, relay, i);
                if (!shadow->is_in_window || shadow->standing == STANDING_DONE || has_verdict[i] ||
                    shadow->standing == STANDING_ROW ||
                    !database_is_behind(world, i, &settlement->cursor) ||
                    world->database.now.rows[i].exists)
                        continue;
                world_fail(world, "the cursor passes decided events only",
                    "relay %d settles past %s, which is neither delivered nor parked", relay,
                    event_name(world, i));
        }
}

void checks_settled(struct world *world, int relay, const struct sim_session *session)
{
        for (size_t i = 0; i < world->database.n_events; i++)
                if (database_is_behind(world, i, &session->settle_cursor))
                        shadow_of(world, relay, i)->is_in_window = false;
        for (size_t i = 0; i < session->n_verdicts; i++) {
                struct sim_shadow *shadow = shadow_of(world, relay, session->verdicts[i].event);
                if (session->verdicts[i].kind == VERDICT_PARK &&
                    shadow->standing != STANDING_IN_FLIGHT && shadow->standing != STANDING_DONE)
                        shadow->standing = STANDING_ROW;
                /* It waits for those before it instead. */
                if (session->verdicts[i].state == PARKED_BLOCKED)
                        shadow->not_before_ms = 0;
        }
}

void checks_stopped(struct world *world, int relay)
{
        if (world->relays[relay].lane.state != LANE_OWNED)
                return;
        for (size_t i = 0; i < world->database.n_events; i++) {
                const struct sim_shadow *shadow = shadow_of(world, relay, i);
                must(world, shadow->standing != STANDING_IN_FLIGHT, "a clean stop waits",
                    "%s is in flight when relay %d stops", event_name(world, i), relay);
                must(world, shadow->standing != STANDING_DONE || database_is_done(world, i),
                    "a clean stop repeats nothing",
                    "%s is done, and not settled when relay %d stops", event_name(world, i), relay);
        }
}

/* It is answered so for ever that it stands in the way of others, if of any. */
static bool is_in_trouble(const struct world *world, const struct sim_event *event)
{
        return event->n_failures == ALWAYS || destination_would_blame(world, event);
}

static bool is_given_up(const struct world *world, size_t event)
{
        return world->database.now.dead[event].exists ||
               world->relays[0].shadow[event].is_given_up ||
               world->relays[1].shadow[event].is_given_up;
}

static bool waits_for_another(const struct world *world, size_t event)
{
        const struct sim_database *database = &world->database;

        for (size_t i = 0; i < database->n_events; i++)
                if (i != event && database->events[i].is_ours && !database_is_done(world, i) &&
                    database->events[i].key == database->events[event].key &&
                    is_in_trouble(world, &database->events[i]))
                        return true;
        return false;
}

/* Promise 6. With so few rows that may be parked, rows stop the reading, as promised. */
void checks_calm(struct world *world)
{
        const struct sim_database *database = &world->database;

        if (world->was_switched || world->policy.max_parked < MAX_EVENTS)
                return;
        for (size_t i = 0; i < database->n_events; i++) {
                const struct sim_event *event = &database->events[i];
                if (!event->is_ours || !event_is_committed(event) || event->n_arrived > 0 ||
                    event->is_cancelled || is_given_up(world, i) || is_in_trouble(world, event) ||
                    (event->key >= 0 && waits_for_another(world, i)))
                        continue;
                world_fail(world, "an event in trouble holds up only its key",
                    "%s waits, and none of its key is in trouble", event_name(world, i));
        }
}

void checks_end(struct world *world)
{
        const struct sim_database *database = &world->database;

        for (size_t i = 0; i < database->n_events; i++) {
                const struct sim_event *event = &database->events[i];
                if (!event->is_ours || !event_is_committed(event))
                        continue;
                must(world,
                    event->n_arrived > 0 || database->now.dead[i].exists || event->is_cancelled,
                    "nothing is lost", "%s is neither delivered nor a dead letter",
                    event_name(world, i));
                must(world, database_is_done(world, i), "everything is settled",
                    "%s is not settled in the end", event_name(world, i));
        }
        for (int i = 0; i < N_RELAYS; i++) {
                const struct lane *lane = &world->relays[i].lane;
                if (!relay_is_owner(world, i))
                        continue;
                must(world, lane_is_caught_up(lane, false, relay_now(world, i)),
                    "the lane knows that it is caught up", "relay %d does not think so", i);
                must(world, lane->parked.n_rows == 0, "rows are counted",
                    "relay %d thinks that %llu are parked", i,
                    (unsigned long long)lane->parked.n_rows);
                must(world, lane->order.n_chains == 0, "idle keys are forgotten",
                    "relay %d keeps %zu keys of which nothing is left", i, lane->order.n_chains);
                must(world, lane->parked.n_claimed == 0, "rows are counted",
                    "relay %d thinks that %u are claimed", i, lane->parked.n_claimed);
        }
}
