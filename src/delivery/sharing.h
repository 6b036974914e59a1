/*
 * Shares the shards of all sinks with the other relays: sees who is there and who has what, and
 * claims and gives shards as members/turns.h decides. A relay that is no member (`run --once`)
 * wants all shards, and has no sharing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sharing;
struct sink_set;
struct view;

/* Before the first sink is added. The set is borrowed. */
struct sharing *sharing_create(struct sink_set *set);
void sharing_destroy(struct sharing *sharing); /* NULL is allowed in this, and in all that follow */

/* How often it looks at the others, if there are any. */
void sharing_configure(struct sharing *sharing, int64_t interval_ms);

/* The others have news: it looks now. */
void sharing_look(struct sharing *sharing);

/* The answer; NULL: as before. */
void sharing_take_view(struct sharing *sharing, const struct view *view);

void sharing_session_down(struct sharing *sharing);

/* The relay ends: gives its shards to the others, one after another. Afterwards, nothing is left
 * that they could take. */
void sharing_leave(struct sharing *sharing);
bool sharing_has_left(const struct sharing *sharing);
