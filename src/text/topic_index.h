/*
 * Finds, among the patterns of many, those that may match a topic, without asking each: by what
 * stands before a pattern's first `*`. Ten thousand tenants with a topic of their own each cost an
 * event no more than a few.
 */
#pragma once

#include "text/topic_pattern.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct topic_index_entry {
        uint64_t hash; /* of the prefix */
        size_t number; /* in the order in which they were added */
        void *owner;   /* borrowed */
};

/* All zero: empty. */
struct topic_index {
        struct topic_index_entry *entries; /* owned */
        size_t n_entries, n_entries_max;
        bool has_length[TOPIC_PATTERN_BYTES + 1]; /* some prefix has so many bytes */
        bool is_sorted;                           /* by hash, then by number */
};

void topic_index_deinit(struct topic_index *index);

/* The owner may take what one of the patterns matches. Those that begin with `!` are skipped. */
void topic_index_add(
    struct topic_index *index, char *const *patterns, size_t n_patterns, void *owner);

/* Calls `found` for each owner with a pattern that may match the topic; for some whose patterns do
 * not match; and more than once for an owner with several patterns. Owners of one prefix come in
 * the order in which they were added. */
void topic_index_find(struct topic_index *index, const char *topic,
    void (*found)(void *context, void *owner), void *context);
