/*
 * What will be done to the relay and its surroundings, when, and for how long: a function of the
 * seed and of nothing else. Three phases: clean stops and reloads only, kills only, and everything
 * at once. A customer's filters are no fault, and are changed in all of them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { N_RELAYS = 4 };

enum step_kind {
        STEP_RELAY_KILL,
        STEP_RELAY_STOP,   /* SIGTERM */
        STEP_RELAY_RELOAD, /* SIGHUP, with other settings for a while */
        STEP_RELAY_FREEZE,
        STEP_RELAYS_AWAY, /* all stopped for a while */
        STEP_RELAYS_ROLL, /* one restarted after the other; at times with other numbers of shards */
        STEP_RESHARD,     /* reloads with other numbers of shards, for a while */
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
        STEP_NATS_KILL,
        STEP_NATS_FREEZE,
        STEP_NATS_DISCONNECT,
        STEP_NATS_RETIRE, /* lame duck mode; then it is killed */
        STEP_NATS_FULL,
        STEP_RABBIT_KILL,
        STEP_RABBIT_FREEZE,
        STEP_RABBIT_DISCONNECT,
        STEP_RABBIT_ALARM, /* of memory, or of the disk */
        STEP_RABBIT_UNBIND,
        STEP_RABBIT_FULL,
        STEP_KAFKA_KILL,
        STEP_KAFKA_FREEZE,
        STEP_KAFKA_SHORT, /* of replicas */
        STEP_BROKER_LINK,
        STEP_LINK,
        N_STEP_KINDS,
};

struct chaos_step {
        int64_t at_ms;  /* since the beginning */
        int64_t for_ms; /* 0: it is over at once */
        enum step_kind kind;
        unsigned target;  /* which relay, receiver, link or broker */
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

enum broker { BROKER_NATS, BROKER_RABBIT, BROKER_KAFKA, N_BROKERS };
enum { ALL_BROKERS = (1 << N_BROKERS) - 1 };

enum chaos_scope { SCOPE_ALL, SCOPE_STOPS, SCOPE_KILLS, SCOPE_BROKERS };

/* With another scope than SCOPE_ALL the whole time is one phase. What befalls others than the
 * brokers does not depend on which of these, as bits, there are. */
struct chaos_plan chaos_plan_make(
    uint64_t seed, int64_t length_ms, enum chaos_scope scope, unsigned brokers);
void chaos_plan_deinit(struct chaos_plan *plan);

/* The next number of a sequence that *state determines. */
uint32_t chaos_random(uint64_t *state);
