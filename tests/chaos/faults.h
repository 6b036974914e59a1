/*
 * Does to a world what a plan says, and keeps a record of it: each incident is a reason why events
 * may have arrived twice.
 */
#pragma once

#include "chaos/plan.h"
#include "chaos/rollout.h"
#include "chaos/world.h"

#include <stdio.h>

/* Why an event may arrive twice; also the rows of the report. */
enum cause {
        CAUSE_KILL,       /* kill -9: at most the window of each sink */
        CAUSE_CRASH,      /* the same at a point of the program's own */
        CAUSE_FREEZE,     /* the standby repeats a window, and the frozen owner what it had begun */
        CAUSE_UNFINISHED, /* SIGTERM or a reload while something is down: the drain limit was reached */
        CAUSE_ABANDONED, /* a shard was handed over, or its sink divided, and some attempts took too long */
        CAUSE_PG_PASSWORD,    /* sessions were terminated, and had to log in with another one */
        CAUSE_SESSION,        /* a session was terminated, or the server restarted in good order */
        CAUSE_PG_CRASH,       /* settles that were not in the WAL yet are taken back: no bound */
        CAUSE_PG_LINK,        /* each lost connection: no bound */
        CAUSE_REDIS_PASSWORD, /* no bound */
        CAUSE_DESTINATION,    /* outcomes that are unknown: no bound */
        CAUSE_LINK,           /* likewise */
        CAUSE_BROKER_KILL,    /* at most the window of its sink */
        CAUSE_BROKER_AWAY,    /* frozen, or it closed its connections: no bound */
        CAUSE_BROKER_SHORT,   /* of memory or disk, and says so late: no bound */
        CAUSE_BROKER_REFUSES, /* full, without a binding, short of replicas: nothing comes twice */
        N_CAUSES,
};

const char *cause_name(enum cause cause);

struct incident {
        struct chaos_incident judged;
        int64_t healed_us; /* when all was well again, without the time that its effects last */
        int relay;         /* that was lost; -1: none */
};

struct faults {
        struct world *world;
        const struct chaos_plan *plan;
        size_t n_begun; /* of the plan's steps */
        struct running {
                const struct chaos_step *step;
                int64_t end_ms;
                size_t incident; /* its index, or SIZE_MAX */
                bool has_ended;  /* but is not over */
        } running[16];
        unsigned n_running;
        struct incident *incidents; /* owned */
        size_t n_incidents;
        unsigned n_done[N_STEP_KINDS];        /* that took place */
        unsigned n_network[FAULT_REFUSE + 1]; /* of STEP_LINK, by kind */
        unsigned n_crashes_at[N_CRASH_POINTS];
        unsigned n_reloads;
        struct rollout rollout;
        bool is_over;      /* no more crash points are given to relays */
        FILE *log;         /* each fault with its time; borrowed */
        int64_t began_us;  /* monotonic; later if the plan had to wait */
        int64_t turned_us; /* wall clock: the end of the last turn */
};

void faults_init(
    struct faults *faults, struct world *world, const struct chaos_plan *plan, FILE *log);
void faults_deinit(struct faults *faults);

unsigned faults_n_kills(const struct faults *faults); /* of relays, at their crash points too */

int64_t faults_now_ms(const struct faults *faults); /* since the beginning */

/* Begins and ends what is due, sees to the relays. To be called often. */
void faults_turn(struct faults *faults);

/* Ends everything that is still going on, and waits until it is over; from now on faults_turn() only sees to the relays. */
void faults_heal(struct faults *faults);

/* For steps: a line of the log; an incident that is over at once but for its aftermath, and one
 * that cost a relay. The incident's index. */
void faults_note(struct faults *faults, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
size_t faults_add_incident(
    struct faults *faults, enum cause cause, uint32_t sinks, uint32_t max_repeats);
size_t faults_add_relay_incident(
    struct faults *faults, enum cause cause, int relay, uint32_t max_repeats);
