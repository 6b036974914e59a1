/* The sessions, their locks, and what a read of pg_locks finds. */
#include "simulator/members_world.h"

#include "base/alloc.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

int server_open_session(struct members_world *world, int relay)
{
        int number = world->n_sessions;

        assert(number < MAX_SESSIONS);
        world_disturb(world);
        world->sessions[number] =
            (struct session){.relay = relay, .is_open = true, .is_member = true};
        world->n_sessions++;
        server_notify(world);
        return number;
}

/* Its locks fall one after the other. */
void server_end_session(struct members_world *world, int number)
{
        if (!world->sessions[number].is_open)
                return;
        world->sessions[number].is_open = false;
        world_order(world, dice_below(&world->dice, 3), MEMBER_LOCK_FALLS, number, 0, 0);
        for (size_t i = 0; i < world->n_shards; i++)
                if (world->shards[i].holder == number)
                        world_order(
                            world, dice_below(&world->dice, 3), LOCK_FALLS, number, (int)i, 0);
}

void server_leave(struct members_world *world, int number)
{
        world_disturb(world);
        world->sessions[number].is_member = false;
        server_notify(world);
}

/* ---- shards ---------------------------------------------------------------------------------- */

static int current_session(const struct members_world *world, int relay)
{
        return world->relays[relay].session;
}

/* A member that others count on, but that does not claim. */
static bool is_obstacle(const struct members_world *world, int number, int sink)
{
        const struct session *session = &world->sessions[number];
        const struct relay_model *relay = &world->relays[session->relay];

        if (!session->is_member)
                return false;
        return current_session(world, session->relay) != number || !relay_is_well(relay) ||
               relay->refuses[sink];
}

static int64_t promised_ms(const struct members_world *world, int sink, bool *out_is_any)
{
        int64_t n_obstacles = 0;

        *out_is_any = false;
        for (int i = 0; i < world->n_sessions; i++) {
                const struct session *session = &world->sessions[i];

                if (!session->is_member || !world->relays[session->relay].serves[sink])
                        continue;
                if (is_obstacle(world, i, sink))
                        n_obstacles++;
                else
                        *out_is_any = true;
        }
        return CLAIMED_WITHIN_MS + (n_obstacles > 0 ? POLL_MS : 0) + n_obstacles * TURNS_LATE_MS;
}

/* Before something changes: nobody may have had it too long. */
void server_check_free(struct members_world *world, int number)
{
        struct shard_model *shard = &world->shards[number];
        int64_t since_ms =
            shard->free_since_ms > world->disturbed_ms ? shard->free_since_ms : world->disturbed_ms;
        int64_t promise_ms;
        bool is_any;

        if (shard->holder >= 0)
                return;
        promise_ms = promised_ms(world, shard->sink, &is_any);
        if (!is_any)
                return;
        if (world->now_ms - since_ms > promise_ms)
                world_fail(world,
                    "a shard is claimed in time (shard %d was free for %" PRId64 " ms, %" PRId64
                    " are promised)",
                    number, world->now_ms - since_ms, promise_ms);
        if (promise_ms == CLAIMED_WITHIN_MS && world->now_ms - since_ms > world->longest_free_ms)
                world->longest_free_ms = world->now_ms - since_ms;
}

void server_release(struct members_world *world, int number)
{
        struct shard_model *shard = &world->shards[number];

        assert(shard->holder >= 0);
        /* What was decided before the last change, and comes now, is a change too. */
        if (shard->given_ms >= 0 && shard->given_ms <= world->disturbed_ms)
                world_disturb(world);
        shard->holder = -1;
        shard->free_since_ms = world->now_ms;
        shard->given_ms = -1;
        server_notify(world);
}

bool server_lock(struct members_world *world, int number, int at)
{
        struct shard_model *shard = &world->shards[at];

        if (!world->sessions[number].is_open)
                return false;
        if (shard->holder >= 0) {
                world->n_lost_races++;
                return false;
        }
        server_check_free(world, at);
        shard->holder = number;
        shard->given_ms = -1;
        if (world->sessions[number].relay != shard->last_relay)
                shard->n_moves++;
        shard->last_relay = world->sessions[number].relay;
        world->n_claims++;
        if (world->is_at_rest)
                world_fail(world, "nothing moves at rest (shard %d does)", at);
        return true;
}

/* ---- views ----------------------------------------------------------------------------------- */

void server_notify(struct members_world *world)
{
        for (size_t i = 0; i < world->n_relays; i++)
                if (world->relays[i].session >= 0 &&
                    !(world->may_lose && dice_one_in(&world->dice, 5)))
                        world_order(world, world_latency_ms(world), NOTIFIED, (int)i, 0,
                            world->relays[i].birth);
}

static int unused_snapshot(struct members_world *world)
{
        for (size_t i = 0; i < world->n_snapshots; i++)
                if (!world->snapshots[i].is_used)
                        return (int)i;
        world->snapshots =
            xrealloc(world->snapshots, (world->n_snapshots + 1) * sizeof *world->snapshots);
        return (int)world->n_snapshots++;
}

int server_read(struct members_world *world)
{
        int at = unused_snapshot(world), of_session[MAX_SESSIONS];
        bool is_listed[MAX_RELAYS] = {false};
        struct snapshot *snapshot = &world->snapshots[at];

        snapshot->is_used = true;
        snapshot->n_members = 0;
        for (int i = world->n_sessions - 1; i >= 0; i--) {
                int number = world->sessions[i].relay;
                struct relay_model *relay = &world->relays[number];
                size_t member = snapshot->n_members;

                of_session[i] = STRANGER;
                /* Of two sessions of one name, the newer is the member. */
                if (!world->sessions[i].is_member || is_listed[number])
                        continue;
                is_listed[number] = true;
                of_session[i] = (int)member;
                snapshot->members[member] = (struct member){.name = relay->name,
                    .weight = relay->weight,
                    .is_draining = relay->is_draining};
                memcpy(&snapshot->serves[member * world->n_sinks], relay->serves, world->n_sinks);
                snapshot->n_members++;
        }
        for (size_t i = 0; i < world->n_shards; i++) {
                int holder = world->shards[i].holder;

                snapshot->owners[i] = holder < 0 ? NOBODY : of_session[holder];
        }
        return at;
}
