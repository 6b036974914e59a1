/* Who should own each shard: even, few moves, and the same answer on the way to it. */
#include "members/placement.h"
#include "simulator/dice.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { MOST_MEMBERS = 24, MOST_SINKS = 40, MOST_SHARDS = 1200, N_SEEDS = 300 };

static struct dice dice;
static struct member members[MOST_MEMBERS];
static struct sharded_sink sinks[MOST_SINKS];
static bool serves[MOST_MEMBERS * MOST_SINKS];
static int owners[MOST_SHARDS];
static char member_names[MOST_MEMBERS][48], sink_names[MOST_SINKS][48];

/* Members and sinks with names of any order; all serve all, and nobody owns anything. */
static struct view make_view(uint64_t seed, size_t n_members, size_t n_sinks, uint32_t most_shards)
{
        struct view view = {.n_members = n_members,
            .n_sinks = n_sinks,
            .members = members,
            .sinks = sinks,
            .serves = serves,
            .owners = owners};

        dice = (struct dice){seed};
        for (size_t m = 0; m < n_members; m++) {
                snprintf(member_names[m], sizeof member_names[m], "host%u-%zu",
                    dice_below(&dice, 1000), m);
                members[m] = (struct member){.name = member_names[m], .weight = 1};
        }
        for (size_t sink = 0; sink < n_sinks; sink++) {
                snprintf(sink_names[sink], sizeof sink_names[sink], "sink%u-%zu",
                    dice_below(&dice, 1000), sink);
                sinks[sink] = (struct sharded_sink){
                    .name = sink_names[sink], .n_shards = 1 + dice_below(&dice, most_shards)};
                view.n_shards += sinks[sink].n_shards;
        }
        memset(serves, true, sizeof serves);
        for (size_t i = 0; i < MOST_SHARDS; i++)
                owners[i] = NOBODY;
        return view;
}

static struct view any_view(uint64_t seed)
{
        struct view view =
            make_view(seed, 2 + seed % 20, 1 + seed / 20 % 12, 1 + (uint32_t)(seed % 50));

        return view;
}

/* As a relay has it; the answers are in its order. */
static struct view sorted(const struct view *view)
{
        struct view copy;

        view_copy(&copy, view);
        return copy;
}

static void move_all(struct view *copy, const int *to)
{
        memcpy(copy->owners, to, copy->n_shards * sizeof *to);
}

static unsigned count(const struct view *view, const int *answer, int member, int in_sink)
{
        unsigned n = 0;
        size_t i = 0;

        for (size_t sink = 0; sink < view->n_sinks; sink++)
                for (uint32_t number = 0; number < view->sinks[sink].n_shards; number++, i++)
                        if (answer[i] == member && (in_sink < 0 || in_sink == (int)sink))
                                n++;
        return n;
}

static unsigned unevenness(const struct view *view, const int *answer, int in_sink)
{
        unsigned least = UINT32_MAX, most = 0;

        for (size_t m = 0; m < view->n_members; m++) {
                unsigned n = count(view, answer, (int)m, in_sink);

                least = n < least ? n : least;
                most = n > most ? n : most;
        }
        return most - least;
}

static unsigned count_moves(const struct view *view, const int *from, const int *to)
{
        unsigned n = 0;

        for (size_t i = 0; i < view->n_shards; i++)
                n += from[i] != to[i];
        return n;
}

Test(placement, spreads_all_shards_and_those_of_each_sink_evenly)
{
        static int answer[MOST_SHARDS];

        for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
                struct view given = any_view(seed), view = sorted(&given);

                placement_decide(&view, NULL, answer);
                cr_assert_leq(unevenness(&view, answer, -1), 1, "seed %d", (int)seed);
                for (size_t sink = 0; sink < view.n_sinks; sink++)
                        cr_assert_leq(unevenness(&view, answer, (int)sink), 1, "seed %d, sink %zu",
                            (int)seed, sink);
                view_deinit(&view);
        }
}

Test(placement, gives_each_member_its_share_by_weight)
{
        static int answer[MOST_SHARDS];

        for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
                struct view given = any_view(seed), view;
                uint64_t weights = 0;

                for (size_t m = 0; m < given.n_members; m++) {
                        members[m].weight = 1 + dice_below(&dice, seed % 2 == 0 ? 4 : 1000);
                        weights += members[m].weight;
                }
                view = sorted(&given);
                placement_decide(&view, NULL, answer);
                for (size_t m = 0; m < view.n_members; m++) {
                        uint64_t share = view.n_shards * view.members[m].weight;
                        unsigned n = count(&view, answer, (int)m, -1);

                        cr_assert_geq(n, share / weights, "seed %d", (int)seed);
                        cr_assert_leq(n, (share + weights - 1) / weights, "seed %d", (int)seed);
                }
                view_deinit(&view);
        }
}

Test(placement, rounds_the_largest_remainders_up)
{
        struct view given = make_view(1, 3, 1, 1), view;
        int answer[8];

        /* 8 shards by 5 : 3 : 2 are 4.0, 2.4 and 1.6 */
        sinks[0].n_shards = 8;
        given.n_shards = 8;
        members[0] = (struct member){.name = (char[]){"a"}, .weight = 5};
        members[1] = (struct member){.name = (char[]){"b"}, .weight = 3};
        members[2] = (struct member){.name = (char[]){"c"}, .weight = 2};
        view = sorted(&given);
        placement_decide(&view, NULL, answer);
        cr_expect_eq(count(&view, answer, 0, -1), 4);
        cr_expect_eq(count(&view, answer, 1, -1), 2);
        cr_expect_eq(count(&view, answer, 2, -1), 2);
        view_deinit(&view);
}

/* Listed in another order, but for the names the same. */
static struct view shuffled(const struct view *view)
{
        static struct member other_members[MOST_MEMBERS];
        static struct sharded_sink other_sinks[MOST_SINKS];
        static bool other_serves[MOST_MEMBERS * MOST_SINKS];
        struct view other = *view;

        for (size_t m = 0; m < view->n_members; m++)
                other_members[view->n_members - 1 - m] = view->members[m];
        for (size_t sink = 0; sink < view->n_sinks; sink++)
                other_sinks[(sink + 1) % view->n_sinks] = view->sinks[sink];
        for (size_t m = 0; m < view->n_members; m++)
                for (size_t sink = 0; sink < view->n_sinks; sink++)
                        other_serves[(view->n_members - 1 - m) * view->n_sinks +
                                     (sink + 1) % view->n_sinks] = view_serves(view, m, sink);
        other.members = other_members;
        other.sinks = other_sinks;
        other.serves = other_serves;
        return other;
}

static void let_some_serve(const struct view *view)
{
        for (size_t i = 0; i < view->n_members * view->n_sinks; i++)
                serves[i] = !dice_one_in(&dice, 3);
}

Test(placement, does_not_depend_on_the_order_of_what_it_is_given)
{
        static int answer[MOST_SHARDS], other_answer[MOST_SHARDS];

        for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
                struct view given = any_view(seed), other_given, view, other;

                let_some_serve(&given);
                other_given = shuffled(&given);
                view = sorted(&given);
                other = sorted(&other_given);
                placement_decide(&view, NULL, answer);
                placement_decide(&other, NULL, other_answer);
                cr_assert_arr_eq(answer, other_answer, view.n_shards * sizeof *answer);
                view_deinit(&view);
                view_deinit(&other);
        }
}

Test(placement, moves_nothing_where_all_is_as_it_should_be)
{
        static int answer[MOST_SHARDS], again[MOST_SHARDS];

        for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
                struct view given = any_view(seed), view;

                let_some_serve(&given);
                view = sorted(&given);
                placement_decide(&view, NULL, answer);
                move_all(&view, answer);
                placement_decide(&view, NULL, again);
                cr_assert_arr_eq(answer, again, view.n_shards * sizeof *answer);
                view_deinit(&view);
        }
}

/* All is where it should be without the one member. */
static void settle_without(struct view *copy, size_t one, int *out_owners)
{
        bool is_counted[MOST_MEMBERS];

        for (size_t m = 0; m < copy->n_members; m++)
                is_counted[m] = m != one;
        placement_decide(copy, is_counted, out_owners);
        move_all(copy, out_owners);
}

static void settle_with_all(struct view *copy, int *out_owners)
{
        placement_decide(copy, NULL, out_owners);
        move_all(copy, out_owners);
}

/* Seldom a shard more, in order that both all shards and those of a sink are even. */
Test(placement, moves_with_a_member_that_comes_or_goes_only_its_share)
{
        static int without[MOST_SHARDS], with[MOST_SHARDS], again[MOST_SHARDS];
        unsigned n_moves = 0, n_needed = 0;

        for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
                struct view given = any_view(seed), view = sorted(&given);
                int one = (int)(seed % view.n_members);

                settle_without(&view, (size_t)one, without);
                settle_with_all(&view, with);
                settle_without(&view, (size_t)one, again);
                cr_assert_leq(count_moves(&view, without, with), count(&view, with, one, -1) + 1,
                    "seed %d", (int)seed);
                cr_assert_leq(count_moves(&view, with, again), count(&view, with, one, -1) + 1,
                    "seed %d", (int)seed);
                n_moves += count_moves(&view, without, with) + count_moves(&view, with, again);
                n_needed += 2 * count(&view, with, one, -1);
                view_deinit(&view);
        }
        cr_expect_leq(n_moves, n_needed + n_needed / 50, "%u of %u", n_moves, n_needed);
}

/* Seldom another one, for the same reason. */
Test(placement, gives_a_member_that_goes_and_comes_back_what_it_had)
{
        static int before[MOST_SHARDS], after[MOST_SHARDS], without[MOST_SHARDS];
        unsigned n_had = 0, n_back = 0;

        for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
                struct view given = any_view(seed), view = sorted(&given);
                int one = (int)(seed % view.n_members);

                settle_without(&view, (size_t)one, without);
                settle_with_all(&view, before);
                settle_without(&view, (size_t)one, without);
                settle_with_all(&view, after);
                for (size_t i = 0; i < view.n_shards; i++) {
                        n_had += before[i] == one;
                        n_back += before[i] == one && after[i] == one;
                }
                view_deinit(&view);
        }
        cr_expect_geq(n_back, n_had - n_had / 200, "%u of %u", n_back, n_had);
}

/* Some members have come or gone, so that much is to move; then some of it has moved, or is on its
 * way. */
Test(placement, stays_the_same_while_it_is_carried_out)
{
        static int before[MOST_SHARDS], answer[MOST_SHARDS], again[MOST_SHARDS];

        for (uint64_t seed = 0; seed < 3 * N_SEEDS; seed++) {
                struct view given = any_view(seed), view;
                bool is_counted[MOST_MEMBERS];

                let_some_serve(&given);
                for (size_t m = 0; seed % 3 == 0 && m < given.n_members; m++)
                        members[m].weight = 1 + dice_below(&dice, 5);
                view = sorted(&given);
                for (size_t m = 0; m < view.n_members; m++)
                        is_counted[m] = dice_one_in(&dice, 2);
                placement_decide(&view, is_counted, before);
                for (size_t i = 0; i < view.n_shards; i++)
                        if (seed % 2 == 0 && dice_one_in(&dice, 4))
                                before[i] = (int)dice_below(&dice, (uint32_t)view.n_members);
                move_all(&view, before);
                placement_decide(&view, NULL, answer);
                for (size_t i = 0; i < view.n_shards; i++)
                        if (before[i] != answer[i])
                                before[i] = dice_one_in(&dice, 3)   ? NOBODY
                                            : dice_one_in(&dice, 2) ? answer[i]
                                                                    : before[i];
                move_all(&view, before);
                placement_decide(&view, NULL, again);
                cr_assert_arr_eq(
                    answer, again, view.n_shards * sizeof *answer, "seed %d", (int)seed);
                view_deinit(&view);
        }
}

/* Whether shards could go, one from each to the next, from one member to the other. */
static void reach(const struct view *view, const int *answer, int from, bool *is_reached)
{
        size_t i = 0;

        is_reached[from] = true;
        for (size_t sink = 0; sink < view->n_sinks; sink++)
                for (uint32_t number = 0; number < view->sinks[sink].n_shards; number++, i++)
                        for (size_t m = 0; answer[i] == from && m < view->n_members; m++)
                                if (!is_reached[m] && view_serves(view, m, sink))
                                        reach(view, answer, (int)m, is_reached);
}

Test(placement, is_as_even_as_it_can_be_where_not_all_serve_all)
{
        static int answer[MOST_SHARDS];

        for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
                struct view given = any_view(seed), view;

                for (size_t i = 0; i < given.n_members * given.n_sinks; i++)
                        serves[i] = dice_one_in(&dice, 2 + (uint32_t)(seed % 3));
                view = sorted(&given);
                placement_decide(&view, NULL, answer);
                for (size_t m = 0; m < view.n_members; m++) {
                        bool is_reached[MOST_MEMBERS] = {false};

                        reach(&view, answer, (int)m, is_reached);
                        for (size_t other = 0; other < view.n_members; other++)
                                cr_assert(!is_reached[other] ||
                                              count(&view, answer, (int)m, -1) <=
                                                  count(&view, answer, (int)other, -1) + 1,
                                    "seed %d", (int)seed);
                }
                view_deinit(&view);
        }
}

Test(placement, gives_a_shard_only_to_a_member_that_serves_its_sink)
{
        static int answer[MOST_SHARDS];

        for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
                struct view given = any_view(seed), view;
                size_t i = 0;

                for (size_t at = 0; at < given.n_members * given.n_sinks; at++)
                        serves[at] = dice_one_in(&dice, 4);
                for (size_t m = 0; m < given.n_members; m++)
                        members[m].is_draining = dice_one_in(&dice, 3);
                view = sorted(&given);
                placement_decide(&view, NULL, answer);
                for (size_t sink = 0; sink < view.n_sinks; sink++) {
                        bool is_any = false, is_any_staying = false;

                        for (size_t m = 0; m < view.n_members; m++) {
                                is_any |= view_serves(&view, m, sink);
                                is_any_staying |=
                                    view_serves(&view, m, sink) && !view.members[m].is_draining;
                        }
                        for (uint32_t n = 0; n < view.sinks[sink].n_shards; n++, i++) {
                                cr_assert_eq(answer[i] == NOBODY, !is_any);
                                if (answer[i] == NOBODY)
                                        continue;
                                cr_assert(view_serves(&view, (size_t)answer[i], sink));
                                cr_assert_eq(view.members[answer[i]].is_draining, !is_any_staying);
                        }
                }
                view_deinit(&view);
        }
}

Test(placement, leaves_shards_where_they_are_when_all_drain)
{
        static int before[MOST_SHARDS], answer[MOST_SHARDS];
        struct view given = make_view(3, 4, 5, 20), view = sorted(&given);

        placement_decide(&view, NULL, before);
        move_all(&view, before);
        for (size_t m = 0; m < view.n_members; m++)
                view.members[m].is_draining = true;
        placement_decide(&view, NULL, answer);
        cr_expect_arr_eq(before, answer, view.n_shards * sizeof *answer);
        view_deinit(&view);
}

Test(placement, ranks_the_members_of_a_shard_from_the_nearest)
{
        struct view given = make_view(3, 6, 1, 20), view;
        unsigned seen = 0;

        members[2].is_draining = true;
        view = sorted(&given);
        for (int m = 0; m < 6; m++) {
                uint32_t rank = placement_rank(&view, 0, 0, m, NOBODY);

                seen |= 1u << rank;
                cr_expect_eq(rank == 5, view.members[m].is_draining, "it comes last");
                if (rank > 0)
                        continue;
                for (int other = 0; other < 6; other++)
                        if (other != m)
                                cr_expect_eq(placement_rank(&view, 0, 0, other, m),
                                    placement_rank(&view, 0, 0, other, NOBODY) - 1,
                                    "the one that is left out does not count");
        }
        cr_expect_eq(seen, 0x3f, "no two have the same rank");
        view_deinit(&view);
}
