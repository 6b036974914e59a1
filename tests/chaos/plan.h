/*
 * What will be done to the relay and its surroundings, when, and for how long: a function of the
 * seed and of nothing else. Three phases: clean stops and reloads only, kills only, and everything
 * at once. A customer's filters are no fault, and are changed in all of them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum step_kind {
        STEP_RELAY_KILL,
        STEP_RELAY_STOP,   /* SIGTERM */
        STEP_RELAY_RELOAD, /* SIGHUP, with other settings for a while */
        STEP_RELAY_FREEZE,
        STEP_RELAYS_AWAY, /* both stopped for a while */
        STEP_PG_RESTART_FAST,
        STEP_PG_RESTART_IMMEDIATE,
        STEP_PG_KILL,
        STEP_PG_TERMINATE,
        STEP_PG_PASSWORD,
        STEP_REDIS_KILL,
        STEP_REDIS_FREEZE,
        STEP_REDIS_DISCONNECT,
        STEP_REDIS_FULL,
        STEP_REDIS_PASSWORD,
        STEP_HOOK_STOP,
        STEP_HOOK_MOOD,
        STEP_MAIL_STOP,
        STEP_MAIL_MOOD,
        STEP_RECEIVER_PAUSE,
        STEP_RECEIVER_MOVE,
        STEP_RECEIVER_RENEW,
        STEP_RECEIVER_FILTER,
        STEP_LINK,
        N_STEP_KINDS,
};

struct chaos_step {
        int64_t at_ms;  /* since the beginning */
        int64_t for_ms; /* 0: it is over at once */
        enum step_kind kind;
        unsigned target;  /* which relay, receiver or link */
        unsigned variant; /* any number; how exactly */
};

struct chaos_plan {
        struct chaos_step *steps; /* in order of at_ms; owned */
        size_t n_steps;
        int64_t kills_from_ms; /* clean stops and reloads only until then */
        int64_t mixed_from_ms; /* kills only until then */
        int64_t last_relay_ms; /* no step of theirs begins from then on */
        int64_t last_world_ms; /* likewise */
        int64_t end_ms;
};

/* A step's target is below this. */
unsigned step_n_targets(enum step_kind kind);
const char *step_name(enum step_kind kind);

enum chaos_scope { SCOPE_ALL, SCOPE_STOPS, SCOPE_KILLS };

/* With another scope than SCOPE_ALL the whole time is one phase. */
struct chaos_plan chaos_plan_make(uint64_t seed, int64_t length_ms, enum chaos_scope scope);
void chaos_plan_deinit(struct chaos_plan *plan);

/* The next number of a sequence that *state determines. */
uint32_t chaos_random(uint64_t *state);
