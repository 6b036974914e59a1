/* Attempts in the order in which they came, linked by their sink_data. Begins zeroed. */
#pragma once

#include "pgcourier/sink.h"

#include <stddef.h>

struct attempt_queue {
        struct attempt *first; /* NULL: empty; the next is its sink_data */
        struct attempt *last;
};

static inline void attempt_queue_push(struct attempt_queue *queue, struct attempt *attempt)
{
        attempt->sink_data = NULL;
        if (queue->first == NULL)
                queue->first = attempt;
        else
                queue->last->sink_data = attempt;
        queue->last = attempt;
}

/* NULL: it is empty. */
static inline struct attempt *attempt_queue_take(struct attempt_queue *queue)
{
        struct attempt *attempt = queue->first;

        if (attempt != NULL)
                queue->first = attempt->sink_data;
        return attempt;
}
