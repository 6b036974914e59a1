/* A relay as far as it is woken: the real bell, and lanes that remember that they were rung
 * until they can look. As waker.c, relay.c and the lanes do it. */
#include "simulator/bell_world.h"

#include <string.h>

/* A connection that died in silence is found out by then. */
#define SILENCE_US (300 * MS)

/* And a new one is there by then. Meanwhile no writer can be made to ring, so it polls. */
#define BACK_US (5 * SECOND)
#define POLL_MS 250

/* A lock that is granted to a relay that is awake already is told, and given up, by then. */
#define GIVING_UP_US (30 * MS)

bool relay_may_have(int relay, int lane)
{
        return (relay < 2) == (lane < 2);
}

void lane_excuse(struct bell_world *world, int lane, int64_t for_us)
{
        struct lane_model *at = &world->lanes[lane];

        if (at->excused_until_us < world->now_us + for_us)
                at->excused_until_us = world->now_us + for_us;
}

static void excuse_all(struct bell_world *world, int relay, int64_t for_us)
{
        for (int lane = 0; lane < N_LANES; lane++)
                if (relay_may_have(relay, lane))
                        lane_excuse(world, lane, for_us);
}

static void look(struct bell_world *world, int relay, int lane)
{
        struct relay_model *at = &world->relays[relay];
        int64_t takes_us = world_latency_us(world);

        at->is_rung[lane] = false;
        at->is_looking[lane] = true;
        world->n_looks++;
        if (at->n_polling++ == 0) {
                at->n_found_most = 0;
                bell_polling(&at->bell, world->now_us);
        }
        world_order(world, takes_us, LOOK_SEES, relay, lane, at->work_birth);
        world_order(
            world, takes_us + world_latency_us(world), LOOK_ANSWERED, relay, lane, at->work_birth);
}

static void send(struct bell_world *world, int relay, int64_t wait_us)
{
        struct relay_model *at = &world->relays[relay];
        int64_t arrival_us = world->now_us + world_latency_us(world);

        if (arrival_us < at->last_arrival_us)
                arrival_us = at->last_arrival_us;
        at->last_arrival_us = arrival_us;
        if (at->session >= 0)
                world_order(world, arrival_us - world->now_us, COMMAND_ARRIVES, at->session,
                    (int)wait_us, at->doorbell_birth);
}

bool relay_has_lane(const struct relay_model *at)
{
        for (int lane = 0; lane < N_LANES; lane++)
                if (at->owns[lane])
                        return true;
        return false;
}

static bool serve_wish(struct bell_world *world, int relay)
{
        int64_t wait_ms;

        switch (bell_next_wish(&world->relays[relay].bell, &wait_ms)) {
        case BELL_NOTHING:
                return false;
        case BELL_CHECK_CROWD: /* there is none here */
                return true;
        case BELL_AWAIT:
                send(world, relay, wait_ms * MS);
                return true;
        case BELL_GIVE_UP:
                send(world, relay, 0);
                return true;
        }
        return false;
}

void relay_serve(struct bell_world *world, int relay)
{
        struct relay_model *at = &world->relays[relay];
        if (!at->runs)
                return;
        bell_own(&at->bell, relay_has_lane(at), world->now_us);
        while (serve_wish(world, relay))
                ;
        if (bell_wants_poll(&at->bell, world->now_us))
                for (int lane = 0; lane < N_LANES; lane++)
                        at->is_rung[lane] = true;
        for (int lane = 0; lane < N_LANES; lane++)
                if (at->owns[lane] && at->is_rung[lane] && !at->is_looking[lane] &&
                    !world->lanes[lane].is_busy)
                        look(world, relay, lane);
        if (at->bell.state != BELL_AWAKE)
                at->awake_since_us = -1;
        else if (at->awake_since_us < 0)
                at->awake_since_us = world->now_us;
        at->timer_birth++;
        if (bell_next_due(&at->bell) >= 0)
                world_order(world,
                    bell_next_due(&at->bell) > world->now_us
                        ? bell_next_due(&at->bell) - world->now_us
                        : 0,
                    LOOK_DUE, relay, 0, at->timer_birth);
}

static void connect_doorbell(struct bell_world *world, int relay)
{
        struct relay_model *at = &world->relays[relay];

        at->doorbell_birth++;
        at->session = server_open_session(world, relay);
        at->is_doorbell_up = true;
        at->doorbell_up_since_us = world->now_us;
        bell_connected(&at->bell, world->now_us);
}

void relay_start(struct bell_world *world, int relay)
{
        struct relay_model *at = &world->relays[relay];

        at->runs = true;
        bell_init(&at->bell, 3600 * 1000, POLL_MS);
        at->session = -1;
        at->awake_since_us = -1;
        at->n_polling = 0;
        memset(at->owns, 0, sizeof at->owns);
        memset(at->is_looking, 0, sizeof at->is_looking);
        world_order(world, dice_between(&world->dice, MS, 50 * MS), DOORBELL_IS_BACK, relay, 0,
            ++at->doorbell_birth);
        world_order(world, dice_between(&world->dice, MS, 50 * MS), WORK_IS_BACK, relay, 0,
            ++at->work_birth);
}

/* The server ends what it does for it first; the relay hears of it later. */
void relay_lose_doorbell(struct bell_world *world, int relay)
{
        struct relay_model *at = &world->relays[relay];

        if (!at->is_doorbell_up)
                return;
        server_end_session(world, at->session);
        excuse_all(world, relay, SILENCE_US);
        world_order(world, dice_between(&world->dice, 0, SILENCE_US), DOORBELL_IS_LOST, relay, 0,
            at->doorbell_birth);
}

static void disown(struct bell_world *world, int relay)
{
        for (int lane = 0; lane < N_LANES; lane++)
                if (world->lanes[lane].owner == relay)
                        world->lanes[lane].owner = -1;
}

void relay_lose_work(struct bell_world *world, int relay)
{
        struct relay_model *at = &world->relays[relay];

        if (!at->is_work_up)
                return;
        disown(world, relay);
        at->is_work_up = false; /* nothing is answered, and no ring arrives */
        world_order(world, dice_between(&world->dice, 0, SILENCE_US), WORK_IS_LOST, relay, 0,
            at->work_birth);
}

void relay_crash(struct bell_world *world, int relay)
{
        struct relay_model *at = &world->relays[relay];

        if (!at->runs)
                return;
        at->runs = false;
        disown(world, relay);
        at->work_birth++;
        at->timer_birth++;
        if (at->session >= 0) /* a wait may outlast the relay that asked for it */
                world_order(world, dice_between(&world->dice, 0, 2 * SECOND), SESSION_ENDS,
                    at->session, 0, 0);
        at->doorbell_birth++;
        at->is_doorbell_up = at->is_work_up = false;
        world_order(world, dice_between(&world->dice, MS, SECOND), RELAY_STARTS, relay, 0, 0);
}

/* ---- what happens to it ---------------------------------------------------------------------- */

static void see_event(struct bell_world *world, int relay, int lane, int number)
{
        const struct relay_model *at = &world->relays[relay];
        const struct event *event = &world->events[number];
        int64_t begin_us = event->committed_us > world->lanes[lane].excused_until_us
                               ? event->committed_us
                               : world->lanes[lane].excused_until_us;
        int64_t allowed_us = event->allowed_us;

        if (!at->is_doorbell_up || at->doorbell_up_since_us > event->committed_us)
                allowed_us += POLL_MS * MS;
        if (begin_us + allowed_us < world->now_us)
                world_fail(world,
                    "every event is looked for in time (lane %d sees event %d %lld ms after its "
                    "commit, not within %lld)",
                    lane, number, (long long)((world->now_us - event->committed_us) / MS),
                    (long long)(allowed_us / MS));
}

static void see(struct bell_world *world, int relay, int lane)
{
        struct lane_model *at = &world->lanes[lane];

        world->relays[relay].n_found[lane] = at->n_pending;
        for (unsigned i = 0; i < at->n_pending; i++)
                see_event(world, relay, lane, at->pending[i]);
        at->n_pending = 0;
}

static void take_answer_of_look(struct bell_world *world, int relay, int lane)
{
        struct relay_model *at = &world->relays[relay];
        const struct session *session = at->session >= 0 ? &world->sessions[at->session] : NULL;

        at->is_looking[lane] = false;
        if (at->n_found[lane] > at->n_found_most)
                at->n_found_most = at->n_found[lane];
        if (--at->n_polling == 0) {
                bool are_ours = dice_one_in(&world->dice, 2); /* or are for sinks of others */
                bell_polled(
                    &at->bell, at->n_found_most, are_ours ? at->n_found_most : 0, world->now_us);
        }
        if (session != NULL && session->is_open && session->holds && at->awake_since_us >= 0 &&
            world->now_us - at->awake_since_us > GIVING_UP_US &&
            world->now_us - session->granted_us > GIVING_UP_US)
                world_fail(world, "an awake relay gives up the lock (relay %d does not)", relay);
}

static void forget_lanes(struct bell_world *world, int relay)
{
        struct relay_model *at = &world->relays[relay];

        at->work_birth++;
        at->n_polling = 0;
        memset(at->owns, 0, sizeof at->owns);
        memset(at->is_looking, 0, sizeof at->is_looking);
        world_order(world, dice_between(&world->dice, MS, 300 * MS), WORK_IS_BACK, relay, 0,
            at->work_birth);
}

static void claim(struct bell_world *world, int relay)
{
        struct relay_model *at = &world->relays[relay];
        bool is_owned_elsewhere = false;

        for (int lane = 0; lane < N_LANES; lane++) {
                if (!relay_may_have(relay, lane) || at->owns[lane])
                        continue;
                is_owned_elsewhere |= world->lanes[lane].owner >= 0;
                if (world->lanes[lane].owner >= 0)
                        continue;
                world->lanes[lane].owner = relay;
                at->owns[lane] = true;
                at->is_rung[lane] = true;
                lane_excuse(world, lane, 0);
        }
        if (is_owned_elsewhere)
                world_order(world, 100 * MS, CLAIM, relay, 0, at->work_birth);
}

static bool is_gone(const struct relay_model *at, const struct action *action)
{
        switch (action->kind) {
        case ANSWER_ARRIVES:
        case DOORBELL_IS_LOST:
        case DOORBELL_IS_BACK:
                return action->birth != at->doorbell_birth || !at->runs;
        case LOOK_DUE:
                return action->birth != at->timer_birth || !at->runs;
        case WORK_IS_LOST:
        case WORK_IS_BACK:
                return action->birth != at->work_birth || !at->runs;
        case RING_ARRIVES:
        case LOOK_SEES:
        case LOOK_ANSWERED:
        case CLAIM:
                return action->birth != at->work_birth || !at->runs || !at->is_work_up;
        case RELAY_STARTS:
        case WRITER_BEGINS:
        case WRITER_WRITES:
        case WRITER_ENDS:
        case WRITER_RELEASES:
        case COMMAND_ARRIVES:
        case WAIT_ENDS:
        case SESSION_ENDS:
        case LANE_TURNS_BUSY:
        case LANE_TURNS_FREE:
        case MOOD_CHANGES:
        case FAULT_STRIKES:
                break;
        }
        return at->runs;
}

void relay_act(struct bell_world *world, const struct action *action)
{
        int relay = action->who;
        struct relay_model *at = &world->relays[relay];

        if (is_gone(at, action))
                return;
        switch (action->kind) {
        case ANSWER_ARRIVES:
                if (action->what)
                        bell_granted(&at->bell, world->now_us);
                else
                        bell_refused(&at->bell, world->now_us);
                break;
        case DOORBELL_IS_LOST:
                at->is_doorbell_up = false;
                bell_lost(&at->bell, world->now_us);
                excuse_all(world, relay, 0);
                world_order(world, dice_between(&world->dice, MS, BACK_US), DOORBELL_IS_BACK, relay,
                    0, ++at->doorbell_birth);
                break;
        case DOORBELL_IS_BACK:
                connect_doorbell(world, relay);
                break;
        case RING_ARRIVES:
                world->n_rings++;
                bell_rung(&at->bell, world->now_us);
                break;
        case LOOK_SEES:
                see(world, relay, action->what);
                return;
        case LOOK_ANSWERED:
                take_answer_of_look(world, relay, action->what);
                break;
        case LOOK_DUE:
                break;
        case WORK_IS_LOST:
                forget_lanes(world, relay);
                break;
        case WORK_IS_BACK:
                at->is_work_up = true;
                claim(world, relay);
                break;
        case CLAIM:
                claim(world, relay);
                break;
        case RELAY_STARTS:
                relay_start(world, relay);
                break;
        case WRITER_BEGINS:
        case WRITER_WRITES:
        case WRITER_ENDS:
        case WRITER_RELEASES:
        case COMMAND_ARRIVES:
        case WAIT_ENDS:
        case SESSION_ENDS:
        case LANE_TURNS_BUSY:
        case LANE_TURNS_FREE:
        case MOOD_CHANGES:
        case FAULT_STRIKES:
                return;
        }
        relay_serve(world, relay);
}
