/*
 * Two steps: how many shards of each sink each member is to have, which is a
 * flow of least cost (spread.h); then, sink by sink, which ones. For both it
 * holds that a move on the way to the answer does not change it. In a flow it
 * makes what the answer uses cheaper, and only that.
 */
#include "members/placement.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "members/spread.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define WHOLE (INT64_C(1) << 20)

/* What the nth shard of a member costs: by weight less than ROUNDED_UP, then less than ABOVE, then
 * less than twice that. Of all shards it counts OF_ALL times, more than in any chain of moves. */
#define ROUNDED_UP (INT64_C(1) << 25)
#define ABOVE      (INT64_C(1) << 26)
#define OF_ALL     (INT64_C(1) << 35)

/* More than all distances in a chain of moves. */
#define MOVE (INT64_C(1) << 48)

/* A share of so many things, by weight. */
struct quota {
        uint32_t whole;
        int64_t remainder; /* of WHOLE */
};

struct placing {
        const struct view *view;
        size_t n_members; /* those that get shards */
        int *members;
        uint64_t *member_hashes;
        size_t n_sinks; /* those that such a member serves */
        size_t *sinks;
        uint64_t *sink_hashes;
        uint32_t *n_shards;       /* of each of these sinks */
        struct quota *quotas;     /* [sink * n_members + member] */
        struct quota *all_quotas; /* of all shards: [member] */
        uint32_t *owned;          /* [sink * n_members + member]: how many it has */
        uint32_t *counts;         /* likewise: how many it is to have */
};

/* ---- distances ------------------------------------------------------------------------------- */

/* The finalizer of MurmurHash3 (Appleby): FNV alone mixes the last bytes too little. */
static uint64_t mix(uint64_t hash)
{
        hash = (hash ^ (hash >> 33)) * UINT64_C(0xff51afd7ed558ccd);
        hash = (hash ^ (hash >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
        return hash ^ (hash >> 33);
}

static uint64_t shard_hash(uint64_t sink_hash, uint32_t number)
{
        return mix(sink_hash + number + 1);
}

static int64_t distance(uint64_t member_hash, uint64_t thing_hash, uint32_t weight)
{
        return (int64_t)(mix(member_hash ^ thing_hash) >> 24) / weight;
}

/* ---- shares ---------------------------------------------------------------------------------- */

static struct quota quota_of(uint64_t n, uint64_t weight, uint64_t all_weights)
{
        uint64_t share = n * weight;

        return (struct quota){.whole = (uint32_t)(share / all_weights),
            .remainder = (int64_t)(share % all_weights) * WHOLE / (int64_t)all_weights};
}

/* Units up to the whole share are given out by weight, then one by the remainder, then more by
 * weight. The cost grows with n. */
static int64_t cost_of_nth(const struct quota *quota, uint32_t weight, uint32_t nth)
{
        if (nth == quota->whole + 1 && quota->remainder > 0)
                return ROUNDED_UP + WHOLE - quota->remainder;
        return (nth > quota->whole ? ABOVE : 0) + (2 * (int64_t)nth - 1) * VIEW_MAX_WEIGHT / weight;
}

/* ---- how many of each sink ------------------------------------------------------------------- */

static const struct member *member_at(const struct placing *placing, size_t member)
{
        return &placing->view->members[placing->members[member]];
}

static bool serves(const struct placing *placing, size_t sink, size_t member)
{
        return view_serves(placing->view, (size_t)placing->members[member], placing->sinks[sink]);
}

static bool share_cost(
    const void *context, size_t sink, size_t member, uint32_t nth, struct cost *out_cost)
{
        const struct placing *placing = context;
        uint32_t weight = member_at(placing, member)->weight;
        size_t at = sink * placing->n_members + member;

        if (!serves(placing, sink, member))
                return false;
        *out_cost = (struct cost){.uneven = cost_of_nth(&placing->quotas[at], weight, nth),
            .far = distance(placing->member_hashes[member], placing->sink_hashes[sink], weight) +
                   (nth > placing->owned[at] ? MOVE : 0)};
        return true;
}

static int64_t load_cost(const void *context, size_t member, uint32_t nth)
{
        const struct placing *placing = context;

        return OF_ALL *
               cost_of_nth(&placing->all_quotas[member], member_at(placing, member)->weight, nth);
}

static void share_out_sink(struct placing *placing, size_t sink)
{
        uint64_t weights = 0;

        for (size_t m = 0; m < placing->n_members; m++)
                if (serves(placing, sink, m))
                        weights += member_at(placing, m)->weight;
        for (size_t m = 0; m < placing->n_members; m++) {
                struct quota *quota = &placing->quotas[sink * placing->n_members + m];

                if (!serves(placing, sink, m))
                        continue;
                *quota = quota_of(placing->n_shards[sink], member_at(placing, m)->weight, weights);
                /* Whose shares of a sink are rounded up, the sum of all shards decides. */
                if (quota->remainder > 0)
                        quota->remainder = WHOLE;
        }
}

static bool serves_any(const struct placing *placing, size_t member)
{
        for (size_t sink = 0; sink < placing->n_sinks; sink++)
                if (serves(placing, sink, member))
                        return true;
        return false;
}

static void share_out_all(struct placing *placing)
{
        uint64_t weights = 0, n_shards = 0;

        for (size_t sink = 0; sink < placing->n_sinks; sink++)
                n_shards += placing->n_shards[sink];
        for (size_t m = 0; m < placing->n_members; m++)
                if (serves_any(placing, m))
                        weights += member_at(placing, m)->weight;
        for (size_t m = 0; m < placing->n_members; m++)
                if (serves_any(placing, m))
                        placing->all_quotas[m] =
                            quota_of(n_shards, member_at(placing, m)->weight, weights);
}

static void decide_counts(struct placing *placing)
{
        struct spread spread = {.n_things = placing->n_sinks,
            .n_members = placing->n_members,
            .n_units = placing->n_shards,
            .context = placing,
            .unit_cost = share_cost,
            .load_cost = load_cost};

        for (size_t sink = 0; sink < placing->n_sinks; sink++)
                share_out_sink(placing, sink);
        share_out_all(placing);
        spread_units(&spread, placing->counts);
}

/* ---- which shards of a sink ------------------------------------------------------------------ */

/* A shard that may go to a member that lacks some. */
struct offer {
        int64_t distance;
        uint32_t number;
        uint32_t member;
};

static int compare_offers(const void *a, const void *b)
{
        const struct offer *left = a, *right = b;

        if (left->distance != right->distance)
                return left->distance < right->distance ? -1 : 1;
        if (left->number != right->number)
                return left->number < right->number ? -1 : 1;
        return left->member < right->member ? -1 : left->member > right->member;
}

/* What each member has and should not have; less than 0: what it lacks. */
static void count_surplus(
    const struct placing *placing, size_t sink, int *out_of_owner, int *out_surplus)
{
        for (size_t m = 0; m < placing->n_members; m++) {
                size_t at = sink * placing->n_members + m;

                out_of_owner[placing->members[m]] = (int)m;
                out_surplus[m] = (int)placing->owned[at] - (int)placing->counts[at];
        }
}

static size_t list_offers(const struct placing *placing, size_t sink, const int *holders,
    const int *surplus, struct offer *out_offers)
{
        size_t n = 0;

        for (uint32_t number = 0; number < placing->n_shards[sink]; number++) {
                uint64_t hash = shard_hash(placing->sink_hashes[sink], number);

                if (holders[number] != NOBODY && surplus[holders[number]] <= 0)
                        continue;
                for (size_t m = 0; m < placing->n_members; m++)
                        if (surplus[m] < 0)
                                out_offers[n++] =
                                    (struct offer){distance(placing->member_hashes[m], hash, 1),
                                        number, (uint32_t)m};
        }
        return n;
}

/* The nearest first, as long as the one has too many and the other too few. */
static void accept_offers(struct offer *offers, size_t n, int *holders, int *surplus)
{
        qsort(offers, n, sizeof *offers, compare_offers);
        for (size_t i = 0; i < n; i++) {
                const struct offer *offer = &offers[i];
                int holder = holders[offer->number];

                if (surplus[offer->member] >= 0 || (holder != NOBODY && surplus[holder] <= 0))
                        continue;
                if (holder != NOBODY)
                        surplus[holder]--;
                surplus[offer->member]++;
                holders[offer->number] = (int)offer->member;
        }
}

/* `holders` are the owners as members of `placing`; NOBODY stands for any other. */
static void decide_shards(
    const struct placing *placing, size_t sink, const int *owners, int *out_owners)
{
        uint32_t n_shards = placing->n_shards[sink];
        int *surplus = xcalloc(placing->n_members, sizeof *surplus);
        int *of_owner = xcalloc(placing->view->n_members, sizeof *of_owner);
        int *holders = xcalloc(n_shards + 1, sizeof *holders);
        struct offer *offers = xcalloc(n_shards * placing->n_members + 1, sizeof *offers);

        for (size_t m = 0; m < placing->view->n_members; m++)
                of_owner[m] = NOBODY;
        count_surplus(placing, sink, of_owner, surplus);
        for (uint32_t number = 0; number < n_shards; number++) {
                holders[number] = owners[number] < 0 ? NOBODY : of_owner[owners[number]];
                if (holders[number] != NOBODY && !serves(placing, sink, (size_t)holders[number]))
                        holders[number] = NOBODY;
        }
        accept_offers(
            offers, list_offers(placing, sink, holders, surplus, offers), holders, surplus);
        for (uint32_t number = 0; number < n_shards; number++)
                out_owners[number] = placing->members[holders[number]];
        free(surplus);
        free(of_owner);
        free(holders);
        free(offers);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool counts_in(const bool *is_counted, size_t member)
{
        return is_counted == NULL || is_counted[member];
}

static void take_members(struct placing *placing, const bool *is_counted)
{
        const struct view *view = placing->view;

        for (size_t m = 0; m < view->n_members; m++) {
                if (!counts_in(is_counted, m) || view->members[m].is_draining)
                        continue;
                placing->members[placing->n_members] = (int)m;
                placing->member_hashes[placing->n_members++] =
                    mix(hash_text(view->members[m].name));
        }
}

static bool is_served(const struct placing *placing, size_t sink)
{
        for (size_t m = 0; m < placing->n_members; m++)
                if (view_serves(placing->view, (size_t)placing->members[m], sink))
                        return true;
        return false;
}

static void take_sinks(struct placing *placing)
{
        const struct view *view = placing->view;

        for (size_t sink = 0; sink < view->n_sinks; sink++) {
                if (!is_served(placing, sink))
                        continue;
                placing->sinks[placing->n_sinks] = sink;
                placing->sink_hashes[placing->n_sinks] = mix(hash_text(view->sinks[sink].name));
                placing->n_shards[placing->n_sinks++] = view->sinks[sink].n_shards;
        }
}

static int64_t distance_of(const struct view *view, size_t sink, uint32_t number, int member)
{
        return distance(mix(hash_text(view->members[member].name)),
            shard_hash(mix(hash_text(view->sinks[sink].name)), number),
            view->members[member].weight);
}

static bool is_nearer(const struct view *view, size_t sink, uint32_t number, int a, int b)
{
        const struct member *left = &view->members[a], *right = &view->members[b];
        int64_t left_distance, right_distance;

        if (left->is_draining != right->is_draining)
                return right->is_draining;
        left_distance = distance_of(view, sink, number, a);
        right_distance = distance_of(view, sink, number, b);
        return left_distance != right_distance ? left_distance < right_distance
                                               : strcmp(left->name, right->name) < 0;
}

/* Of those that are draining. */
static int nearest_member(
    const struct view *view, const bool *is_counted, size_t sink, uint32_t number)
{
        int nearest = NOBODY;

        for (size_t m = 0; m < view->n_members; m++)
                if (counts_in(is_counted, m) && view_serves(view, m, sink) &&
                    (nearest == NOBODY || is_nearer(view, sink, number, (int)m, nearest)))
                        nearest = (int)m;
        return nearest;
}

static void keep_shards(const struct view *view, const bool *is_counted, size_t sink,
    const int *owners, int *out_owners)
{
        for (uint32_t number = 0; number < view->sinks[sink].n_shards; number++) {
                int owner = owners[number];

                if (owner >= 0 && counts_in(is_counted, (size_t)owner) &&
                    view_serves(view, (size_t)owner, sink))
                        out_owners[number] = owner;
                else
                        out_owners[number] = nearest_member(view, is_counted, sink, number);
        }
}

static void count_owned(struct placing *placing, size_t sink, const int *owners)
{
        for (size_t m = 0; m < placing->n_members; m++)
                for (uint32_t number = 0; number < placing->n_shards[sink]; number++)
                        if (owners[number] == placing->members[m])
                                placing->owned[sink * placing->n_members + m]++;
}

static struct placing begin_placing(const struct view *view)
{
        size_t n = view->n_members, n_sinks = view->n_sinks;

        return (struct placing){.view = view,
            .members = xcalloc(n + 1, sizeof(int)),
            .member_hashes = xcalloc(n + 1, sizeof(uint64_t)),
            .sinks = xcalloc(n_sinks + 1, sizeof(size_t)),
            .sink_hashes = xcalloc(n_sinks + 1, sizeof(uint64_t)),
            .n_shards = xcalloc(n_sinks + 1, sizeof(uint32_t)),
            .quotas = xcalloc(n_sinks * n + 1, sizeof(struct quota)),
            .all_quotas = xcalloc(n + 1, sizeof(struct quota)),
            .owned = xcalloc(n_sinks * n + 1, sizeof(uint32_t)),
            .counts = xcalloc(n_sinks * n + 1, sizeof(uint32_t))};
}

static void end_placing(struct placing *placing)
{
        free(placing->members);
        free(placing->member_hashes);
        free(placing->sinks);
        free(placing->sink_hashes);
        free(placing->n_shards);
        free(placing->quotas);
        free(placing->all_quotas);
        free(placing->owned);
        free(placing->counts);
}

void placement_decide(const struct view *view, const bool *is_counted, int *out_owners)
{
        struct placing placing = begin_placing(view);
        size_t *firsts = xcalloc(view->n_sinks + 1, sizeof *firsts);

        for (size_t sink = 0; sink < view->n_sinks; sink++)
                firsts[sink + 1] = firsts[sink] + view->sinks[sink].n_shards;
        assert(view_is_sorted(view) && firsts[view->n_sinks] == view->n_shards);
        for (size_t shard = 0; shard < view->n_shards; shard++)
                out_owners[shard] = NOBODY;

        take_members(&placing, is_counted);
        take_sinks(&placing);
        for (size_t sink = 0; sink < placing.n_sinks; sink++)
                count_owned(&placing, sink, &view->owners[firsts[placing.sinks[sink]]]);
        decide_counts(&placing);
        for (size_t sink = 0; sink < placing.n_sinks; sink++) {
                size_t first = firsts[placing.sinks[sink]];

                decide_shards(&placing, sink, &view->owners[first], &out_owners[first]);
        }
        for (size_t sink = 0; sink < view->n_sinks; sink++)
                if (!is_served(&placing, sink))
                        keep_shards(view, is_counted, sink, &view->owners[firsts[sink]],
                            &out_owners[firsts[sink]]);
        free(firsts);
        end_placing(&placing);
}

uint32_t placement_rank(
    const struct view *view, size_t sink, uint32_t number, int member, int except)
{
        uint32_t rank = 0;

        for (size_t m = 0; m < view->n_members; m++)
                if ((int)m != member && (int)m != except && view_serves(view, m, sink) &&
                    is_nearer(view, sink, number, (int)m, member))
                        rank++;
        return rank;
}
