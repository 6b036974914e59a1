/*
 * One receiver of a sink that fans out, as a runner of its own lane: made from its
 * row of courier.receiver, changed with it, and disabled when it fails for too long.
 */
#pragma once

struct receiver;
struct fanout;
struct shard;
struct list;
struct runner;

/* `before`: the next runner in order of id, or the list of them. */
void receiver_lane_add(struct fanout *fanout, const struct receiver *receiver, struct shard *shard,
    struct list *before);

/* The same row, perhaps changed. */
void receiver_lane_update(struct runner *runner, const struct receiver *receiver);

/* Its row is gone: it ends when nothing of it is under way (fanout_prepare()). */
void receiver_lane_remove(struct runner *runner);
