/* Attempts in the order in which they came. Begins zeroed. */
#pragma once

#include "base/alloc.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct attempt;

struct attempt_queue {
        struct attempt **items; /* owned */
        size_t first;
        size_t n; /* from first on */
        size_t capacity;
};

/* They are filled, and then emptied: there is little to move. */
static inline void attempt_queue_push(struct attempt_queue *queue, struct attempt *attempt)
{
        bool is_full = queue->first + queue->n == queue->capacity;

        if (is_full && queue->first > 0) {
                memmove(queue->items, queue->items + queue->first, queue->n * sizeof attempt);
                queue->first = 0;
        } else if (is_full) {
                queue->capacity = queue->capacity > 0 ? 2 * queue->capacity : 256;
                queue->items = xrealloc(queue->items, queue->capacity * sizeof attempt);
        }
        queue->items[queue->first + queue->n++] = attempt;
}

static inline struct attempt *attempt_queue_take(struct attempt_queue *queue)
{
        struct attempt *attempt;

        assert(queue->n > 0);
        attempt = queue->items[queue->first++];
        if (--queue->n == 0)
                queue->first = 0;
        return attempt;
}

static inline void attempt_queue_deinit(struct attempt_queue *queue)
{
        free(queue->items);
}
