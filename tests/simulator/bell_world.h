/*
 * The bell of several relays, among writers that skip it and writers that ring,
 * in simulated time: microseconds. Nothing sweeps. What happens follows from
 * the seed.
 *
 * Modelled as PostgreSQL does it: a lock that is held shared or exclusively, of
 * which a try fails even while a session only waits for it exclusively; it is released
 * after the writer's events have become visible; a session does one statement
 * after another, and its waits end with its life. Connections break, and relays
 * die, and are told late.
 */
#pragma once

#include "simulator/dice.h"
#include "wakeup/bell.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        N_WRITERS = 12,
        N_RELAYS = 3,
        N_LANES = 3, /* 0 and 1 may be had by the relays 0 and 1, 2 by the relay 2 */
        MAX_SESSIONS = 64,
        MAX_EVENTS = 4000,
        MAX_COMMANDS = 16,
};

#define MS     INT64_C(1000)
#define SECOND (1000 * MS)

enum action_kind {
        WRITER_BEGINS,
        WRITER_WRITES,
        WRITER_ENDS,
        WRITER_RELEASES,
        COMMAND_ARRIVES,
        WAIT_ENDS,
        SESSION_ENDS,
        ANSWER_ARRIVES,
        DOORBELL_IS_LOST,
        DOORBELL_IS_BACK,
        RING_ARRIVES,
        LOOK_SEES,
        LOOK_ANSWERED,
        LOOK_DUE,
        WORK_IS_LOST,
        WORK_IS_BACK,
        CLAIM,
        RELAY_STARTS,
        LANE_TURNS_BUSY,
        LANE_TURNS_FREE,
        MOOD_CHANGES,
        FAULT_STRIKES,
};

struct action {
        int64_t at_us;
        uint64_t sequence; /* of those at the same time, the first ordered comes first */
        enum action_kind kind;
        int who;        /* writer, relay, session or lane */
        int what;       /* lane, command or answer */
        unsigned birth; /* of who it is meant for; nothing happens if that is gone */
};

/* The server's side of a doorbell connection. */
struct session {
        int relay;
        unsigned birth; /* the connection's */
        bool is_open;
        bool is_waiting, holds;
        int64_t granted_us;
        unsigned n_waits;
        int64_t wait_us;
        enum bell_wish commands[MAX_COMMANDS];
        int64_t command_wait_us[MAX_COMMANDS];
        unsigned n_commands;
};

struct writer {
        bool is_open, has_lock, rings;
        int64_t skipped_us; /* when it first got the lock; or -1 */
};

struct event {
        int64_t committed_us;
        int64_t allowed_us; /* so long after its commit it is to be seen at the latest */
};

struct lane_model {
        int owner; /* as the server sees it; -1: none */
        bool is_busy;
        int64_t
            excused_until_us; /* a fault, or a lane that cannot look: what is allowed begins then */
        int pending[MAX_EVENTS]; /* events that no relay has looked for since they were committed */
        unsigned n_pending;
};

struct relay_model {
        bool runs;
        struct bell bell;
        int session; /* at the server; -1: none */
        unsigned doorbell_birth, work_birth, timer_birth;
        bool is_doorbell_up, is_work_up;
        int64_t doorbell_up_since_us;
        int64_t last_arrival_us; /* commands do not overtake each other, nor do answers */
        int64_t last_answer_us;
        bool owns[N_LANES], is_rung[N_LANES], is_looking[N_LANES];
        uint64_t n_found[N_LANES];
        unsigned n_polling;
        uint64_t n_found_most;
        int64_t awake_since_us;
};

struct bell_world {
        uint64_t seed;
        struct dice dice;
        int64_t now_us;
        bool is_calm;        /* nothing new begins */
        unsigned n_relays;   /* that run in this history */
        int64_t mean_gap_us; /* between transactions, as the mood is */
        bool is_burst;

        struct action *actions; /* a heap; owned */
        size_t n_actions, n_actions_max;
        uint64_t n_ordered;

        struct writer writers[N_WRITERS];
        struct session sessions[MAX_SESSIONS];
        int n_sessions;
        int exclusive; /* session, or -1 */
        int queue[MAX_SESSIONS];
        int n_queue;

        struct relay_model relays[N_RELAYS];
        struct lane_model lanes[N_LANES];
        struct event events[MAX_EVENTS];
        int n_events;

        unsigned n_rings, n_looks;
        char failure[200]; /* "": none */
};

void world_order(struct bell_world *world, int64_t in_us, enum action_kind kind, int who, int what,
    unsigned birth);
void world_fail(struct bell_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* How long a message takes. */
int64_t world_latency_us(struct bell_world *world);

/* bell_server.c: the lock and those who have it. */
bool server_try_shared(struct bell_world *world, struct writer *writer);
void server_release_shared(struct bell_world *world, struct writer *writer);
int server_open_session(struct bell_world *world, int relay);
void server_end_session(struct bell_world *world, int session);
void server_take_command(struct bell_world *world, int session, unsigned birth, int64_t wait_us);
void server_end_wait(struct bell_world *world, int session, unsigned n_waits);

/* bell_relay.c */
void relay_start(struct bell_world *world, int relay);
void relay_crash(struct bell_world *world, int relay);
void relay_lose_doorbell(struct bell_world *world, int relay);
void relay_lose_work(struct bell_world *world, int relay);
void relay_act(struct bell_world *world, const struct action *action);
void relay_serve(struct bell_world *world, int relay);
bool relay_may_have(int relay, int lane);
bool relay_has_lane(const struct relay_model *relay);

/* For so long events of the lane may be late. */
void lane_excuse(struct bell_world *world, int lane, int64_t for_us);
