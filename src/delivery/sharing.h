/*
 * Shares the shards of all sinks with the other relays: sees who is there and who has what, and
 * claims and gives shards as members/turns.h decides. A relay that is no member (`run --once`)
 * wants all shards, and has no sharing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct dispatcher;
struct shard;
struct sharing;
struct sink_set;
struct view;

struct sharing *sharing_create(struct sink_set *set);
void sharing_destroy(struct sharing *sharing); /* NULL is allowed in this, and in all that follow */

/* How often it looks at the others, if there are any. */
void sharing_configure(struct sharing *sharing, int64_t interval_ms);

/* A sink was agreed on, or the others have news: it looks now. */
void sharing_look(struct sharing *sharing);

/* The answer; NULL: as before. */
void sharing_take_view(struct sharing *sharing, const struct view *view);

void sharing_session_down(struct sharing *sharing);

/* The dispatcher takes its place: it has the shards that are ours. It leaves its place: it claims
 * none any more. */
void sharing_begin(struct sharing *sharing, struct dispatcher *dispatcher);
void sharing_end(struct sharing *sharing, struct dispatcher *dispatcher);

/* The dispatcher is gone: unless there is another for its sink, none of its shards is ours. */
void sharing_forget(struct sharing *sharing, const struct dispatcher *gone);

/* A shard is ours; or it is not, although it was wanted; or it was given back. */
void sharing_note_owned(struct sharing *sharing, struct shard *shard);
void sharing_note_lost(struct sharing *sharing, struct shard *shard);
void sharing_note_released(struct sharing *sharing, struct shard *shard);

/* The relay ends: gives its shards to the others, one after another. Afterwards, nothing is left
 * that they could take. */
void sharing_leave(struct sharing *sharing);
bool sharing_has_left(const struct sharing *sharing);
