/* Requests to Redis in the order in which they came: those in flight first, then those that wait. */
#pragma once

#include <stddef.h>

struct attempt;

struct redis_request {
        struct attempt *attempt; /* lent by the relay; NULL: the probe */
};

/* All zero is empty. */
struct redis_ring {
        struct redis_request *requests;
        size_t capacity; /* a power of two */
        size_t first;    /* counts on for ever; the place in the ring is its remainder */
        size_t n;
        size_t n_sent; /* of those, the first ones: unanswered */
};

void redis_ring_deinit(struct redis_ring *ring);
void redis_ring_push(struct redis_ring *ring, struct redis_request request);
struct redis_request *redis_ring_at(const struct redis_ring *ring, size_t index);

/* Takes the first one out. */
struct redis_request redis_ring_take(struct redis_ring *ring);

/* Leaves only those in flight. */
void redis_ring_drop_waiting(struct redis_ring *ring);
