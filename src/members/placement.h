/*
 * Which member should own each shard. Pure: the same view gives the same answer
 * at each relay.
 *
 * Of all ways to give the shards out, the best is taken. In this order:
 *   - all shards are spread evenly; where members may not serve all sinks, as evenly as that allows
 *   - so are the shards of each sink
 *   - few shards move
 *   - shards that move, or that nobody has, go to members near to them: each pair of a shard and a
 *     member has a distance, from their names (rendezvous hashing: Thaler & Ravishankar 1998; with
 *     bounded loads: Mirrokni, Thorup & Zadimoghaddam 2018)
 * Evenly is by weight: a member gets its exact share, rounded down or up; the largest remainders
 * are rounded up.
 *
 * Moves on the way to the answer do not change it: a shard that has moved is where it should be.
 * So relays agree although some see a move that others do not see yet, and no shard moves twice.
 *
 * A member that is draining gets nothing. Where only such members serve a sink, its shards stay
 * with them.
 */
#pragma once

#include "members/view.h"

/* Fills out_owners[shard] with a member, or NOBODY if no member serves the sink. Members that are
 * not in `is_counted` are as if they were not there; NULL: all count. */
void placement_decide(const struct view *view, const bool *is_counted, int *out_owners);

/* How many members that serve the sink are nearer to its shard than this one, without `except`.
 * Those that are draining are the farthest. */
uint32_t placement_rank(
    const struct view *view, size_t sink, uint32_t number, int member, int except);
