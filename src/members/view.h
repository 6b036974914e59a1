/*
 * What one relay knows of all members and all shards at a moment. Views of
 * different relays may differ for a moment.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VIEW_MAX_MEMBERS 256
#define VIEW_MAX_SHARDS  8192 /* of all sinks */
#define VIEW_MAX_WEIGHT  1000

/* In place of a member, as the owner of a shard. */
#define NOBODY   (-1)
#define STRANGER (-2) /* a session that is none of the members, as of a relay that connected anew */

struct member {
        char *name;
        uint32_t weight; /* 1 … VIEW_MAX_WEIGHT */
        bool is_draining;
};

struct sharded_sink {
        char *name;
        uint32_t n_shards;
};

/* Each name occurs once. All shards are numbered in one sequence, sink by sink. */
struct view {
        size_t n_members, n_sinks, n_shards;
        struct member *members;
        struct sharded_sink *sinks;
        bool *serves; /* [member * n_sinks + sink]: the member may own shards of the sink */
        int *owners;  /* of each shard: a member, NOBODY or STRANGER */
};

/* The copy has members and sinks in the order of their names, and owns all that it points to. */
void view_copy(struct view *copy, const struct view *from);
void view_deinit(struct view *copy);

/* ---- of a copy ------------------------------------------------------------------------------- */

bool view_is_sorted(const struct view *view);

/* The index of the member or the sink of that name, or -1. */
int view_find_member(const struct view *view, const char *name);
int view_find_sink(const struct view *view, const char *name);

/* The first shard of the sink. */
size_t view_first_shard(const struct view *view, size_t sink);

bool view_serves(const struct view *view, size_t member, size_t sink);
