/* A relay as far as shards go: it reads views, and does what turns.c says. */
#include "simulator/members_world.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool relay_is_well(const struct relay_model *relay)
{
        return relay->runs && !relay->is_frozen && !relay->is_cut && relay->session >= 0;
}

static void order(
    struct members_world *world, int64_t in_ms, enum action_kind kind, int relay, int what)
{
        world_order(world, in_ms, kind, relay, what, world->relays[relay].birth);
}

static void read_view(struct members_world *world, int number)
{
        struct relay_model *relay = &world->relays[number];

        if (relay->is_reading) {
                relay->reads_again = true;
                return;
        }
        relay->is_reading = true;
        relay->reads_again = false;
        order(world, world_latency_ms(world), VIEW_READ, number, 0);
}

static int shard_of(const struct members_world *world, const struct turn *turn)
{
        for (size_t i = 0; i < world->n_shards; i++)
                if (world->shards[i].number == turn->number &&
                    strcmp(world->sinks[world->shards[i].sink].name, turn->sink) == 0)
                        return (int)i;
        assert(!"a turn is about a shard");
        return -1;
}

static void set_acting(struct members_world *world, int number, int shard, bool is_acting)
{
        struct relay_model *relay = &world->relays[number];

        relay->n_acts += is_acting;
        relay->n_acts -= relay->acts[shard];
        relay->acts[shard] = is_acting;
}

/* Which relays are in each view since when. */
static void note_seen(
    const struct members_world *world, struct relay_model *relay, const struct snapshot *snapshot)
{
        for (size_t r = 0; r < world->n_relays; r++) {
                bool is_seen = false;

                for (size_t m = 0; m < snapshot->n_members; m++)
                        is_seen |= snapshot->members[m].name == world->relays[r].name;
                if (!is_seen)
                        relay->seen_since_ms[r] = -1;
                else if (relay->seen_since_ms[r] < 0)
                        relay->seen_since_ms[r] = world->now_ms;
        }
}

static void check_give(
    struct members_world *world, const struct relay_model *relay, const struct turn *turn)
{
        size_t n_owned = turns_owned(relay->turns);

        if (relay->n_giving > TURNS_GIVES && relay->n_giving > n_owned / TURNS_GIVES_PART)
                world_fail(world, "a relay gives a few shards at a time (%zu of %zu)",
                    relay->n_giving, n_owned);
        for (size_t r = 0; r < world->n_relays; r++)
                if (strcmp(world->relays[r].name, turn->to) == 0 &&
                    (relay->seen_since_ms[r] < 0 ||
                        world->now_ms - relay->seen_since_ms[r] < TURNS_READY_MS))
                        world_fail(world, "shards are given to members that stay");
        if (world->is_at_rest)
                world_fail(world, "nothing moves at rest (%s is given)", turn->sink);
}

static int64_t drain_ms(struct members_world *world)
{
        return dice_one_in(&world->dice, 20) ? dice_between(&world->dice, 500, 4000)
                                             : dice_between(&world->dice, 1, 100);
}

static void take_turns(struct members_world *world, int number)
{
        struct relay_model *relay = &world->relays[number];
        struct turn turn;

        while (turns_next(relay->turns, world->now_ms, &turn) != TURN_NOTHING) {
                int shard = shard_of(world, &turn);

                if (turn.kind == TURN_CLAIM) {
                        if (relay->acts[shard])
                                world_fail(world, "a relay claims what it has not");
                        if (relay->refuses[world->shards[shard].sink])
                                order(world, 1, CLAIM_ANSWERED, number, 2 * shard);
                        else
                                order(world, world_latency_ms(world), CLAIM_ARRIVES, number, shard);
                        continue;
                }
                if (!relay->acts[shard])
                        world_fail(world, "a relay gives what it has");
                relay->n_giving++;
                check_give(world, relay, &turn);
                world->n_gives++;
                world->shards[shard].given_ms = world->now_ms;
                order(world, drain_ms(world), DRAINED, number, shard);
        }
}

void relay_connect(struct members_world *world, int number)
{
        struct relay_model *relay = &world->relays[number];

        relay->birth++;
        for (size_t r = 0; r < world->n_relays; r++)
                relay->seen_since_ms[r] = -1;
        relay->is_cut = false;
        relay->is_reading = relay->reads_again = false;
        relay->session = server_open_session(world, number);
        read_view(world, number);
        order(world, world->poll_ms, POLL_DUE, number, 0);
}

void relay_start(struct members_world *world, int number)
{
        struct relay_model *relay = &world->relays[number];

        assert(!relay->runs);
        relay->runs = true;
        relay->is_draining = relay->is_ending = relay->is_frozen = false;
        relay->n_deferred = 0;
        relay->turns = turns_create(relay->name);
        relay_connect(world, number);
}

static void stop_acting(struct members_world *world, int number)
{
        struct relay_model *relay = &world->relays[number];

        world_disturb(world);
        memset(relay->acts, false, sizeof relay->acts);
        relay->n_acts = relay->n_giving = 0;
        relay->session = -1;
        relay->birth++;
}

void relay_die(struct members_world *world, int number, int64_t session_lives_ms)
{
        struct relay_model *relay = &world->relays[number];
        int session = relay->session;

        stop_acting(world, number);
        relay->runs = relay->is_cut = relay->is_frozen = false;
        turns_destroy(relay->turns);
        relay->turns = NULL;
        if (session >= 0)
                world_order(world, session_lives_ms, SESSION_ENDS, session, 0, 0);
}

/* It has noticed that its connection is broken. */
static void notice_loss(struct members_world *world, int number)
{
        struct relay_model *relay = &world->relays[number];

        stop_acting(world, number);
        turns_lose(relay->turns);
        if (turns_owned(relay->turns) != 0)
                world_fail(world, "a relay without a session owns nothing");
        relay->is_cut = true;
        order(world, dice_between(&world->dice, 1, 2000), RELAY_STARTS, number, 0);
}

void relay_lose_session(struct members_world *world, int number)
{
        struct relay_model *relay = &world->relays[number];
        int64_t lingers_ms = dice_one_in(&world->dice, 2) ? 0 : dice_below(&world->dice, LINGER_MS);
        int64_t noticed_ms = dice_one_in(&world->dice, 2) ? 0 : dice_below(&world->dice, LINGER_MS);

        if (relay->session < 0 || relay->is_cut)
                return;
        world_disturb(world);
        relay->is_cut = true;
        world_order(world, lingers_ms, SESSION_ENDS, relay->session, 0, 0);
        order(world, noticed_ms, LOSS_NOTICED, number, 0);
}

void relay_freeze(struct members_world *world, int number, int64_t for_ms)
{
        world_disturb(world);
        world->relays[number].is_frozen = true;
        world_order(world, for_ms, RELAY_THAWS, number, 0, world->relays[number].birth);
}

static void thaw(struct members_world *world, int number)
{
        struct relay_model *relay = &world->relays[number];
        size_t n = relay->n_deferred;

        world_disturb(world);
        relay->is_frozen = false;
        relay->n_deferred = 0;
        for (size_t i = 0; i < n; i++)
                world_order(world, 0, relay->deferred[i].kind, number, relay->deferred[i].what,
                    relay->deferred[i].birth);
}

static void defer(struct relay_model *relay, const struct action *action)
{
        if (relay->n_deferred == relay->n_deferred_max) {
                relay->n_deferred_max = 2 * relay->n_deferred_max + 8;
                relay->deferred =
                    xrealloc(relay->deferred, relay->n_deferred_max * sizeof *relay->deferred);
        }
        relay->deferred[relay->n_deferred++] = *action;
}

static void take_view(struct members_world *world, int number, int at)
{
        struct relay_model *relay = &world->relays[number];
        struct snapshot *snapshot = &world->snapshots[at];
        struct view view = {.n_members = snapshot->n_members,
            .n_sinks = world->n_sinks,
            .n_shards = world->n_shards,
            .members = snapshot->members,
            .sinks = world->sinks,
            .serves = snapshot->serves,
            .owners = snapshot->owners};

        relay->is_reading = false;
        note_seen(world, relay, snapshot);
        turns_see(relay->turns, &view, world->now_ms);
        take_turns(world, number);
        if (relay->reads_again)
                read_view(world, number);
}

static void end_if_drained(struct members_world *world, int number)
{
        if (!world->relays[number].is_ending || world->relays[number].n_acts > 0)
                return;
        relay_die(world, number, 1);
        order(world, dice_between(&world->dice, 0, 10000), RELAY_STARTS, number, 0);
}

/* The server's part of a statement; nobody sees it if the connection is broken. */
static void act_at_server(struct members_world *world, const struct action *action)
{
        struct relay_model *relay = &world->relays[action->who];
        bool is_granted;

        switch ((int)action->kind) {
        case VIEW_READ:
                order(
                    world, world_latency_ms(world), VIEW_ARRIVES, action->who, server_read(world));
                return;
        case CLAIM_ARRIVES:
                is_granted = server_lock(world, relay->session, action->what);
                order(world, world_latency_ms(world), CLAIM_ANSWERED, action->who,
                    2 * action->what + is_granted);
                return;
        case UNLOCK_ARRIVES:
                if (world->shards[action->what].holder == relay->session)
                        server_release(world, action->what);
                order(world, world_latency_ms(world), UNLOCK_ANSWERED, action->who, action->what);
                return;
        }
}

static void act_at_relay(struct members_world *world, const struct action *action)
{
        struct relay_model *relay = &world->relays[action->who];
        int shard = action->kind == CLAIM_ANSWERED ? action->what / 2 : action->what;

        switch ((int)action->kind) {
        case POLL_DUE:
                read_view(world, action->who);
                order(world, world->poll_ms, POLL_DUE, action->who, 0);
                return;
        case NOTIFIED:
                read_view(world, action->who);
                return;
        case VIEW_ARRIVES:
                take_view(world, action->who, action->what);
                end_if_drained(world, action->who);
                return;
        case CLAIM_ANSWERED:
                turns_claimed(relay->turns, world->sinks[world->shards[shard].sink].name,
                    world->shards[shard].number, action->what % 2 == 1);
                set_acting(world, action->who, shard, action->what % 2 == 1);
                take_turns(world, action->who);
                return;
        case DRAINED:
                set_acting(world, action->who, shard, false);
                relay->n_giving--;
                order(world, world_latency_ms(world), UNLOCK_ARRIVES, action->who, shard);
                return;
        case UNLOCK_ANSWERED:
                turns_given(relay->turns, world->sinks[world->shards[shard].sink].name,
                    world->shards[shard].number);
                take_turns(world, action->who);
                end_if_drained(world, action->who);
                return;
        case LOSS_NOTICED:
                notice_loss(world, action->who);
                return;
        }
}

void relay_act(struct members_world *world, const struct action *action)
{
        struct relay_model *relay = &world->relays[action->who];

        if (action->birth != relay->birth || !relay->runs) {
                if (action->kind == VIEW_ARRIVES)
                        world->snapshots[action->what].is_used = false;
                return;
        }
        switch ((int)action->kind) {
        case RELAY_THAWS:
                thaw(world, action->who);
                return;
        case VIEW_READ:
        case CLAIM_ARRIVES:
        case UNLOCK_ARRIVES:
                if (!relay->is_cut && world->sessions[relay->session].is_open)
                        act_at_server(world, action);
                return;
        }
        if (relay->is_frozen) {
                defer(relay, action);
                return;
        }
        if (relay->is_cut && action->kind != LOSS_NOTICED && action->kind != DRAINED) {
                if (action->kind == VIEW_ARRIVES)
                        world->snapshots[action->what].is_used = false;
                return;
        }
        act_at_relay(world, action);
        if (action->kind == VIEW_ARRIVES)
                world->snapshots[action->what].is_used = false;
}
