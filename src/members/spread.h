/*
 * Spreads things that have units over members at the least cost: a flow of
 * minimum cost. Each unit is at first where it costs least; then, as long as
 * this makes the whole cheaper, one member gives a unit and another gets one,
 * by the cheapest chain of moves (successive shortest paths: Jewell 1958,
 * Busacker & Gowen 1961). Pure, and in integers: each relay gets the same.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Less unevenness comes first; of what is equally even, the nearer costs less. */
struct cost {
        int64_t uneven;
        int64_t far;
};

struct spread {
        size_t n_things, n_members;
        const uint32_t *n_units; /* of each thing */
        const void *context;

        /* The cost of the nth unit of the thing at the member, and of the nth unit of all at the
         * member, n >= 1. The next unit costs more, or as much: then chains need not pass a member
         * twice. Returns false if the member cannot have it. */
        bool (*unit_cost)(
            const void *context, size_t thing, size_t member, uint32_t nth, struct cost *out_cost);
        int64_t (*load_cost)(const void *context, size_t member, uint32_t nth);
};

/* Fills out_counts[thing * n_members + member]. Some member must be able to have each unit. */
void spread_units(const struct spread *spread, uint32_t *out_counts);
