/*
 * Histories of relays that share shards. At each step: a shard that falls free
 * is claimed in time, no relay acts as owner without the lock, nobody claims
 * what it has or gives what it has not. After the last fault each shard moves
 * at most twice; then all is even, and nothing moves any more.
 *
 *   members_simulator [HISTORIES [FIRST_SEED]]
 */
#include "simulator/members_world.h"

#include "base/alloc.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000)

static struct members_world world;

void world_fail(struct members_world *at, const char *format, ...)
{
        va_list words;

        if (at->failure[0] != '\0')
                return;
        va_start(words, format);
        vsnprintf(at->failure, sizeof at->failure, format, words);
        va_end(words);
}

int64_t world_latency_ms(struct members_world *at)
{
        return dice_one_in(&at->dice, 10) ? dice_between(&at->dice, 2, LATENCY_MS)
                                          : dice_between(&at->dice, 0, 2);
}

void world_disturb(struct members_world *at)
{
        for (size_t i = 0; i < at->n_shards; i++)
                server_check_free(at, (int)i);
        at->disturbed_ms = at->now_ms;
}

/* ---- what comes next ------------------------------------------------------------------------- */

static bool is_before(const struct action *a, const struct action *b)
{
        return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->sequence < b->sequence;
}

static void swap(struct action *a, struct action *b)
{
        struct action other = *a;

        *a = *b;
        *b = other;
}

void world_order(struct members_world *at, int64_t in_ms, enum action_kind kind, int who, int what,
    unsigned birth)
{
        size_t i = at->n_actions++;

        if (at->n_actions > at->n_actions_max) {
                at->n_actions_max = at->n_actions * 2;
                at->actions = xrealloc(at->actions, at->n_actions_max * sizeof *at->actions);
        }
        at->actions[i] = (struct action){.at_ms = at->now_ms + in_ms,
            .sequence = at->n_ordered++,
            .kind = kind,
            .who = who,
            .what = what,
            .birth = birth};
        for (; i > 0 && is_before(&at->actions[i], &at->actions[(i - 1) / 2]); i = (i - 1) / 2)
                swap(&at->actions[i], &at->actions[(i - 1) / 2]);
}

static struct action take_next(struct members_world *at)
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

/* ---- faults ---------------------------------------------------------------------------------- */

static void start_later(struct members_world *at, int relay, int64_t in_ms)
{
        world_order(at, in_ms, RELAY_STARTS, relay, 0, at->relays[relay].birth);
}

static void change(struct members_world *at, struct relay_model *relay)
{
        size_t sink = dice_below(&at->dice, (uint32_t)at->n_sinks);

        world_disturb(at);
        if (dice_one_in(&at->dice, 2))
                relay->weight = 1 + dice_below(&at->dice, dice_one_in(&at->dice, 3) ? 1000 : 3);
        else
                relay->serves[sink] = !relay->serves[sink];
        server_notify(at);
}

static void begin_drain(struct members_world *at, int number, bool is_ending)
{
        struct relay_model *relay = &at->relays[number];

        world_disturb(at);
        relay->is_draining = is_ending || !relay->is_draining;
        relay->is_ending = is_ending;
        server_notify(at);
        if (is_ending)
                world_order(at, dice_between(&at->dice, 5 * SECOND, 15 * SECOND),
                    RELAY_DRAINED_ENDS, number, 0, relay->birth);
}

static void refuse(struct members_world *at, int number)
{
        int sink = (int)dice_below(&at->dice, (uint32_t)at->n_sinks);

        if (at->relays[number].refuses[sink])
                return;
        world_disturb(at);
        at->relays[number].refuses[sink] = true;
        world_order(
            at, dice_between(&at->dice, SECOND, 30 * SECOND), REFUSAL_ENDS, number, sink, 0);
}

static int64_t some_time_ms(struct members_world *at)
{
        return dice_one_in(&at->dice, 2) ? dice_between(&at->dice, 0, SECOND)
                                         : dice_between(&at->dice, 0, 20 * SECOND);
}

static void strike(struct members_world *at, int number)
{
        struct relay_model *relay = &at->relays[number];

        if (!relay->runs || relay->is_cut)
                return;
        at->n_faults++;
        switch (dice_below(&at->dice, 9)) {
        case 0:
        case 1:
                relay_die(at, number, dice_below(&at->dice, 20));
                start_later(at, number, some_time_ms(at));
                return;
        case 2:
                relay_die(at, number, dice_between(&at->dice, 0, LINGER_MS));
                start_later(at, number, some_time_ms(at));
                return;
        case 3:
                if (!relay->is_frozen)
                        relay_freeze(at, number, some_time_ms(at));
                return;
        case 4:
                relay_lose_session(at, number);
                return;
        case 5:
                begin_drain(at, number, true);
                return;
        case 6:
                begin_drain(at, number, false);
                return;
        case 7:
                refuse(at, number);
                return;
        case 8:
                change(at, relay);
                return;
        }
}

/* ---- acting ---------------------------------------------------------------------------------- */

static void check_acting(struct members_world *at)
{
        for (size_t r = 0; r < at->n_relays; r++) {
                const struct relay_model *relay = &at->relays[r];

                for (size_t i = 0; i < at->n_shards; i++) {
                        if (!relay->acts[i])
                                continue;
                        if (relay->session < 0)
                                world_fail(at, "a relay without a session owns nothing");
                        else if (at->sessions[relay->session].is_open &&
                                 at->shards[i].holder != relay->session)
                                world_fail(at, "a relay that acts as owner has the lock");
                }
        }
}

static void act(struct members_world *at, const struct action *action)
{
        struct relay_model *relay = &at->relays[action->who % MAX_RELAYS];

        switch (action->kind) {
        case SESSION_ENDS:
                server_end_session(at, action->who);
                return;
        case MEMBER_LOCK_FALLS:
                server_leave(at, action->who);
                return;
        case LOCK_FALLS:
                if (at->shards[action->what].holder == action->who)
                        server_release(at, action->what);
                return;
        case RELAY_STARTS:
                if (action->birth != relay->birth)
                        return;
                if (relay->runs)
                        relay_connect(at, action->who);
                else
                        relay_start(at, action->who);
                return;
        case RELAY_DRAINED_ENDS:
                if (relay->runs && relay->is_ending && action->birth == relay->birth) {
                        relay_die(at, action->who, 1);
                        start_later(at, action->who, some_time_ms(at));
                }
                return;
        case REFUSAL_ENDS:
                world_disturb(at);
                relay->refuses[action->what] = false;
                return;
        case FAULT_STRIKES:
                check_acting(at);
                if (at->is_calm)
                        return;
                strike(at, (int)dice_below(&at->dice, (uint32_t)at->n_relays));
                world_order(
                    at, dice_between(&at->dice, 0, 2 * at->mean_gap_ms), FAULT_STRIKES, 0, 0, 0);
                return;
        case POLL_DUE:
        case VIEW_READ:
        case VIEW_ARRIVES:
        case CLAIM_ARRIVES:
        case CLAIM_ANSWERED:
        case DRAINED:
        case UNLOCK_ARRIVES:
        case UNLOCK_ANSWERED:
        case LOSS_NOTICED:
        case NOTIFIED:
        case RELAY_THAWS:
                relay_act(at, action);
                return;
        }
}

static void run_until(struct members_world *at, int64_t end_ms)
{
        while (at->n_actions > 0 && at->actions[0].at_ms <= end_ms && at->failure[0] == '\0') {
                struct action next = take_next(at);

                assert(next.at_ms >= at->now_ms);
                at->now_ms = next.at_ms;
                act(at, &next);
        }
        if (at->failure[0] == '\0')
                at->now_ms = end_ms;
}

/* ---- the end --------------------------------------------------------------------------------- */

static int owner_of(const struct members_world *at, size_t shard)
{
        int holder = at->shards[shard].holder;

        return holder < 0 ? -1 : at->sessions[holder].relay;
}

static bool may_own(const struct members_world *at, size_t relay, int sink)
{
        return at->relays[relay].runs && at->relays[relay].serves[sink];
}

static bool is_wanted(const struct members_world *at, size_t relay, int sink)
{
        return may_own(at, relay, sink) && !at->relays[relay].is_draining;
}

static void check_owners(struct members_world *at)
{
        for (size_t i = 0; i < at->n_shards; i++) {
                int owner = owner_of(at, i), sink = at->shards[i].sink;
                bool is_any = false, is_any_wanted = false;

                for (size_t r = 0; r < at->n_relays; r++) {
                        is_any |= may_own(at, r, sink);
                        is_any_wanted |= is_wanted(at, r, sink);
                }
                if (is_any && owner < 0)
                        world_fail(at, "each shard is owned in the end (%zu is not)", i);
                if (owner >= 0 && is_any && !may_own(at, (size_t)owner, sink))
                        world_fail(
                            at, "only a member that serves a sink owns its shards in the end");
                if (owner >= 0 && is_any_wanted && !is_wanted(at, (size_t)owner, sink))
                        world_fail(at, "a member that drains owns nothing in the end");
        }
}

static unsigned count_owned(const struct members_world *at, size_t relay)
{
        unsigned n = 0;

        for (size_t i = 0; i < at->n_shards; i++)
                n += owner_of(at, i) == (int)relay && may_own(at, relay, at->shards[i].sink);
        return n;
}

/* Where shards of the relay could go, one from each relay to the next. */
static void reach(const struct members_world *at, int from, bool *is_reached)
{
        is_reached[from] = true;
        for (size_t i = 0; i < at->n_shards; i++)
                for (size_t r = 0; owner_of(at, i) == from && r < at->n_relays; r++)
                        if (!is_reached[r] && is_wanted(at, r, at->shards[i].sink))
                                reach(at, (int)r, is_reached);
}

/* No chain of moves makes it more even. */
static void check_evenness(struct members_world *at)
{
        for (size_t r = 0; r < at->n_relays; r++)
                if (at->relays[r].weight != at->relays[0].weight)
                        return;
        for (size_t r = 0; r < at->n_relays; r++) {
                bool is_reached[MAX_RELAYS] = {false};

                if (at->relays[r].is_draining)
                        continue;
                reach(at, (int)r, is_reached);
                for (size_t other = 0; other < at->n_relays; other++)
                        if (is_reached[other] && count_owned(at, r) > count_owned(at, other) + 1)
                                world_fail(at, "shards are spread evenly in the end (%u and %u)",
                                    count_owned(at, r), count_owned(at, other));
        }
}

/* By weight, where all serve all. */
static void check_shares(struct members_world *at)
{
        uint64_t weights = 0;

        for (size_t r = 0; r < at->n_relays; r++) {
                for (size_t sink = 0; sink < at->n_sinks; sink++)
                        if (at->relays[r].runs && !at->relays[r].serves[sink])
                                return;
                if (at->relays[r].runs && !at->relays[r].is_draining)
                        weights += at->relays[r].weight;
        }
        for (size_t r = 0; weights > 0 && r < at->n_relays; r++) {
                uint64_t share = at->n_shards * at->relays[r].weight;
                unsigned n = count_owned(at, r);

                if (!at->relays[r].runs || at->relays[r].is_draining)
                        continue;
                if (n < share / weights || n > (share + weights - 1) / weights)
                        world_fail(
                            at, "a relay has its share in the end (%u of %zu)", n, at->n_shards);
        }
}

static void check_moves(struct members_world *at)
{
        for (size_t i = 0; i < at->n_shards; i++)
                if (at->shards[i].n_moves > 2)
                        world_fail(at,
                            "a shard moves at most twice in the end (%zu moves %u times)", i,
                            at->shards[i].n_moves);
}

/* No new faults; those that were there end, and what follows from them. */
static void calm_down(struct members_world *at)
{
        at->is_calm = true;
        run_until(at, at->now_ms + 60 * SECOND);
        for (size_t i = 0; i < at->n_shards; i++)
                at->shards[i].n_moves = 0;
        run_until(at, at->now_ms + 20 * SECOND);
        at->poll_ms = 10 * SECOND;
        run_until(at, at->now_ms + 2 * TURNS_LATE_MAX_MS + 60 * SECOND);
        if (at->failure[0] != '\0')
                return;
        check_moves(at);
        check_owners(at);
        check_evenness(at);
        check_shares(at);
        check_acting(at);
        at->is_at_rest = true;
        run_until(at, at->now_ms + 60 * SECOND);
}

/* ---- histories ------------------------------------------------------------------------------- */

static void make_sinks(struct members_world *at, uint32_t most_shards)
{
        at->n_sinks = 1 + dice_below(&at->dice, most_shards > 100 ? MAX_SINKS : 4);
        for (size_t sink = 0; sink < at->n_sinks; sink++) {
                uint32_t left = most_shards - (uint32_t)at->n_shards;

                snprintf(at->sink_names[sink], NAME_SIZE, "sink%u-%zu", dice_below(&at->dice, 100),
                    sink);
                at->sinks[sink] = (struct sharded_sink){.name = at->sink_names[sink],
                    .n_shards = left == 0 ? 0 : 1 + dice_below(&at->dice, left)};
                for (uint32_t i = 0; i < at->sinks[sink].n_shards; i++)
                        at->shards[at->n_shards++] = (struct shard_model){.sink = (int)sink,
                            .number = i,
                            .holder = -1,
                            .last_relay = -1,
                            .given_ms = -1};
        }
}

static void make_relays(struct members_world *at, size_t n)
{
        bool is_weighted = dice_one_in(&at->dice, 4), is_restricted = dice_one_in(&at->dice, 3);

        at->n_relays = n;
        for (size_t r = 0; r < n; r++) {
                struct relay_model *relay = &at->relays[r];

                snprintf(relay->name, NAME_SIZE, "relay%u-%zu", dice_below(&at->dice, 100), r);
                relay->session = -1;
                relay->weight = is_weighted ? 1 + dice_below(&at->dice, 4) : 1;
                for (size_t sink = 0; sink < at->n_sinks; sink++)
                        relay->serves[sink] = !is_restricted || !dice_one_in(&at->dice, 3);
                start_later(at, (int)r,
                    dice_one_in(&at->dice, 3) ? 0 : dice_between(&at->dice, 0, 20 * SECOND));
        }
}

static void end_history(struct members_world *at)
{
        for (size_t r = 0; r < at->n_relays; r++) {
                turns_destroy(at->relays[r].turns);
                free(at->relays[r].deferred);
        }
}

static bool run_history(uint64_t seed)
{
        static const int64_t gaps_ms[] = {200, 1000, 3000, 10000};
        struct action *actions = world.actions;
        struct snapshot *snapshots = world.snapshots;
        size_t n_actions_max = world.n_actions_max, n_snapshots = world.n_snapshots;
        bool is_large = seed % 1000 == 0;

        memset(&world, 0, sizeof world);
        world.seed = seed;
        world.dice = (struct dice){seed};
        world.actions = actions;
        world.n_actions_max = n_actions_max;
        world.snapshots = snapshots;
        world.n_snapshots = n_snapshots;
        for (size_t i = 0; i < n_snapshots; i++)
                snapshots[i].is_used = false;
        world.poll_ms = POLL_MS;
        world.may_lose = dice_one_in(&world.dice, 2);
        world.mean_gap_ms = gaps_ms[dice_below(&world.dice, 4)];
        make_sinks(&world, is_large ? MAX_SHARDS : 1 + dice_below(&world.dice, 32));
        make_relays(&world, is_large ? MAX_RELAYS : 1 + dice_below(&world.dice, 6));
        world_order(&world, dice_between(&world.dice, 0, 10 * SECOND), FAULT_STRIKES, 0, 0, 0);

        run_until(&world, dice_between(&world.dice, 5, 60) * SECOND);
        calm_down(&world);
        end_history(&world);
        if (world.failure[0] != '\0')
                fprintf(stderr, "seed %" PRIu64 ", after %" PRId64 " ms: %s\n", seed, world.now_ms,
                    world.failure);
        return world.failure[0] == '\0';
}

int main(int argc, char **argv)
{
        uint64_t n_histories = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
        uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
        uint64_t n_claims = 0, n_gives = 0, n_lost_races = 0, n_faults = 0;
        int64_t longest_ms = 0;

        for (uint64_t i = 0; i < n_histories; i++) {
                if (!run_history(seed + i))
                        return 1;
                n_claims += world.n_claims;
                n_gives += world.n_gives;
                n_lost_races += world.n_lost_races;
                n_faults += world.n_faults;
                if (world.longest_free_ms > longest_ms)
                        longest_ms = world.longest_free_ms;
        }
        free(world.actions);
        free(world.snapshots);
        printf("%" PRIu64 " histories from seed %" PRIu64 ": %" PRIu64 " faults, %" PRIu64
               " claims, %" PRIu64 " gives, %" PRIu64 " lost races; a free shard was claimed within"
               " %" PRId64 " ms, and nothing moved at rest\n",
            n_histories, seed, n_faults, n_claims, n_gives, n_lost_races, longest_ms);
        return 0;
}
