/*
 * The keys of the events in one burst: only to tell whether one comes twice. Keys are compared by their
 * hashes; if two ever had the same, they would be taken for a repetition, which costs time and
 * nothing else.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { REDIS_KEYS_PLACES = 2048 /* a power of two, and several times what a burst holds */ };

/* All zero is empty. */
struct redis_keys {
        struct {
                uint64_t hash;
                uint64_t burst; /* in which it was noted; of another one: the place is free */
        } places[REDIS_KEYS_PLACES];
        uint64_t burst;
};

/* Forgets all, for the next burst. */
void redis_keys_clear(struct redis_keys *keys);

/* Notes the key; false if it was noted before. At most REDIS_BURST_MAX of them. */
bool redis_keys_add(struct redis_keys *keys, const char *key);
