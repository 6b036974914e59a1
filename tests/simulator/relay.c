
#include "simulator/checks.h"
#include "simulator/database.h"
#include "simulator/destination.h"
#include "simulator/relay_internal.h"
#include "simulator/session.h"

#include <string.h>

#define STANDBY_MS 1000
#define SWEEP_MS   5000

static struct sim_relay *find(struct world *world, int relay)
{
        return &world->relays[relay];
}

int64_t relay_now(const struct world *world, int relay)
{
        return world->now_ms + world->relays[relay].clock_offset_ms;
}

bool relay_is_owner(const struct world *world, int relay)
{
        return world->relays[relay].is_running && world->relays[relay].lane.state == LANE_OWNED &&
               world->relays[relay].session >= 0 &&
               world->database.owner == world->relays[relay].session;
}

static void switch_order(struct world *world)
{
        world->policy.by_key = !world->policy.by_key;
        world->was_switched = true;
}

/* Whatever was too large may pass now. */
static void switch_size(struct world *world)
{
        world->policy.max_event_bytes = world->policy.max_event_bytes == 0 ? 2000 : 0;
}

void relay_start(struct world *world, int relay)
{
        struct sim_relay *at = find(world, relay);
        unsigned n_lives = at->n_lives + 1;

        memset(at, 0, sizeof *at);
        at->n_lives = n_lives;
        at->is_running = true;
        at->clock_offset_ms = dice_between(&world->dice, 0, 100000000);
        at->session = SESSION_NONE;
        at->sweep_ms = world->now_ms + SWEEP_MS;
        if (!world->relays[1 - relay].is_running &&
            dice_one_in(&world->dice, world->climate.policy))
                switch_order(world);
        if (!world->relays[1 - relay].is_running && dice_one_in(&world->dice, world->climate.size))
                switch_size(world);
        world->was_unordered |= !world->policy.by_key;
        say(world, "relay %d starts%s", relay, world->policy.by_key ? "" : ", without order");
        lane_init(&at->lane, &world->policy);
        at->n_starts = 0;
        relay_session_up(world, relay);
}

static void forget_lane(struct world *world, int relay)
{
        struct sim_relay *at = find(world, relay);

        destination_abandon(world, relay);
        at->lane.n_in_flight = 0; /* their answers are not awaited any more */
        lane_deinit(&at->lane);
        at->is_running = false;
        at->is_frozen = false;
}

void relay_crash(struct world *world, int relay)
{
        struct sim_relay *at = find(world, relay);

        say(world, "relay %d crashes", relay);
        if (at->session >= 0)
                session_orphan(world, at->session);
        at->session = SESSION_NONE;
        forget_lane(world, relay);
}

bool relay_crashes_here(struct world *world, int relay)
{
        if (world->is_calm || !dice_one_in(&world->dice, world->climate.crash))
                return false;
        relay_crash(world, relay);
        return true;
}

static void take_pauses(struct world *world, int relay)
{
        struct sim_relay *at = find(world, relay);

        if (world->database.is_paused && !at->lane.is_paused) {
                say(world, "relay %d: the sink is paused", relay);
                lane_pause(&at->lane);
        } else if (!world->database.is_paused && at->lane.is_paused) {
                say(world, "relay %d: the sink is resumed", relay);
                lane_resume(&at->lane);
        }
}

void relay_session_up(struct world *world, int relay)
{
        struct sim_relay *at = find(world, relay);

        at->session = session_open(world, relay);
        at->is_claiming = false;
        at->standby_ms = world->now_ms;
        at->is_bell_ringing = true;
        at->is_control_ringing = true;
        take_pauses(world, relay);
        at->is_dirty = true;
}

void relay_session_down(struct world *world, int relay)
{
        struct sim_relay *at = find(world, relay);

        say(world, "relay %d notices that its session is gone", relay);
        at->session = SESSION_NONE;
        at->is_claiming = false;
        at->was_lost = true;
        lane_lose(&at->lane);
        destination_cancel(world, relay);
        at->is_dirty = true;
}

void relay_drain(struct world *world, int relay)
{
        struct sim_relay *at = find(world, relay);

        say(world, "relay %d is to stop", relay);
        at->is_draining = true;
        at->was_lost = at->session < 0;
        lane_drain(&at->lane);
        at->is_dirty = true;
}

void relay_hurry(struct world *world, int relay)
{
        say(world, "relay %d hurries", relay);
        find(world, relay)->is_hurried = true;
        destination_cancel(world, relay);
}

void relay_end_cleanly(struct world *world, int relay)
{
        struct sim_relay *at = find(world, relay);

        say(world, "relay %d stops", relay);
        if (!at->was_lost && at->session >= 0)
                checks_stopped(world, relay);
        if (at->session >= 0)
                session_end(world, at->session);
        at->session = SESSION_NONE;
        forget_lane(world, relay);
}

void relay_hear(struct world *world, int relay)
{
        struct sim_relay *at = find(world, relay);

        if (at->is_draining) {
                at->is_bell_ringing = at->is_control_ringing = false;
                return;
        }
        if (at->is_bell_ringing)
                lane_ring(&at->lane);
        if (at->is_control_ringing) {
                take_pauses(world, relay);
                lane_ring_parked(&at->lane);
        }
        at->is_bell_ringing = at->is_control_ringing = false;
        at->is_dirty = true;
}

void relay_sweep(struct world *world, int relay)
{
        struct sim_relay *at = find(world, relay);

        at->sweep_ms = world->now_ms + SWEEP_MS;
        at->is_bell_ringing = at->is_control_ringing = true;
        relay_hear(world, relay);
}

int64_t relay_next_due(const struct world *world, int relay)
{
        const struct sim_relay *at = &world->relays[relay];
        int64_t due_ms = lane_next_due(&at->lane);

        if (due_ms >= 0)
                due_ms -= at->clock_offset_ms;
        if (at->session >= 0 && !at->is_claiming && !at->is_draining &&
            at->lane.state == LANE_UNOWNED && (due_ms < 0 || at->standby_ms < due_ms))
                due_ms = at->standby_ms;
        return due_ms;
}

bool relay_can_answer(const struct world *world, int relay)
{
        const struct sim_relay *at = &world->relays[relay];

        return at->session >= 0 && world->sessions[at->session].n_executed > 0;
}

static void take_claim(struct world *world, int relay, struct sim_session *session)
{
        struct sim_relay *at = find(world, relay);

        at->is_claiming = false;
        if (!session->is_claimed) {
                at->standby_ms = world->now_ms + STANDBY_MS;
                return;
        }
        say(world, "relay %d owns the lane; %llu parked", relay,
            (unsigned long long)session->claimed_parked.n_rows);
        checks_own(world, relay, &session->claimed_cursor);
        lane_own(&at->lane, &session->claimed_cursor, &session->claimed_parked);
        cursor_deinit(&session->claimed_cursor);
}

static void take_settled(struct world *world, int relay, struct sim_session *session)
{
        struct sim_relay *at = find(world, relay);

        if (!session->is_settled) {
                session_end(world, at->session);
                relay_session_down(world, relay);
                return;
        }
        lane_settled(&at->lane, session->room, relay_now(world, relay));
        checks_settled(world, relay, session);
        session_drop_first(world, at->session);
}

/* What the filters could not be asked about to the end is read again. */
static void cut(struct world *world, struct lane *lane, struct page *page)
{
        size_t n_known = dice_below(&world->dice, (uint32_t)page->n_events);

        page->upto = page->events[n_known].id - 1;
        while (page->n_events > n_known)
                page->bytes -= page->events[--page->n_events].payload_bytes;
        lane_ring(lane);
}

static void take_page(struct world *world, int relay, struct page *page, int64_t now_ms)
{
        struct lane *lane = &find(world, relay)->lane;

        if (dice_one_in(&world->dice, 20)) {
                say(world, "relay %d: the page fails", relay);
                page->release(page);
                lane_fail_page(lane);
                return;
        }
        if (page->n_events > 0 && dice_one_in(&world->dice, 20))
                cut(world, lane, page);
        checks_page(world, relay, page);
        if (dice_one_in(&world->dice, 2))
                relay_see_page(world, relay, page);
        lane_take_page(lane, page, now_ms);
        checks_taken(world, relay);
}

void relay_take_answer(struct world *world, int relay)
{
        struct sim_relay *at = find(world, relay);
        struct sim_session *session = &world->sessions[at->session];
        enum call_kind kind = session->calls[0];
        int64_t now_ms = relay_now(world, relay);

        if (relay_crashes_here(world, relay))
                return;
        at->is_dirty = true;
        if (kind == CALL_SETTLE) {
                take_settled(world, relay, session);
                return;
        }
        session_drop_first(world, at->session);
        switch (kind) {
        case CALL_CLAIM:
                take_claim(world, relay, session);
                break;
        case CALL_PAGE: {
                struct page *page = session->page;
                session->page = NULL;
                take_page(world, relay, page, now_ms);
                break;
        }
        case CALL_PARKED: {
                struct parked_batch *batch = session->batch;
                session->batch = NULL;
                checks_parked(world, relay, batch);
                lane_take_parked(&at->lane, batch, now_ms);
                checks_taken(world, relay);
                break;
        }
        case CALL_SETTLE:
                break;
        }
}

void relay_finish(struct world *world, int relay, struct sim_attempt *attempt)
{
        struct sim_relay *at = find(world, relay);
        struct delivery *delivery = attempt->delivery;
        struct outcome outcome = attempt->outcome;
        size_t event = attempt->event;
        struct finish_view view;

        attempt->phase = ATTEMPT_FREE;
        if (relay_crashes_here(world, relay))
                return;
        checks_before_finish(world, relay, event, &view);
        view.result = lane_finish(
            &at->lane, delivery, &outcome, relay_now(world, relay), dice_roll(&world->dice));
        checks_after_finish(world, relay, event, &outcome, &view);
        at->is_dirty = true;
}
