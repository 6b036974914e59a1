/*
 * The keys of the events in flight: only to tell whether one is among them. Keys are compared by their
 * hashes; if two ever had the same, they would be taken for a repetition, which costs time and
 * nothing else.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { REDIS_KEYS_PLACES = 4096 /* a power of two, and several times what two bursts hold */ };

/* All zero is empty. */
struct redis_keys {
        struct {
                uint64_t hash;
                uint64_t burst; /* in which it was noted; of a forgotten one: the place is free */
        } places[REDIS_KEYS_PLACES];
        uint64_t burst;     /* the last one */
        uint64_t forgotten; /* up to this one */
};

/* From here on keys are noted for another burst; those of bursts before stay. */
void redis_keys_start_burst(struct redis_keys *keys);

/* Forgets those of all bursts but the last one; there was one. */
void redis_keys_forget_others(struct redis_keys *keys);

/* Notes the key; false if it was noted before. At most REDIS_BURST_MAX for a burst, and two bursts. */
bool redis_keys_add(struct redis_keys *keys, const char *key);
