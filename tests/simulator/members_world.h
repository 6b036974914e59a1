/*
 * Relays that share shards, in simulated time: milliseconds. What happens
 * follows from the seed.
 *
 * Modelled as PostgreSQL does it: a lock belongs to a session and falls with it,
 * though not all locks of a session in the same moment; a session may outlive
 * its relay; statements and answers take time, so that a view is old when it
 * comes; notifications may be lost. Relays are killed, freeze, lose their
 * connections, vanish with their machines, drain, refuse sinks, change.
 */
#pragma once

#include "members/turns.h"
#include "simulator/dice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        MAX_RELAYS = 50,
        MAX_SINKS = 12,
        MAX_SHARDS = 256,
        MAX_SESSIONS = 2000,
        NAME_SIZE = 40,

        POLL_MS = 200,
        LATENCY_MS = 20,         /* of a statement, or of an answer, at most */
        LINGER_MS = 10000,       /* of a session whose relay has vanished, at most */
        CLAIMED_WITHIN_MS = 300, /* after a lock has fallen, if all relays are well */
};

enum action_kind {
        POLL_DUE,
        VIEW_READ,
        VIEW_ARRIVES,
        CLAIM_ARRIVES,
        CLAIM_ANSWERED,
        DRAINED,
        UNLOCK_ARRIVES,
        UNLOCK_ANSWERED,
        LOCK_FALLS,
        MEMBER_LOCK_FALLS,
        SESSION_ENDS,
        LOSS_NOTICED,
        NOTIFIED,
        RELAY_STARTS,
        RELAY_THAWS,
        REFUSAL_ENDS,
        RELAY_DRAINED_ENDS,
        FAULT_STRIKES,
};

struct action {
        int64_t at_ms;
        uint64_t sequence; /* of those at the same time, the first ordered comes first */
        enum action_kind kind;
        int who;        /* relay or session */
        int what;       /* shard, sink, answer or view */
        unsigned birth; /* of the relay's connection that it is meant for */
};

struct session {
        int relay;
        bool is_open, is_member;
};

/* What one read of pg_locks found. */
struct snapshot {
        bool is_used;
        size_t n_members;
        struct member members[MAX_RELAYS];
        bool serves[MAX_RELAYS * MAX_SINKS];
        int owners[MAX_SHARDS];
};

struct relay_model {
        char name[NAME_SIZE];
        bool runs, is_draining, is_frozen, is_cut;
        bool is_ending; /* ends when it has given what it can */
        uint32_t weight;
        bool serves[MAX_SINKS], refuses[MAX_SINKS];
        struct turns *turns; /* owned */
        int session;         /* or -1 */
        unsigned birth;      /* of its connection */
        bool is_reading, reads_again;
        bool acts[MAX_SHARDS]; /* as owner */
        size_t n_acts, n_giving;
        int64_t seen_since_ms[MAX_RELAYS]; /* in each view; or -1 */
        struct action *deferred;           /* while it is frozen; owned */
        size_t n_deferred, n_deferred_max;
};

struct shard_model {
        int sink;
        uint32_t number;
        int holder;     /* session, or -1 */
        int last_relay; /* that held it; or -1 */
        int64_t free_since_ms;
        unsigned n_moves; /* since the count began */
        int64_t given_ms; /* when the relay that holds it began to give it; or -1 */
};

struct members_world {
        uint64_t seed;
        struct dice dice;
        int64_t now_ms;
        bool is_calm;         /* no more faults */
        bool is_at_rest;      /* nothing may move any more */
        bool may_lose;        /* notifications */
        int64_t disturbed_ms; /* the last change of members, or of what they can do */
        int64_t poll_ms;
        int64_t mean_gap_ms; /* between faults */

        struct action *actions; /* a heap; owned */
        size_t n_actions, n_actions_max;
        uint64_t n_ordered;

        size_t n_relays, n_sinks, n_shards;
        struct relay_model relays[MAX_RELAYS];
        struct sharded_sink sinks[MAX_SINKS];
        char sink_names[MAX_SINKS][NAME_SIZE];
        struct shard_model shards[MAX_SHARDS];
        struct session sessions[MAX_SESSIONS];
        int n_sessions;
        struct snapshot *snapshots; /* owned */
        size_t n_snapshots;

        uint64_t n_claims, n_gives, n_lost_races, n_faults;
        int64_t longest_free_ms; /* while all relays were well */
        char failure[200];       /* "": none */
};

void world_order(struct members_world *world, int64_t in_ms, enum action_kind kind, int who,
    int what, unsigned birth);
void world_fail(struct members_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int64_t world_latency_ms(struct members_world *world);

/* Members, or what they can do, have changed: what is promised counts from now on. */
void world_disturb(struct members_world *world);

/* members_server.c */
int server_open_session(struct members_world *world, int relay);
void server_end_session(struct members_world *world, int session);
void server_release(struct members_world *world, int shard);
bool server_lock(struct members_world *world, int session, int shard);
void server_leave(struct members_world *world, int session);
int server_read(struct members_world *world);
void server_notify(struct members_world *world);
void server_check_free(struct members_world *world, int shard);

/* members_relay.c */
void relay_start(struct members_world *world, int relay);
void relay_connect(struct members_world *world, int relay);
void relay_die(struct members_world *world, int relay, int64_t session_lives_ms);
void relay_lose_session(struct members_world *world, int relay);
void relay_freeze(struct members_world *world, int relay, int64_t for_ms);
void relay_act(struct members_world *world, const struct action *action);
bool relay_is_well(const struct relay_model *relay);
