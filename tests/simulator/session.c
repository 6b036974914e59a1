#include "simulator/session.h"

#include "simulator/database.h"

#include <string.h>

static struct sim_session *find(struct world *world, int session)
{
        return &world->sessions[session];
}

int session_open(struct world *world, int relay)
{
        int free_slot = -1;

        for (int i = 0; i < MAX_SESSIONS && free_slot < 0; i++)
                if (!world->sessions[i].is_used)
                        free_slot = i;
        for (int i = 0; i < MAX_SESSIONS && free_slot < 0; i++) {
                if (world->sessions[i].is_orphan) {
                        session_end(world, i);
                        free_slot = i;
                }
        }
        world->sessions[free_slot].is_used = true;
        world->sessions[free_slot].relay = relay;
        say(world, "relay %d connects: session %d", relay, free_slot);
        return free_slot;
}

void session_call(struct world *world, int session, enum call_kind kind)
{
        struct sim_session *at = find(world, session);

        for (size_t i = 0; i < at->n_calls; i++)
                must(world, at->calls[i] != kind, "one call of a kind at a time",
                    "the lane asks for something (%d) that is under way already", (int)kind);
        at->calls[at->n_calls++] = kind;
}

bool session_has_work(const struct world *world, int session)
{
        const struct sim_session *at = &world->sessions[session];

        return at->is_used && at->n_executed < at->n_calls;
}

static void claim(struct world *world, int session)
{
        struct sim_session *at = find(world, session);
        struct sim_database *database = &world->database;

        at->is_claimed = database->owner < 0 || database->owner == session;
        if (!at->is_claimed)
                return;
        database->owner = session;
        at->epoch = ++database->epoch;
        at->claimed_cursor = cursor_copy(&database->now.cursor);
        database_read_keys(world, at);
}

/* Where nothing is removed for long, only full pages are noticed. */
static enum cursor_room roll_room(struct world *world)
{
        if (dice_one_in(&world->dice, world->climate.full))
                return ROOM_FULL;
        return dice_one_in(&world->dice, 20) ? ROOM_REGAINED : ROOM_UNKNOWN;
}

void session_execute_next(struct world *world, int session)
{
        struct sim_session *at = find(world, session);

        switch (at->calls[at->n_executed]) {
        case CALL_CLAIM:
                claim(world, session);
                say(world, "session %d: the lane is %s", session,
                    at->is_claimed ? "granted" : "owned elsewhere");
                break;
        case CALL_PAGE:
                at->page = database_read_page(world, &at->page_request);
                say(world, "session %d: a page of %zu events up to #%lld", session,
                    at->page->n_events, (long long)at->page->upto);
                break;
        case CALL_PARKED:
                at->batch = database_read_parked(world, at);
                say(world, "session %d: %zu parked rows, the next in %lld ms", session,
                    at->batch->n_rows, (long long)at->batch->next_due_ms);
                break;
        case CALL_SETTLE:
                at->room = roll_room(world);
                at->is_settled =
                    world->database.owner == session && at->epoch == world->database.epoch;
                say(world, "session %d: a settle with %zu verdicts %s", session, at->n_verdicts,
                    at->is_settled ? "is written" : "is refused");
                if (at->is_settled)
                        database_settle(world, at);
                break;
        }
        at->n_executed++;
}

static void release_answers(struct sim_session *at)
{
        if (at->page != NULL)
                at->page->release(at->page);
        if (at->batch != NULL)
                at->batch->release(at->batch);
        cursor_deinit(&at->claimed_cursor);
        cursor_deinit(&at->page_request.start);
        cursor_deinit(&at->settle_cursor);
        at->page = NULL;
        at->batch = NULL;
}

void session_drop_first(struct world *world, int session)
{
        struct sim_session *at = find(world, session);

        at->n_calls--;
        at->n_executed--;
        memmove(&at->calls[0], &at->calls[1], at->n_calls * sizeof at->calls[0]);
}

static void let_go(struct world *world, int session)
{
        for (int i = 0; i < N_RELAYS; i++)
                if (world->relays[i].session == session)
                        world->relays[i].session = SESSION_GONE;
}

void session_orphan(struct world *world, int session)
{
        let_go(world, session);
        find(world, session)->is_orphan = true;
}

void session_end(struct world *world, int session)
{
        struct sim_session *at = find(world, session);

        say(world, "session %d ends%s", session,
            world->database.owner == session ? ", and the lane is free" : "");
        if (world->database.owner == session)
                world->database.owner = -1;
        let_go(world, session);
        release_answers(at);
        *at = (struct sim_session){0};
}
