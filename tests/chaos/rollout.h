/*
 * Gives all relays another configuration, and later the usual one again. Either by reloads, in any
 * order; or as a rolling update does it: one relay after the other is stopped and started, and the
 * next one follows when that one serves again. In the new configuration some of the sinks mostly
 * have another number of shards, so that relays disagree for a while; in the end the database must
 * have the new numbers in force.
 *
 *   RESTING -begin-> GIVING -all have it-> AWAITING -in force, or too long-> RESTING
 *   GIVING -a relay was stopped-> RESTARTING -it serves again-> GIVING
 */
#pragma once

#include "chaos/plan.h"
#include "chaos/world.h"

struct rollout {
        enum rollout_state {
                ROLLOUT_RESTING,
                ROLLOUT_GIVING,
                ROLLOUT_RESTARTING,
                ROLLOUT_AWAITING,
        } state;
        bool is_rolling; /* by restarts */
        bool wants_back; /* the usual configuration is to follow */
        unsigned numbers[N_DIVIDED];
        unsigned order[N_RELAYS];
        unsigned n_given;    /* of these, that have it */
        unsigned n_starts;   /* of the relay that restarts, before */
        int64_t next_us;     /* monotonic: until then nothing is to do */
        int64_t deadline_us; /* monotonic: AWAITING no longer */
        uint64_t random;

        unsigned n_rolled;  /* rolling restarts, from the first relay to the last */
        unsigned n_planned; /* divisions of a sink that had to follow */
        unsigned n_overdue; /* of these, that did not in time */
};

/* In the database of the superuser's dsn: each division is written down, in its own transaction. */
void rollout_watch(const char *dsn);

/* STEP_RESHARD or STEP_RELAYS_ROLL. False if another one is not over. */
bool rollout_begin(struct rollout *rollout, struct world *world, const struct chaos_step *step);

/* Then the way back, if there is one, follows. */
void rollout_end(struct rollout *rollout);
bool rollout_is_over(const struct rollout *rollout);

/* To be called often. */
void rollout_see_to(struct rollout *rollout, struct world *world);

/* In words what it brings, for the log. */
void rollout_describe(const struct rollout *rollout, char *words, size_t n_bytes);
