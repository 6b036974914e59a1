/*
 * The members are the nodes of a graph. An edge from a to b is the cheapest move
 * of one unit from a to b. A move costs what the unit costs more at b than at
 * a; a chain of moves also changes what the first and the last member bear as
 * load. No circle of moves ever gains anything: that holds at first, because
 * each thing lies where it costs least, and the cheapest chain preserves it.
 */
#include "members/spread.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define IMPOSSIBLE INT64_MAX

struct edge {
        struct cost cost;
        size_t thing;
};

/* The last move of the cheapest chain that ends at a member. */
struct chain_end {
        struct cost cost; /* of the chain, without the load of this member */
        size_t from;      /* the member before it, or itself where the chain begins */
        size_t thing;
        bool is_new; /* chains that go on from here are not yet looked at */
};

struct work {
        const struct spread *spread;
        uint32_t *counts;   /* [thing * n_members + member]; borrowed */
        struct cost *nexts; /* likewise: of one more unit */
        struct cost *lasts; /* likewise: of the last unit, if there is one */
        uint32_t *loads;
        struct edge *edges; /* [from * n_members + to] */
        struct chain_end *ends;
};

static struct cost plus(struct cost a, struct cost b)
{
        return (struct cost){a.uneven + b.uneven, a.far + b.far};
}

static struct cost minus(struct cost a, struct cost b)
{
        return (struct cost){a.uneven - b.uneven, a.far - b.far};
}

static bool is_less(struct cost a, struct cost b)
{
        return a.uneven != b.uneven ? a.uneven < b.uneven : a.far < b.far;
}

static bool is_possible(struct cost cost)
{
        return cost.uneven != IMPOSSIBLE;
}

/* ---- where each thing costs least ------------------------------------------------------------ */

static struct cost unit_cost(const struct work *work, size_t thing, size_t member, uint32_t nth)
{
        const struct spread *spread = work->spread;
        struct cost cost;

        if (!spread->unit_cost(spread->context, thing, member, nth, &cost))
                cost = (struct cost){.uneven = IMPOSSIBLE};
        return cost;
}

static void set_count(struct work *work, size_t thing, size_t member, uint32_t count)
{
        size_t at = thing * work->spread->n_members + member;

        work->counts[at] = count;
        if (count > 0)
                work->lasts[at] = unit_cost(work, thing, member, count);
        work->nexts[at] = unit_cost(work, thing, member, count + 1);
}

static size_t cheapest_member(const struct work *work, size_t thing)
{
        size_t n = work->spread->n_members, best = 0;
        const struct cost *nexts = &work->nexts[thing * n];

        for (size_t member = 1; member < n; member++)
                if (is_less(nexts[member], nexts[best]))
                        best = member;
        assert(is_possible(nexts[best]));
        return best;
}

static void place_at_first(struct work *work, size_t thing)
{
        size_t n = work->spread->n_members, member;

        for (member = 0; member < n; member++)
                set_count(work, thing, member, 0);
        for (uint32_t unit = 0; unit < work->spread->n_units[thing]; unit++) {
                member = cheapest_member(work, thing);
                set_count(work, thing, member, work->counts[thing * n + member] + 1);
                work->loads[member]++;
        }
}

/* ---- edges ----------------------------------------------------------------------------------- */

/* `from` has a unit of the thing. */
static void offer_move(struct work *work, size_t thing, size_t from, size_t to)
{
        size_t n = work->spread->n_members;
        struct edge *edge = &work->edges[from * n + to];
        struct cost next = work->nexts[thing * n + to], cost;

        if (to == from || !is_possible(next))
                return;
        cost = minus(next, work->lasts[thing * n + from]);
        if (!is_possible(edge->cost) || is_less(cost, edge->cost))
                *edge = (struct edge){cost, thing};
}

static void find_move(struct work *work, size_t from, size_t to)
{
        size_t n = work->spread->n_members;

        work->edges[from * n + to].cost.uneven = IMPOSSIBLE;
        for (size_t thing = 0; thing < work->spread->n_things; thing++)
                if (work->counts[thing * n + from] > 0)
                        offer_move(work, thing, from, to);
}

static void find_moves(struct work *work, size_t from)
{
        size_t n = work->spread->n_members;

        for (size_t to = 0; to < n; to++)
                work->edges[from * n + to].cost.uneven = IMPOSSIBLE;
        for (size_t thing = 0; thing < work->spread->n_things; thing++)
                for (size_t to = 0; work->counts[thing * n + from] > 0 && to < n; to++)
                        offer_move(work, thing, from, to);
}

/* After a unit has moved: it costs less to give `from` one, and more to give `to` another. */
static void find_moves_after(struct work *work, size_t thing, size_t from, size_t to)
{
        size_t n = work->spread->n_members;

        find_moves(work, from);
        for (size_t member = 0; member < n; member++)
                offer_move(work, thing, to, member);
        for (size_t member = 0; member < n; member++) {
                if (work->counts[thing * n + member] > 0)
                        offer_move(work, thing, member, from);
                if (work->edges[member * n + to].thing == thing)
                        find_move(work, member, to);
        }
}

/* ---- chains ---------------------------------------------------------------------------------- */

static struct cost load_cost(const struct work *work, size_t member, uint32_t nth)
{
        const struct spread *spread = work->spread;

        return (struct cost){.uneven = spread->load_cost(spread->context, member, nth)};
}

static void lengthen_chain(struct work *work, size_t from)
{
        const struct edge *edges = &work->edges[from * work->spread->n_members];

        work->ends[from].is_new = false;
        for (size_t to = 0; to < work->spread->n_members; to++) {
                struct cost cost;

                if (!is_possible(edges[to].cost))
                        continue;
                cost = plus(work->ends[from].cost, edges[to].cost);
                if (!is_possible(work->ends[to].cost) || is_less(cost, work->ends[to].cost))
                        work->ends[to] = (struct chain_end){cost, from, edges[to].thing, true};
        }
}

/* Bellman and Ford's; no circle gains, so it ends. */
static void find_chains(struct work *work)
{
        size_t n = work->spread->n_members;
        const struct cost none = {0};
        bool is_any = true;

        for (size_t member = 0; member < n; member++) {
                struct chain_end *end = &work->ends[member];

                *end = (struct chain_end){.cost.uneven = IMPOSSIBLE, .from = member};
                if (work->loads[member] == 0)
                        continue;
                end->cost = minus(none, load_cost(work, member, work->loads[member]));
                end->is_new = true;
        }
        while (is_any) {
                is_any = false;
                for (size_t member = 0; member < n; member++) {
                        if (!work->ends[member].is_new)
                                continue;
                        lengthen_chain(work, member);
                        is_any = true;
                }
        }
}

/* The end of the chain that gains most. */
static bool find_gain(struct work *work, size_t *out_end)
{
        struct cost best = {0};

        find_chains(work);
        for (size_t member = 0; member < work->spread->n_members; member++) {
                struct cost cost = work->ends[member].cost;

                if (!is_possible(cost))
                        continue;
                cost = plus(cost, load_cost(work, member, work->loads[member] + 1));
                if (is_less(cost, best)) {
                        best = cost;
                        *out_end = member;
                }
        }
        return best.uneven != 0 || best.far != 0;
}

static void move_along_chain(struct work *work, size_t last)
{
        size_t n = work->spread->n_members, to;

        for (to = last; work->ends[to].from != to; to = work->ends[to].from) {
                size_t thing = work->ends[to].thing, from = work->ends[to].from;

                set_count(work, thing, from, work->counts[thing * n + from] - 1);
                set_count(work, thing, to, work->counts[thing * n + to] + 1);
        }
        work->loads[to]--;
        work->loads[last]++;
        for (to = last; work->ends[to].from != to; to = work->ends[to].from)
                find_moves_after(work, work->ends[to].thing, work->ends[to].from, to);
}

void spread_units(const struct spread *spread, uint32_t *out_counts)
{
        size_t n = spread->n_members, n_pairs = spread->n_things * n, end = 0;
        struct work work = {.spread = spread,
            .counts = out_counts,
            .nexts = xcalloc(n_pairs + 1, sizeof *work.nexts),
            .lasts = xcalloc(n_pairs + 1, sizeof *work.lasts),
            .loads = xcalloc(n + 1, sizeof *work.loads),
            .edges = xcalloc(n * n + 1, sizeof *work.edges),
            .ends = xcalloc(n + 1, sizeof *work.ends)};

        for (size_t thing = 0; thing < spread->n_things; thing++)
                place_at_first(&work, thing);
        for (size_t member = 0; member < n; member++)
                find_moves(&work, member);
        while (find_gain(&work, &end))
                move_along_chain(&work, end);

        free(work.nexts);
        free(work.lasts);
        free(work.loads);
        free(work.edges);
        free(work.ends);
}
