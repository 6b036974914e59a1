/* The plan of a chaos run: what a seed stands for. */
#include "chaos/plan.h"

#include <criterion/criterion.h>

enum { N_SEEDS = 50, TEN_MINUTES_MS = 600 * 1000 };

static bool is_same(const struct chaos_step *a, const struct chaos_step *b)
{
        return a->at_ms == b->at_ms && a->for_ms == b->for_ms && a->kind == b->kind &&
               a->target == b->target && a->variant == b->variant;
}

Test(chaos_plan, follows_from_its_seed)
{
        struct chaos_plan plan = chaos_plan_make(7, TEN_MINUTES_MS, SCOPE_ALL, ALL_BROKERS);
        struct chaos_plan again = chaos_plan_make(7, TEN_MINUTES_MS, SCOPE_ALL, ALL_BROKERS);
        struct chaos_plan other = chaos_plan_make(8, TEN_MINUTES_MS, SCOPE_ALL, ALL_BROKERS);
        size_t n_same = 0;

        cr_assert_eq(plan.n_steps, again.n_steps);
        for (size_t i = 0; i < plan.n_steps; i++) {
                cr_expect(is_same(&plan.steps[i], &again.steps[i]));
                n_same += i < other.n_steps && is_same(&plan.steps[i], &other.steps[i]);
        }
        cr_expect_lt(n_same, plan.n_steps / 2);
        chaos_plan_deinit(&plan);
        chaos_plan_deinit(&again);
        chaos_plan_deinit(&other);
}

Test(chaos_plan, begins_with_orderly_steps_and_ends_with_kills)
{
        for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
                struct chaos_plan plan = chaos_plan_make(seed, 60 * 1000, SCOPE_ALL, ALL_BROKERS);
                unsigned n_orderly = 0;
                unsigned n_kills = 0;
                unsigned n_filters = 0;
                unsigned n_away = 0;
                unsigned n_divisions = 0;
                for (size_t i = 0; i < plan.n_steps; i++) {
                        const struct chaos_step *step = &plan.steps[i];
                        if (step->kind == STEP_RECEIVER_FILTER) {
                                n_filters++; /* in each phase */
                        } else if (step->at_ms < plan.kills_from_ms) {
                                cr_assert(step->kind == STEP_RELAY_STOP ||
                                          step->kind == STEP_RELAY_RELOAD ||
                                          step->kind == STEP_RELAYS_AWAY ||
                                          step->kind == STEP_RELAYS_ROLL ||
                                          step->kind == STEP_RESHARD);
                                n_orderly++;
                                n_divisions += step->kind == STEP_RESHARD;
                                n_away += step->kind == STEP_RELAYS_AWAY;
                        } else if (step->at_ms < plan.mixed_from_ms) {
                                cr_assert_eq(step->kind, STEP_RELAY_KILL);
                                n_kills++;
                        }
                }
                cr_expect_gt(n_orderly, 1);
                cr_expect_gt(n_kills, 1);
                cr_expect_gt(n_filters, 2);
                cr_expect_eq(n_away, 1);
                cr_expect_gt(n_divisions, 0);
                chaos_plan_deinit(&plan);
        }
}

Test(chaos_plan, ends_with_new_passwords_after_the_last_restart)
{
        for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
                struct chaos_plan plan = chaos_plan_make(seed, 60 * 1000, SCOPE_ALL, ALL_BROKERS);
                int64_t last_ms = 0;
                unsigned n_passwords = 0;
                for (size_t i = 0; i < plan.n_steps; i++) {
                        const struct chaos_step *step = &plan.steps[i];
                        if (step->at_ms == plan.end_ms - 1500 &&
                            (step->kind == STEP_PG_PASSWORD || step->kind == STEP_REDIS_PASSWORD))
                                n_passwords++;
                        else if (step->kind != STEP_RECEIVER_FILTER &&
                                 step->at_ms + step->for_ms > last_ms)
                                last_ms = step->at_ms + step->for_ms;
                }
                cr_expect_eq(n_passwords, 2);
                cr_expect_lt(last_ms, plan.end_ms - 2000);
                chaos_plan_deinit(&plan);
        }
}

Test(chaos_plan, kills_the_relay_two_hundred_times_in_ten_minutes)
{
        for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
                struct chaos_plan plan =
                    chaos_plan_make(seed, TEN_MINUTES_MS, SCOPE_ALL, ALL_BROKERS);
                unsigned n_kills = 0;
                for (size_t i = 0; i < plan.n_steps; i++)
                        n_kills += plan.steps[i].kind == STEP_RELAY_KILL;
                cr_expect_geq(n_kills, 200, "seed %u: %u", (unsigned)seed, n_kills);
                chaos_plan_deinit(&plan);
        }
}

static unsigned count_rollouts(const struct chaos_plan *plan, enum step_kind kind)
{
        unsigned n = 0;

        for (size_t i = 0; i < plan->n_steps; i++) {
                const struct chaos_step *step = &plan->steps[i];
                if (step->kind != kind)
                        continue;
                cr_expect(step->at_ms < plan->kills_from_ms || step->at_ms >= plan->mixed_from_ms);
                n++;
        }
        return n;
}

Test(chaos_plan, divides_sinks_and_rolls_over_relays_except_among_kills_alone)
{
        for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
                struct chaos_plan all = chaos_plan_make(seed, 60 * 1000, SCOPE_ALL, ALL_BROKERS);
                struct chaos_plan stops = chaos_plan_make(seed, 60 * 1000, SCOPE_STOPS, 0);
                struct chaos_plan kills = chaos_plan_make(seed, 60 * 1000, SCOPE_KILLS, 0);
                cr_expect_geq(count_rollouts(&all, STEP_RESHARD), 2);
                cr_expect_geq(count_rollouts(&all, STEP_RELAYS_ROLL), 1);
                cr_expect_geq(count_rollouts(&stops, STEP_RESHARD), 3);
                cr_expect_geq(count_rollouts(&stops, STEP_RELAYS_ROLL), 3);
                cr_expect_eq(count_rollouts(&kills, STEP_RESHARD), 0);
                cr_expect_eq(count_rollouts(&kills, STEP_RELAYS_ROLL), 0);
                chaos_plan_deinit(&all);
                chaos_plan_deinit(&stops);
                chaos_plan_deinit(&kills);
        }
}

static bool overlap(const struct chaos_step *a, const struct chaos_step *b)
{
        return a->at_ms <= b->at_ms + b->for_ms && b->at_ms <= a->at_ms + a->for_ms;
}

Test(chaos_plan, has_every_kind_of_step_and_at_most_six_at_a_time)
{
        struct chaos_plan plan = chaos_plan_make(3, TEN_MINUTES_MS, SCOPE_ALL, ALL_BROKERS);
        unsigned n_of[N_STEP_KINDS] = {0};

        for (size_t i = 0; i < plan.n_steps; i++) {
                const struct chaos_step *step = &plan.steps[i];
                unsigned n_at_once = 1;
                n_of[step->kind]++;
                cr_assert_lt(step->target, step_n_targets(step->kind));
                cr_expect(i == 0 || plan.steps[i - 1].at_ms <= step->at_ms);
                for (size_t j = 0; j < i; j++) {
                        const struct chaos_step *earlier = &plan.steps[j];
                        n_at_once += earlier->at_ms + earlier->for_ms >= step->at_ms;
                        cr_expect_not(step->kind != STEP_LINK && step->kind == earlier->kind &&
                                          step->target == earlier->target &&
                                          step->kind > STEP_RELAYS_AWAY && overlap(step, earlier),
                            "%s twice at the same time", step_name(step->kind));
                }
                cr_expect_leq(n_at_once, 6);
        }
        for (int kind = 0; kind < N_STEP_KINDS; kind++)
                cr_expect_gt(n_of[kind], 0, "%s", step_name((enum step_kind)kind));
        chaos_plan_deinit(&plan);
}

/* ---- brokers --------------------------------------------------------------------------------- */

static bool is_of_brokers(const struct chaos_step *step)
{
        return step->kind >= STEP_NATS_KILL && step->kind <= STEP_BROKER_LINK;
}

static enum broker broker_of(const struct chaos_step *step)
{
        if (step->kind == STEP_BROKER_LINK)
                return (enum broker)step->target;
        if (step->kind >= STEP_KAFKA_KILL)
                return BROKER_KAFKA;
        return step->kind >= STEP_RABBIT_KILL ? BROKER_RABBIT : BROKER_NATS;
}

Test(chaos_plan, leaves_alone_a_broker_that_is_not_there_and_changes_nothing_else_for_it)
{
        enum { NO_KAFKA = ALL_BROKERS & ~(1 << BROKER_KAFKA) };

        for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
                struct chaos_plan all = chaos_plan_make(seed, 60 * 1000, SCOPE_ALL, ALL_BROKERS);
                struct chaos_plan two = chaos_plan_make(seed, 60 * 1000, SCOPE_ALL, NO_KAFKA);
                struct chaos_plan none = chaos_plan_make(seed, 60 * 1000, SCOPE_ALL, 0);
                unsigned n_of[N_BROKERS] = {0};
                size_t next = 0;
                for (size_t i = 0; i < all.n_steps; i++)
                        if (!is_of_brokers(&all.steps[i]))
                                cr_assert(is_same(&all.steps[i], &none.steps[next++]));
                cr_expect_eq(next, none.n_steps);
                for (size_t i = 0; i < two.n_steps; i++)
                        if (is_of_brokers(&two.steps[i]))
                                n_of[broker_of(&two.steps[i])]++;
                cr_expect_gt(n_of[BROKER_NATS], 0);
                cr_expect_gt(n_of[BROKER_RABBIT], 0);
                cr_expect_eq(n_of[BROKER_KAFKA], 0);
                chaos_plan_deinit(&all);
                chaos_plan_deinit(&two);
                chaos_plan_deinit(&none);
        }
}

/* A second kill would only find that it does not run yet. */
Test(chaos_plan, gives_a_killed_broker_time_to_come_back)
{
        for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
                struct chaos_plan plan =
                    chaos_plan_make(seed, TEN_MINUTES_MS, SCOPE_ALL, ALL_BROKERS);
                int64_t back_ms[N_BROKERS] = {0};
                for (size_t i = 0; i < plan.n_steps; i++) {
                        const struct chaos_step *step = &plan.steps[i];
                        bool is_slow =
                            step->kind == STEP_RABBIT_KILL || step->kind == STEP_KAFKA_KILL;
                        if (!is_of_brokers(step))
                                continue;
                        cr_expect_geq(step->at_ms, plan.mixed_from_ms);
                        cr_expect_geq(step->at_ms, back_ms[broker_of(step)], "seed %u: %s at %u ms",
                            (unsigned)seed, step_name(step->kind), (unsigned)step->at_ms);
                        back_ms[broker_of(step)] =
                            step->at_ms + step->for_ms + (is_slow ? 8000 : 1000);
                }
                chaos_plan_deinit(&plan);
        }
}

Test(chaos_plan, does_nothing_but_to_brokers_if_asked)
{
        struct chaos_plan plan = chaos_plan_make(3, 60 * 1000, SCOPE_BROKERS, ALL_BROKERS);
        unsigned n_steps = 0;

        for (size_t i = 0; i < plan.n_steps; i++) {
                cr_assert(
                    is_of_brokers(&plan.steps[i]) || plan.steps[i].kind == STEP_RECEIVER_FILTER);
                n_steps += is_of_brokers(&plan.steps[i]);
        }
        cr_expect_gt(n_steps, 15);
        chaos_plan_deinit(&plan);
}
