/*
 * Judges a chaos run: what the writers committed against what arrived at one sink and what became a
 * dead letter there. Pure, so that each fault it must find can be planted in a test.
 *
 * Arriving twice is allowed, for a reason: between the two arrivals, something must have happened
 * to that sink (an incident) that can repeat events, and an incident that has a bound may not be
 * the reason for more than that. Of several, the first after the earlier arrival counts: what is
 * repeated was unsettled when it happened.
 */
#pragma once

#include "support/writers.h"

#include <stddef.h>
#include <stdint.h>

struct chaos_event {
        enum published fate;
        uint32_t key;         /* events of a key are committed in the order of their numbers */
        uint32_t sinks;       /* bits: those that it is for */
        uint32_t refused;     /* bits: those whose destination refuses it */
        uint32_t relents;     /* bits: of these, those whose destination takes it at other times */
        uint32_t optional;    /* bits: those that may get it or not, as if it were in doubt */
        int64_t committed_us; /* 0: not known */
        bool is_delayed; /* its place in the order of its key is the one it has when it is due */
};

struct chaos_arrival {
        uint32_t event; /* its number; of no event at all if too high */
        int64_t at_us;
        int64_t due_us; /* not to come earlier; 0: at any time */
};

struct chaos_dead {
        uint32_t event; /* its number */
        int64_t died_us;
        bool is_for_its_filter; /* which took too long */
};

struct chaos_span {
        int64_t from_us, until_us;
};

struct chaos_incident {
        uint32_t sinks; /* bits: those that it touches */
        unsigned cause; /* below CHAOS_MAX_CAUSES */
        int64_t begin_us, end_us;
        uint32_t max_repeats; /* of each sink; UINT32_MAX: any number */
        bool forgets; /* dead letters of the last moments are gone, and their events tried again */
};

enum { CHAOS_MAX_CAUSES = 32 };

/* All borrowed. */
struct chaos_history {
        uint32_t sink; /* its bit's number */
        bool is_in_order;
        const struct chaos_event *events;
        size_t n_events;
        const struct chaos_arrival *arrivals; /* in order of arrival */
        size_t n_arrivals;
        const struct chaos_dead *dead; /* one for each dead letter */
        size_t n_dead;
        const struct chaos_span *dear; /* when the sink's filter took too long for some events */
        size_t n_dear;
        const struct chaos_incident *incidents; /* in order of their beginning */
        size_t n_incidents;
        /* Nothing was wrong between these two: what was committed then has to arrive soon, or
         * soon after another one. */
        int64_t calm_from_us, calm_until_us;
};

/* Less than the writers pause now and then, so that no later event brings an earlier one along. */
#define CHAOS_SOON_US 1800000

struct chaos_verdict {
        size_t n_wanted;   /* committed, and for this sink */
        size_t n_arrivals; /* with repeated ones */
        size_t n_repeated; /* beyond the first of their event */
        size_t n_dead;     /* dead letters */
        size_t n_dead_for_filter;
        size_t n_repeated_by[CHAOS_MAX_CAUSES];
        size_t most_repeated_by[CHAOS_MAX_CAUSES]; /* in a single incident */

        size_t n_lost;        /* committed; neither arrived nor dead */
        size_t n_misordered;  /* first arrived after a later one of their key */
        size_t n_uncommitted; /* arrived or died, but were rolled back, or are not for this sink */
        size_t n_unexplained; /* repeated without a reason */
        size_t n_early;       /* arrived before it was due */
        size_t n_late;        /* committed in the calm, and did not arrive soon */
        size_t n_needlessly_dead; /* though the destination would have taken them */
        size_t n_timed;           /* of which it was known that they had to arrive soon */
        char first_fault[160];    /* the first of the above, in words; "" if there is none */
};

struct chaos_verdict chaos_judge(const struct chaos_history *history);

/* None of the seven faults. */
bool chaos_is_clean(const struct chaos_verdict *verdict);
