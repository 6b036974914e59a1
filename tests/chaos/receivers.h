/*
 * The receivers of the sink that fans out: rows of courier.endpoint, changed
 * while the relays run. What is wanted is done as soon as PostgreSQL lets us.
 */
#pragma once

#include "chaos/arrivals.h"
#include "chaos/events.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct receivers {
        const char *dsn; /* of the superuser, not by the faulty road; borrowed */
        uint16_t ports[2];
        struct arrivals *passing; /* borrowed */

        /* To be set by whoever wants it. */
        bool wants_pause, wants_move, wants_new;

        bool is_paused;
        unsigned n_moves, n_pauses;
        atomic_uint generation; /* of the one that is removed and added anew */
        int64_t next_try_us;
};

/* `ports` of the many, and of the one that has a server of its own. */
void receivers_begin(struct receivers *receivers, const char *dsn, uint16_t many, uint16_t frail,
    struct arrivals *passing);

/* Tries what is wanted and not done yet. */
void receivers_see_to(struct receivers *receivers);

/* Whose path that is; false if it was removed. */
bool receivers_find(const struct receivers *receivers, const char *path, enum chaos_sink *out_sink);

/* Takes the sink's bit away from the events that were published before SINK_PASSING was added. */
struct writers;
void receivers_judge_start(const struct receivers *receivers, const struct writers *writers,
    struct chaos_event *events, const uint32_t *first);
