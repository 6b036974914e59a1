#include "simulator/history.h"

#include "simulator/checks.h"
#include "simulator/climate.h"
#include "simulator/database.h"
#include "simulator/destination.h"
#include "simulator/marker.h"
#include "simulator/people.h"
#include "simulator/relay.h"
#include "simulator/session.h"

#include <string.h>

#define CALM_STEPS    20000
#define LENIENT_STEPS 2500

static bool is_awake(const struct sim_relay *relay)
{
        return relay->is_running && !relay->is_frozen;
}

static void wake_due(struct world *world)
{
        for (int i = 0; i < N_RELAYS; i++) {
                struct sim_relay *relay = &world->relays[i];
                int64_t due_ms;
                if (!is_awake(relay))
                        continue;
                due_ms = relay_next_due(world, i);
                if (due_ms >= 0 && due_ms <= world->now_ms)
                        relay->is_dirty = true;
                if (!world->is_calm && !relay->is_draining && world->now_ms >= relay->sweep_ms)
                        relay_sweep(world, i);
        }
}

static int64_t earlier(int64_t a_ms, int64_t b_ms)
{
        return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

/* When something happens by itself, or -1. */
static int64_t next_due(const struct world *world)
{
        int64_t due_ms = destination_next_due(world);
        bool is_owned = relay_is_owner(world, 0) || relay_is_owner(world, 1);

        for (int i = 0; i < N_RELAYS; i++)
                if (is_awake(&world->relays[i]) && (!is_owned || relay_is_owner(world, i)))
                        due_ms = earlier(due_ms, relay_next_due(world, i));
        return due_ms;
}

static void pass_time(struct world *world)
{
        int64_t due_ms = next_due(world);
        uint32_t roll = dice_below(&world->dice, 20);

        if (roll < 10)
                world->now_ms += dice_between(&world->dice, 0, 50);
        else if (roll < 19 && due_ms > world->now_ms)
                world->now_ms = due_ms;
        else if (roll == 19)
                world->now_ms += dice_between(&world->dice, 0, 8000);
        wake_due(world);
}

/* One of the sessions executes a call; false if none has any. */
static bool execute_any(struct world *world)
{
        uint32_t first = dice_below(&world->dice, MAX_SESSIONS);

        for (uint32_t i = 0; i < MAX_SESSIONS; i++) {
                int session = (int)((first + i) % MAX_SESSIONS);
                if (!session_has_work(world, session))
                        continue;
                session_execute_next(world, session);
                return true;
        }
        return false;
}

static bool answer_any(struct world *world)
{
        int first = (int)dice_below(&world->dice, N_RELAYS);

        for (int i = 0; i < N_RELAYS; i++) {
                int relay = (first + i) % N_RELAYS;
                if (!is_awake(&world->relays[relay]) || !relay_can_answer(world, relay))
                        continue;
                relay_take_answer(world, relay);
                return true;
        }
        return false;
}

static bool hear_any(struct world *world)
{
        for (int i = 0; i < N_RELAYS; i++) {
                struct sim_relay *relay = &world->relays[i];
                if (!is_awake(relay) || (!relay->is_bell_ringing && !relay->is_control_ringing))
                        continue;
                relay_hear(world, i);
                return true;
        }
        return false;
}

static void crash_server(struct world *world)
{
        for (int i = 0; i < MAX_SESSIONS; i++)
                if (world->sessions[i].is_used)
                        session_end(world, i);
        database_crash(world);
}

static bool may_run(const struct world *world, int relay)
{
        return relay == 0 || world->climate.has_two_relays;
}

/* What may befall a relay at any time. */
static void trouble_relay(struct world *world, int index)
{
        struct sim_relay *relay = &world->relays[index];
        struct dice *dice = &world->dice;
        const struct climate *climate = &world->climate;

        if (!relay->is_running) {
                if (may_run(world, index) && dice_one_in(dice, 15))
                        relay_start(world, index);
                return;
        }
        if (relay->session >= 0 &&
            (dice_one_in(dice, climate->lost) || (relay->is_frozen && dice_one_in(dice, 20)))) {
                say(world, "relay %d loses its session", index);
                session_orphan(world, relay->session);
        }
        if (relay->is_frozen) {
                relay->is_frozen = !dice_one_in(dice, 20);
                if (!relay->is_frozen) {
                        say(world, "relay %d thaws", index);
                        wake_due(world);
                }
        } else if (dice_one_in(dice, climate->freeze)) {
                say(world, "relay %d freezes", index);
                relay->is_frozen = true;
        } else if (relay->session == SESSION_GONE && dice_one_in(dice, 5)) {
                relay_session_down(world, index);
        } else if (relay->session == SESSION_NONE && !relay->is_draining && dice_one_in(dice, 5)) {
                relay_session_up(world, index);
        } else if (!relay->is_draining && dice_one_in(dice, climate->stop)) {
                relay_drain(world, index);
        } else if (relay->is_draining && !relay->is_hurried && dice_one_in(dice, 60)) {
                relay_hurry(world, index);
        }
}

static void trouble(struct world *world)
{
        struct dice *dice = &world->dice;
        const struct climate *climate = &world->climate;

        for (int i = 0; i < N_RELAYS; i++)
                trouble_relay(world, i);
        for (int i = 0; i < MAX_SESSIONS; i++)
                if (world->sessions[i].is_orphan && dice_one_in(dice, 15))
                        session_end(world, i);
        if (world->destination.outage != OUTAGE_NONE ? dice_one_in(dice, 30)
                                                     : dice_one_in(dice, climate->outage))
                destination_change_weather(world);
        if (dice_one_in(dice, climate->operators))
                people_operate(world);
        if (dice_one_in(dice, climate->server))
                crash_server(world);
}

static void pump_relays(struct world *world)
{
        for (int i = 0; i < N_RELAYS; i++)
                if (is_awake(&world->relays[i]) && world->relays[i].is_dirty &&
                    (world->is_calm || !dice_one_in(&world->dice, 8)))
                        relay_pump(world, i);
}

static void step(struct world *world)
{
        uint32_t roll = dice_below(&world->dice, 100);

        world->n_steps++;
        if (roll < 18)
                people_write(world);
        else if (roll < 40)
                (void)execute_any(world);
        else if (roll < 60)
                (void)answer_any(world);
        else if (roll < 82)
                (void)destination_step(world);
        else if (roll < 88)
                (void)hear_any(world);
        else
                pass_time(world);
        trouble(world);
        pump_relays(world);
        marker_step(world);
}

static void begin_calm(struct world *world)
{
        bool stops = dice_one_in(&world->dice, 3);

        say(world, "calm");
        world->is_calm = true;
        world->destination.outage = OUTAGE_NONE;
        for (int i = 0; i < MAX_SESSIONS; i++)
                if (world->sessions[i].is_orphan)
                        session_end(world, i);
        for (int i = 0; i < N_RELAYS; i++) {
                struct sim_relay *relay = &world->relays[i];
                relay->is_frozen = false;
                if (!relay->is_running)
                        continue;
                if (relay->session == SESSION_GONE)
                        relay_session_down(world, i);
                if (stops && !relay->is_draining)
                        relay_drain(world, i);
        }
        people_end_transactions(world);
        people_resume(world);
}

static bool is_any_dirty(const struct world *world)
{
        return (world->relays[0].is_running && world->relays[0].is_dirty) ||
               (world->relays[1].is_running && world->relays[1].is_dirty);
}

static bool bring_up(struct world *world)
{
        for (int i = 0; i < N_RELAYS; i++) {
                if (world->relays[i].is_running && world->relays[i].session == SESSION_NONE &&
                    !world->relays[i].is_draining) {
                        relay_session_up(world, i);
                        return true;
                }
        }
        for (int i = 0; i < N_RELAYS; i++)
                if (world->relays[i].is_running)
                        return false;
        relay_start(world, 0);
        return true;
}

/* In the calm nothing depends on the sweep but this: what is redriven while the lane still believes
 * that it is settling it. */
static bool sweep_for_redriven(struct world *world)
{
        const struct sim_database *database = &world->database;
        bool is_any_redriven = false;

        for (size_t i = 0; i < database->n_events; i++)
                is_any_redriven |= database->now.rows[i].exists &&
                                   database->now.rows[i].is_redriven &&
                                   database->now.rows[i].due_ms <= database_now(world);
        for (int i = 0; i < N_RELAYS && is_any_redriven; i++) {
                if (!relay_is_owner(world, i) || world->relays[i].is_draining)
                        continue;
                relay_sweep(world, i);
                return true;
        }
        return false;
}

/* Something happens, or the clock goes on; false if nothing ever will. */
static bool calm_step(struct world *world)
{
        int64_t due_ms;

        world->n_steps++;
        if (is_any_dirty(world)) {
                pump_relays(world);
                return true;
        }
        if (hear_any(world))
                return true;
        if (dice_one_in(&world->dice, 2) ? execute_any(world) || destination_step(world)
                                         : destination_step(world) || execute_any(world))
                return true;
        if (answer_any(world) || bring_up(world))
                return true;
        due_ms = next_due(world);
        if (due_ms < 0)
                return sweep_for_redriven(world);
        if (due_ms > world->now_ms)
                world->now_ms = due_ms;
        wake_due(world);
        return true;
}

static void calm_down(struct world *world)
{
        begin_calm(world);
        for (uint32_t i = 0; i < CALM_STEPS; i++) {
                if (i == LENIENT_STEPS)
                        checks_calm(world);
                world->is_lenient = i > LENIENT_STEPS;
                if (!calm_step(world)) {
                        for (int relay = 0; relay < N_RELAYS; relay++)
                                must(world,
                                    !world->relays[relay].is_running ||
                                        !world->relays[relay].is_draining,
                                    "a stop ends", "relay %d does not come to rest", relay);
                        checks_end(world);
                        marker_end(world);
                        return;
                }
        }
        world_fail(world, "the history ends", "something goes on for ever");
}

static void clean_up(struct world *world)
{
        for (int i = 0; i < N_RELAYS; i++) {
                if (!world->relays[i].is_running)
                        continue;
                world->relays[i].lane.n_in_flight = 0;
                lane_deinit(&world->relays[i].lane);
        }
        world->is_tracing = false;
        for (int i = 0; i < MAX_SESSIONS; i++)
                if (world->sessions[i].is_used)
                        session_end(world, i);
        database_deinit(world);
}

bool history_run(struct world *world, uint64_t seed, bool is_tracing)
{
        jmp_buf on_failure;
        uint32_t n_steps;

        memset(world, 0, sizeof *world);
        world->seed = seed;
        world->dice.state = seed * 0x2545f4914f6cdd1du;
        world->is_tracing = is_tracing;
        world->on_failure = &on_failure;
        world->now_ms = 1000;
        if (setjmp(on_failure) != 0)
                return false;

        climate_roll(world);
        world->was_unordered = !world->policy.by_key;
        database_init(world);
        n_steps = 50 + dice_below(&world->dice, 500);
        for (uint32_t i = 0; i < n_steps; i++)
                step(world);
        calm_down(world);
        clean_up(world);
        must(world, world->database.n_lent == 0, "all memory is released",
            "%d pages or batches are not released", world->database.n_lent);
        return true;
}
