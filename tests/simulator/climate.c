#include "simulator/climate.h"

/* Often, now and then, seldom, or never. */
static uint32_t roll_chance(struct world *world, uint32_t often)
{
        switch (dice_below(&world->dice, 4)) {
        case 0:
                return often;
        case 1:
                return often * 5;
        case 2:
                return often * 20;
        default:
                return 0;
        }
}

static void roll_climate(struct world *world)
{
        struct climate *climate = &world->climate;

        climate->crash = roll_chance(world, 60);
        climate->outage = roll_chance(world, 20);
        climate->noise = roll_chance(world, 4);
        climate->slow = roll_chance(world, 3);
        climate->postponed = roll_chance(world, 4);
        climate->lost = roll_chance(world, 30);
        climate->freeze = roll_chance(world, 40);
        climate->stop = roll_chance(world, 40);
        climate->operators = roll_chance(world, 10);
        climate->server = dice_one_in(&world->dice, 4) ? 100 : 0;
        climate->failing = roll_chance(world, 2);
        climate->rejected = roll_chance(world, 6);
        climate->blaming = roll_chance(world, 4);
        climate->has_targets = dice_one_in(&world->dice, 3);
        climate->dead_target = climate->has_targets && dice_one_in(&world->dice, 2)
                                   ? (int)dice_below(&world->dice, N_TARGETS)
                                   : -1;
        climate->delayed = roll_chance(world, 4);
        climate->unjudged = roll_chance(world, 8);
        climate->policy = dice_one_in(&world->dice, 20) ? 2 : 0;
        climate->size = dice_one_in(&world->dice, 4) ? 2 : 0;
        climate->full = roll_chance(world, 1);
        climate->has_two_relays = dice_one_in(&world->dice, 2);
        climate->locks_keys = !dice_one_in(&world->dice, 4);
}

static uint64_t hash_target(const void *owner, const struct event *event)
{
        const struct world *world = owner;

        return (uint64_t)world->database.events[event->id - 1].target;
}

static void roll_policy(struct world *world)
{
        struct dice *dice = &world->dice;
        struct lane_policy *policy = &world->policy;

        *policy = (struct lane_policy){.by_key = !dice_one_in(dice, 5),
            .sink_keeps_order = dice_one_in(dice, 3),
            .max_concurrent = dice_below(dice, 5),
            .max_in_flight = dice_one_in(dice, 4) ? 64 : 2 + dice_below(dice, 14),
            .max_in_flight_bytes = 1000u << dice_below(dice, 6),
            .max_event_bytes = dice_one_in(dice, 4) ? 2000 : 0,
            .max_parked = dice_one_in(dice, 4) ? 1 + dice_below(dice, 6) : 100000,
            .park_after_ms = dice_between(dice, 50, 2000),
            .settle_delay_ms = 20,
            .settle_idle_ms = 1000,
            .retry = {
                .backoff = {.first_ms = dice_between(dice, 1, 200), .factor = 2, .max_ms = 1000},
                .max_attempts = dice_below(dice, 6),
                .max_age_ms = dice_one_in(dice, 3) ? dice_between(dice, 100, 3000) : 0}};
        if (dice_one_in(dice, 5)) {
                for (size_t i = 0; i < sizeof world->delays_ms / sizeof world->delays_ms[0]; i++)
                        world->delays_ms[i] = dice_between(dice, 1, 1000);
                policy->retry.delays_ms = world->delays_ms;
                policy->retry.n_delays = 1 + dice_below(dice, 4);
        }
        if (dice_one_in(dice, 6)) {
                policy->rate_per_s = (double)dice_between(dice, 20, 500);
                policy->rate_burst = dice_below(dice, 4);
        }
        if (dice_one_in(dice, 4))
                policy->settle_step_ms = 100;
        policy->hash_target = world->climate.has_targets ? hash_target : NULL;
        policy->owner = world;
}

void climate_roll(struct world *world)
{
        roll_climate(world);
        roll_policy(world);
}
