/*
 * Histories of the doorbell, with the sweep switched off: every committed event
 * must be looked for after its commit, at the latest so long after it as its
 * own transaction had been open, and a moment. In the end all must sleep.
 *
 *   bell_simulator [HISTORIES [FIRST_SEED]]
 */
#include "base/alloc.h"
#include "simulator/bell_world.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Some latencies of messages, and the pause that looks leave the database. */
#define MOMENT_US (50 * MS)

static struct bell_world world;

void world_fail(struct bell_world *at, const char *format, ...)
{
        va_list words;

        if (at->failure[0] != '\0')
                return;
        va_start(words, format);
        vsnprintf(at->failure, sizeof at->failure, format, words);
        va_end(words);
}

int64_t world_latency_us(struct bell_world *at)
{
        return dice_one_in(&at->dice, 10) ? dice_between(&at->dice, 300, 2 * MS)
                                          : dice_between(&at->dice, 30, 300);
}

/* ---- what comes next ------------------------------------------------------------------------- */

static bool is_before(const struct action *a, const struct action *b)
{
        return a->at_us != b->at_us ? a->at_us < b->at_us : a->sequence < b->sequence;
}

static void swap(struct action *a, struct action *b)
{
        struct action other = *a;

        *a = *b;
        *b = other;
}

void world_order(
    struct bell_world *at, int64_t in_us, enum action_kind kind, int who, int what, unsigned birth)
{
        size_t i = at->n_actions++;

        if (at->n_actions > at->n_actions_max) {
                at->n_actions_max = at->n_actions * 2;
                at->actions = xrealloc(at->actions, at->n_actions_max * sizeof *at->actions);
        }
        at->actions[i] = (struct action){.at_us = at->now_us + in_us,
            .sequence = at->n_ordered++,
            .kind = kind,
            .who = who,
            .what = what,
            .birth = birth};
        for (; i > 0 && is_before(&at->actions[i], &at->actions[(i - 1) / 2]); i = (i - 1) / 2)
                swap(&at->actions[i], &at->actions[(i - 1) / 2]);
}

static struct action take_next(struct bell_world *at)
{
        struct action next = at->actions[0];
        size_t i = 0, child;

        at->actions[0] = at->actions[--at->n_actions];
        for (; (child = 2 * i + 1) < at->n_actions; i = child) {
                if (child + 1 < at->n_actions &&
                    is_before(&at->actions[child + 1], &at->actions[child]))
                        child++;
                if (!is_before(&at->actions[child], &at->actions[i]))
                        break;
                swap(&at->actions[child], &at->actions[i]);
        }
        return next;
}

/* ---- writers --------------------------------------------------------------------------------- */

/* Most are short, and few of a burst are long, or it would soon end; any length is as likely as
 * twice that. */
static int64_t transaction_us(struct bell_world *at)
{
        int64_t takes_us = dice_between(&at->dice, 100, 3 * MS);

        if (dice_one_in(&at->dice, at->is_burst ? 40 : 3))
                takes_us = takes_us << dice_below(&at->dice, 14);
        return takes_us;
}

static void write_event(struct bell_world *at, struct writer *writer)
{
        if (!server_try_shared(at, writer))
                writer->rings = true;
        else if (writer->skipped_us < 0)
                writer->skipped_us = at->now_us;
}

static void begin(struct bell_world *at, int w)
{
        struct writer *writer = &at->writers[w];
        int64_t takes_us = transaction_us(at);

        if (at->is_calm)
                return;
        *writer = (struct writer){.is_open = true, .skipped_us = -1};
        write_event(at, writer);
        if (dice_one_in(&at->dice, 4))
                world_order(at, dice_between(&at->dice, 0, takes_us - 1), WRITER_WRITES, w, 0, 0);
        world_order(at, takes_us, WRITER_ENDS, w, 0, 0);
}

static void add_event(struct bell_world *at, const struct writer *writer)
{
        int number = at->n_events++;
        int64_t open_us = writer->skipped_us >= 0 ? at->now_us - writer->skipped_us : 0;

        at->events[number] =
            (struct event){.committed_us = at->now_us, .allowed_us = open_us + MOMENT_US};
        for (int lane = 0; lane < N_LANES; lane++)
                at->lanes[lane].pending[at->lanes[lane].n_pending++] = number;
}

static void end(struct bell_world *at, int w)
{
        struct writer *writer = &at->writers[w];

        writer->is_open = false;
        if (!dice_one_in(&at->dice, 8) && at->n_events < MAX_EVENTS) {
                add_event(at, writer);
                for (int relay = 0; writer->rings && relay < N_RELAYS; relay++)
                        if (at->relays[relay].is_work_up)
                                world_order(at, world_latency_us(at), RING_ARRIVES, relay, 0,
                                    at->relays[relay].work_birth);
        }
        /* What it wrote is visible a moment before its locks are released. */
        world_order(at, dice_between(&at->dice, 0, 200), WRITER_RELEASES, w, 0, 0);
}

static void release(struct bell_world *at, int w)
{
        server_release_shared(at, &at->writers[w]);
        world_order(at, dice_between(&at->dice, 50, 2 * at->mean_gap_us), WRITER_BEGINS, w, 0, 0);
}

/* ---- all else that happens ------------------------------------------------------------------- */

/* In a burst relays wake up, and writers skip the bell; what of that stays open meets the quiet
 * that follows. */
static void change_mood(struct bell_world *at)
{
        static const int64_t gaps_us[] = {1 * MS, 10 * MS, 100 * MS, 1 * SECOND, 10 * SECOND};

        at->is_burst = !at->is_burst;
        at->mean_gap_us =
            at->is_burst ? dice_between(&at->dice, 200, 2 * MS) : gaps_us[dice_below(&at->dice, 5)];
        world_order(at,
            at->is_burst
                ? dice_between(&at->dice, 5 * MS, 60 * MS)
                : dice_between(&at->dice, MS, at->mean_gap_us < 10 * MS ? 60 * MS : 5 * SECOND),
            MOOD_CHANGES, 0, 0, 0);
}

static void strike(struct bell_world *at)
{
        int relay = (int)dice_below(&at->dice, N_RELAYS);

        if (at->is_calm || at->n_sessions > MAX_SESSIONS / 2)
                return;
        switch (dice_below(&at->dice, 3)) {
        case 0:
                relay_lose_doorbell(at, relay);
                break;
        case 1:
                relay_lose_work(at, relay);
                break;
        case 2:
                relay_crash(at, relay);
                break;
        }
        world_order(at, dice_between(&at->dice, 100 * MS, 5 * SECOND), FAULT_STRIKES, 0, 0, 0);
}

static void turn_busy(struct bell_world *at, int lane)
{
        if (at->is_calm)
                return;
        at->lanes[lane].is_busy = true;
        world_order(at, dice_between(&at->dice, 1, SECOND), LANE_TURNS_FREE, lane, 0, 0);
}

static void turn_free(struct bell_world *at, int lane)
{
        at->lanes[lane].is_busy = false;
        lane_excuse(at, lane, 0);
        for (int relay = 0; relay < N_RELAYS; relay++)
                if (at->relays[relay].owns[lane])
                        relay_serve(at, relay);
        world_order(
            at, dice_between(&at->dice, 100 * MS, 10 * SECOND), LANE_TURNS_BUSY, lane, 0, 0);
}

static void act(struct bell_world *at, const struct action *action)
{
        switch (action->kind) {
        case WRITER_BEGINS:
                begin(at, action->who);
                return;
        case WRITER_WRITES:
                write_event(at, &at->writers[action->who]);
                return;
        case WRITER_ENDS:
                end(at, action->who);
                return;
        case WRITER_RELEASES:
                release(at, action->who);
                return;
        case COMMAND_ARRIVES:
                server_take_command(at, action->who, action->birth, action->what);
                return;
        case WAIT_ENDS:
                server_end_wait(at, action->who, action->birth);
                return;
        case SESSION_ENDS:
                server_end_session(at, action->who);
                return;
        case LANE_TURNS_BUSY:
                turn_busy(at, action->who);
                return;
        case LANE_TURNS_FREE:
                turn_free(at, action->who);
                return;
        case MOOD_CHANGES:
                change_mood(at);
                return;
        case FAULT_STRIKES:
                strike(at);
                return;
        case ANSWER_ARRIVES:
        case DOORBELL_IS_LOST:
        case DOORBELL_IS_BACK:
        case RING_ARRIVES:
        case LOOK_SEES:
        case LOOK_ANSWERED:
        case LOOK_DUE:
        case WORK_IS_LOST:
        case WORK_IS_BACK:
        case CLAIM:
        case RELAY_STARTS:
                relay_act(at, action);
                return;
        }
}

static void run_until(struct bell_world *at, int64_t end_us)
{
        while (at->n_actions > 0 && at->actions[0].at_us <= end_us && at->failure[0] == '\0') {
                struct action next = take_next(at);
                assert(next.at_us >= at->now_us);
                at->now_us = next.at_us;
                act(at, &next);
        }
        at->now_us = end_us;
}

/* One sleeps, the others wait for the lock and look from time to time; or wait in vain for a
 * lane. */
static void check_rest(struct bell_world *at)
{
        unsigned n_looks = at->n_looks;

        for (int lane = at->n_relays == 1 ? 2 : 0; lane < N_LANES; lane++)
                if (at->lanes[lane].n_pending > 0)
                        world_fail(at, "every event is looked for (event %d at lane %d is not)",
                            at->lanes[lane].pending[0], lane);
        run_until(at, at->now_us + 10 * SECOND);
        if (at->exclusive < 0)
                world_fail(at, "a relay sleeps in the end (none does)");
        for (int relay = 0; relay < N_RELAYS; relay++)
                if (at->relays[relay].runs && !relay_has_lane(&at->relays[relay]) &&
                    (at->sessions[at->relays[relay].session].holds ||
                        at->sessions[at->relays[relay].session].is_waiting))
                        world_fail(at,
                            "a relay without a lane does not make writers ring (relay %d does)",
                            relay);
        if (at->n_looks - n_looks > 100)
                world_fail(at, "sleep costs little (%u looks in ten quiet seconds)",
                    at->n_looks - n_looks);
}

static bool run_history(uint64_t seed)
{
        struct action *actions = world.actions;
        size_t n_actions_max = world.n_actions_max;

        world = (struct bell_world){.seed = seed,
            .dice = {seed},
            .actions = actions,
            .n_actions_max = n_actions_max,
            .exclusive = -1};
        for (int lane = 0; lane < N_LANES; lane++) {
                world.lanes[lane].owner = -1;
                turn_free(&world, lane);
        }
        world.n_relays = 1 + dice_below(&world.dice, N_RELAYS);
        for (unsigned i = 0; i < world.n_relays; i++)
                relay_start(&world, N_RELAYS - 1 - (int)i);
        change_mood(&world);
        for (int w = 0; w < N_WRITERS; w++)
                world_order(&world, dice_between(&world.dice, 0, SECOND), WRITER_BEGINS, w, 0, 0);
        if (!dice_one_in(&world.dice, 3))
                world_order(
                    &world, dice_between(&world.dice, 0, 3 * SECOND), FAULT_STRIKES, 0, 0, 0);

        run_until(&world, dice_between(&world.dice, 2, 20) * SECOND);
        world.is_calm = true;
        run_until(&world, world.now_us + 100 * SECOND);
        check_rest(&world);
        if (world.failure[0] != '\0')
                fprintf(stderr, "seed %" PRIu64 ", after %" PRId64 " ms: %s\n", seed,
                    world.now_us / MS, world.failure);
        return world.failure[0] == '\0';
}

int main(int argc, char **argv)
{
        uint64_t n_histories = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
        uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
        uint64_t n_events = 0, n_rings = 0, n_looks = 0;

        for (uint64_t i = 0; i < n_histories; i++) {
                if (!run_history(seed + i))
                        return 1;
                n_events += (uint64_t)world.n_events;
                n_rings += world.n_rings;
                n_looks += world.n_looks;
        }
        free(world.actions);
        printf("%" PRIu64 " histories from seed %" PRIu64 ": %" PRIu64 " events, %" PRIu64
               " rings, %" PRIu64 " looks; every event was looked for in time\n",
            n_histories, seed, n_events, n_rings, n_looks);
        return 0;
}
