/*
 * What there is to do before the loop waits: the lanes to ask what they want,
 * and whether anything else has to be looked at. The relay owns it and goes
 * through it at the end of each turn of the loop.
 */
#pragma once

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct work {
        struct list runners; /* runner::work_link */
        bool is_pending;     /* these, or anything else: the turn is not over */
        bool has_settled;    /* some lane, since the relay looked last */
        uint64_t n_turn;     /* of the loop */
};

static inline void work_init(struct work *work)
{
        list_init(&work->runners);
        work->is_pending = false;
        work->has_settled = false;
        work->n_turn = 1;
}
