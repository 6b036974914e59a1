/*
 * The receivers of the sink that fans out: rows of courier.receiver, changed while the relays run.
 * What is wanted is done as soon as PostgreSQL lets us. Those that come and go all the time are
 * elsewhere: newcomers.h.
 */
#pragma once

#include "chaos/arrivals.h"
#include "chaos/dear_filter.h"
#include "chaos/events.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct receivers {
        const char *dsn; /* of the superuser, not by the faulty road; borrowed */
        uint16_t ports[2];
        struct arrivals *passing; /* borrowed */

        /* Set by the caller. */
        bool wants_pause, wants_move, wants_new;
        struct dear_filter filter;

        bool is_paused;
        unsigned n_moves, n_pauses;
        atomic_uint generation;       /* of the one that is removed and added anew */
        char before[256], after[256]; /* what was visible before and after its INSERT; "": it began
                                         at the beginning */
        int64_t next_try_us;
};

/* `ports` of the many, and of the one that has a server of its own. */
void receivers_begin(struct receivers *receivers, const char *dsn, uint16_t many, uint16_t frail,
    struct arrivals *passing);

/* Tries what is wanted and not done yet. */
void receivers_see_to(struct receivers *receivers);

/* Whose path that is, and of which generation (arrivals_note_of); false if it was removed. */
bool receivers_find(const struct receivers *receivers, const char *path, enum chaos_sink *out_sink,
    unsigned *out_generation);

void receivers_deinit(struct receivers *receivers);

/* Takes the sink's bit away from the events that were committed before SINK_PASSING was added. */
void receivers_judge_start(const struct receivers *receivers, const struct numbering *numbering,
    struct chaos_event *events);
