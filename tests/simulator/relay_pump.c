/* The end of a turn of a relay's loop: what its lane wants is done, as src/delivery/runner.c
 * does it. */
#include "simulator/checks.h"
#include "simulator/database.h"
#include "simulator/destination.h"
#include "simulator/relay_internal.h"
#include "simulator/session.h"

#include <string.h>

static struct sim_relay *find(struct world *world, int relay)
{
        return &world->relays[relay];
}

/* Goes nowhere if the session is lost and the relay has not noticed. */
static void call(struct world *world, int relay, enum call_kind kind)
{
        if (find(world, relay)->session >= 0)
                session_call(world, find(world, relay)->session, kind);
}

static void claim(struct world *world, int relay)
{
        struct sim_relay *at = find(world, relay);

        if (at->session < 0 || at->is_claiming || at->lane.is_draining ||
            at->lane.state != LANE_UNOWNED || world->now_ms < at->standby_ms)
                return;
        at->is_claiming = true;
        call(world, relay, CALL_CLAIM);
}

static bool start_deliveries(struct world *world, int relay, bool *out_progress)
{
        struct sim_relay *at = find(world, relay);
        struct delivery *delivery;

        while ((delivery = lane_start_next(&at->lane, relay_now(world, relay))) != NULL) {
                *out_progress = true;
                say(world, "relay %d starts %s, attempt %u", relay,
                    event_name(world, (size_t)delivery->event->id - 1), delivery->attempt.number);
                checks_start(world, relay, delivery);
                if (relay_crashes_here(world, relay))
                        return false;
                destination_send(world, relay, delivery);
                if (relay_crashes_here(world, relay))
                        return false;
        }
        must(world, lane_start_next(&at->lane, relay_now(world, relay)) == NULL,
            "a second question gets nothing new", "a delivery starts after none could start");
        return true;
}

static void read_page(struct world *world, int relay, const struct page_request *request)
{
        struct sim_session *session;

        if (find(world, relay)->session < 0)
                return;
        session = &world->sessions[find(world, relay)->session];
        session_call(world, find(world, relay)->session, CALL_PAGE);
        cursor_assign(&session->page_request.start, &request->start);
        session->page_request.max_events = request->max_events;
        session->page_request.max_event_bytes = request->max_event_bytes;
        must(world, request->max_events > 0, "requests are sound", "a page of no events");
}

void relay_see_page(struct world *world, int relay, const struct page *page)
{
        struct page_request next;

        lane_see_page(&find(world, relay)->lane, page);
        if (lane_wants_page(&find(world, relay)->lane, &next))
                read_page(world, relay, &next);
}

static void read_parked(struct world *world, int relay, const struct parked_request *request)
{
        struct sim_session *session;

        must(world, request->max_rows > 0, "requests are sound", "no parked rows are asked for");
        if (find(world, relay)->session < 0)
                return;
        session = &world->sessions[find(world, relay)->session];
        session_call(world, find(world, relay)->session, CALL_PARKED);
        session->n_parked_keys = request->n_keys;
        for (size_t i = 0; i < request->n_keys; i++)
                session->parked_keys[i] = request->keys[i][0] - 'a';
        memset(session->is_excluded, 0, sizeof session->is_excluded);
        for (size_t i = 0; i < request->n_claimed; i++)
                session->is_excluded[request->claimed[i] - 1] = true;
        session->max_rows = request->max_rows;
        session->max_bytes = request->max_bytes;
        say(world, "relay %d asks for parked rows: %zu keys, %u rows, %zu excluded", relay,
            request->n_keys, request->max_rows, request->n_claimed);
}

static void settle(struct world *world, int relay, const struct settlement *settlement)
{
        struct sim_session *session;

        checks_settle(world, relay, settlement);
        if (find(world, relay)->session < 0)
                return;
        session = &world->sessions[find(world, relay)->session];
        session_call(world, find(world, relay)->session, CALL_SETTLE);
        cursor_deinit(&session->settle_cursor);
        session->settle_cursor = cursor_copy(&settlement->cursor);
        session->n_verdicts = 0;
        list_for_each (link, settlement->verdicts) {
                const struct verdict *verdict = list_owner(link, struct verdict, link);
                session->verdicts[session->n_verdicts++] =
                    (struct verdict_copy){.event = (size_t)verdict->event->id - 1,
                        .kind = verdict->kind,
                        .is_parked = verdict->is_parked,
                        .n_attempts = verdict->n_attempts,
                        .retried_ms = verdict->retried_ms,
                        .state = verdict->state,
                        .due_in_ms = verdict->due_ms - settlement->now_ms,
                        .goes_last = verdict->goes_last,
                        .reason = verdict->reason};
        }
}

static bool ask_outbox(struct world *world, int relay, bool *out_progress)
{
        struct sim_relay *at = find(world, relay);
        struct lane *lane = &at->lane;
        int64_t now_ms = relay_now(world, relay);
        struct page_request page, second_page;
        struct parked_request parked, second_parked;
        struct settlement settlement, second_settlement;
        bool again;

        if (relay_crashes_here(world, relay))
                return false;
        if (lane_wants_page(lane, &page)) {
                *out_progress = true;
                read_page(world, relay, &page);
                again = lane_wants_page(lane, &second_page);
                must(world, !again, "a second question gets nothing new", "a second page");
        }
        if (relay_crashes_here(world, relay))
                return false;
        if (lane_wants_parked(lane, now_ms, &parked)) {
                *out_progress = true;
                read_parked(world, relay, &parked);
                again = lane_wants_parked(lane, now_ms, &second_parked);
                must(world, !again, "a second question gets nothing new",
                    "a second look at what is parked");
        }
        if (relay_crashes_here(world, relay))
                return false;
        if (lane_wants_settle(lane, now_ms, &settlement)) {
                *out_progress = true;
                settle(world, relay, &settlement);
                again = lane_wants_settle(lane, now_ms, &second_settlement);
                must(world, !again, "a second question gets nothing new", "a second settle");
        }
        return !relay_crashes_here(world, relay);
}

void relay_pump(struct world *world, int relay)
{
        struct sim_relay *at = find(world, relay);
        bool has_progressed = false;
        int64_t due_ms;

        at->is_dirty = false;
        claim(world, relay);
        if (relay_crashes_here(world, relay) || !start_deliveries(world, relay, &has_progressed) ||
            !ask_outbox(world, relay, &has_progressed))
                return;
        if (at->is_draining && lane_is_at_rest(&at->lane)) {
                relay_end_cleanly(world, relay);
                return;
        }
        /* Its timer comes round at once, and finds something to do, or will for ever. */
        due_ms = lane_next_due(&at->lane);
        if (due_ms >= 0 && due_ms <= relay_now(world, relay)) {
                at->is_dirty = true;
                at->n_steps_without_progress =
                    has_progressed ? 0 : at->n_steps_without_progress + 1;
                must(world, at->n_steps_without_progress < 2, "no busy loop",
                    "relay %d is due at once, and again, with nothing to do", relay);
        } else {
                at->n_steps_without_progress = 0;
        }
}
