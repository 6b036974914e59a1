#include "sinks/redis/redis_ring.h"

#include "base/alloc.h"

#include <stdlib.h>

enum { FIRST_CAPACITY = 256 };

void redis_ring_deinit(struct redis_ring *ring)
{
        free(ring->requests);
        *ring = (struct redis_ring){0};
}

struct redis_request *redis_ring_at(const struct redis_ring *ring, size_t index)
{
        return &ring->requests[(ring->first + index) & (ring->capacity - 1)];
}

static void grow(struct redis_ring *ring)
{
        size_t capacity = ring->capacity > 0 ? 2 * ring->capacity : FIRST_CAPACITY;
        struct redis_request *requests = xcalloc(capacity, sizeof *requests);

        for (size_t i = 0; i < ring->n; i++)
                requests[i] = *redis_ring_at(ring, i);
        free(ring->requests);
        ring->requests = requests;
        ring->capacity = capacity;
        ring->first = 0;
}

void redis_ring_push(struct redis_ring *ring, struct redis_request request)
{
        if (ring->n == ring->capacity)
                grow(ring);
        *redis_ring_at(ring, ring->n++) = request;
}

struct redis_request redis_ring_take(struct redis_ring *ring)
{
        struct redis_request request = *redis_ring_at(ring, 0);

        ring->first++;
        ring->n--;
        if (ring->n_sent > 0)
                ring->n_sent--;
        return request;
}

void redis_ring_drop_waiting(struct redis_ring *ring)
{
        ring->n = ring->n_sent;
}
