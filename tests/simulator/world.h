/*
 * The simulator: the pure core of pgcourier, the very files of src/lane, in a
 * world of which everything else is simulated:
 *
 *   people.c    applications write, commit, roll back; operators skip, redrive, pause
 *   database.c, shelf.c, session.c   snapshots, pages, parked rows, settles, the lane's lock
 *   relay.c, relay_pump.c   one or two relays, which do with their lane what runner.c does
 *   marker.c   marks, which follow what lanes have settled; a second sink beside the lane
 *   destination.c, burst.c  a destination that answers, refuses, falls silent; one like Redis
 *   history.c, climate.c    what happens next
 *   checks.c, checks_attempts.c   what must be true, seen from outside at each step
 *
 * A history is a few hundred steps chosen by dice, with everything that may go
 * wrong: relays crash between any two of their actions, freeze, are stopped;
 * sessions are lost before or after a call was executed, the server loses what
 * was not on disk; answers are late, lost, or come twice. Then it is calm, all
 * comes to rest, and what was promised must have been kept. All of it follows
 * from one seed.
 *
 * There is one clock, which all read with an offset of their own. An event is
 * known by its index; its id is the index plus one.
 */
#pragma once

#include "lane/lane.h"
#include "simulator/dice.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_EVENTS   48
#define N_RELAYS     2
#define MAX_ATTEMPTS 160
#define MAX_SESSIONS 8
#define MAX_CALLS    8
#define N_KEYS       4
#define N_TARGETS    3
#define NEVER        UINT64_MAX
#define ALWAYS       255

/* One row of courier.outbox, what is to become of it, and what did. */
struct sim_event {
        int key; /* -1: none */
        size_t bytes;
        bool is_ours;       /* its topic is one that the lane reads */
        int64_t deliver_ms; /* database clock, ahead when it was published; 0: at once */
        unsigned transaction;
        uint64_t
            n_commit; /* its transaction was the nth to commit; 0: not yet; NEVER: rolled back */

        /* Its fate at the destination. */
        uint8_t n_failures;   /* so many attempts fail, answered */
        uint8_t soft_max;     /* those failures ask for so few attempts; 0: they do not */
        uint8_t n_rejections; /* so many attempts are rejected */
        uint8_t n_blames;     /* so many are answered as if the destination were down */
        enum blame { BLAME_DOWN, BLAME_OPERATOR, BLAME_SILENT } blame;
        int target; /* where it goes */

        /* What the world saw. */
        unsigned n_arrived;
        bool was_acked;   /* a lane was told that it was delivered */
        bool is_unplaced; /* it lost its place in the stream: delayed, a dead letter, redriven, … */
        bool is_cancelled;
};

/* One row of courier.parked; there is at most one for each event. */
struct sim_row {
        bool exists;
        enum parked_state state;
        int64_t position;
        int64_t due_ms; /* database clock */
        uint32_t n_attempts;
        int64_t retried_ms;
        bool is_skipped;
        bool is_redriven;
};

struct sim_dead {
        bool exists;
        enum dead_reason reason;
};

/* What the marker knows of an event: courier.unmarked, the application's row, the dead letter. */
enum mark_state { MARK_NONE, MARK_BEHIND, MARK_PARKED, MARK_RETRY, MARK_DONE, MARK_DEAD };

struct sim_mark {
        enum mark_state state;
        int lane; /* that has not passed it, while BEHIND */
        unsigned n_attempts;
};

/* What relays write without waiting for the disk, and a crash of the server may take back. */
struct sim_progress {
        struct sim_row rows[MAX_EVENTS];
        struct sim_dead dead[MAX_EVENTS];
        struct cursor cursor; /* own frames, like the next two */
        struct cursor other;  /* of a second sink's lane */
        struct cursor marker;
        struct sim_mark marks[MAX_EVENTS];
        int64_t next_position;
};

struct sim_database {
        struct sim_event events[MAX_EVENTS];
        size_t n_events;
        uint64_t n_commits;
        uint64_t xid; /* the last one drawn */
        unsigned n_transactions;
        struct sim_progress now;
        struct sim_progress on_disk;
        uint64_t epoch;
        int owner; /* the session that holds the lane's lock, or -1 */
        bool is_paused;
        int64_t clock_offset_ms;
        int64_t reached_ms; /* up to which time lanes have claimed rows that were due */
        int64_t scan_ids;   /* how many ids one page looks at */
        int n_lent;         /* pages and batches that are not released yet */
};

/* What a relay asks of its session, in order. */
enum call_kind { CALL_CLAIM, CALL_PAGE, CALL_PARKED, CALL_SETTLE };

struct verdict_copy {
        size_t event;
        enum verdict_kind kind;
        bool is_parked;
        uint32_t n_attempts;
        int64_t retried_ms;
        enum parked_state state;
        int64_t due_in_ms;
        bool goes_last;
        enum dead_reason reason;
};

/* The database's side of a connection. It may outlive the relay's. */
struct sim_session {
        bool is_used;
        bool is_orphan; /* the relay is gone from the other end */
        int relay;
        uint64_t epoch; /* while it owns the lane */

        enum call_kind calls[MAX_CALLS];
        size_t n_calls;
        size_t n_executed; /* of them, the first ones */

        /* At most one call of each kind is outstanding. */
        bool is_claimed;
        struct cursor claimed_cursor; /* own frames */
        struct parked_key claimed_keys[N_KEYS];
        struct parked_keys claimed_parked;

        struct page_request page_request; /* own references */
        struct page *page;

        int parked_keys[64];
        size_t n_parked_keys;
        bool is_excluded[MAX_EVENTS];
        uint32_t max_rows;
        uint64_t max_bytes;
        struct parked_batch *batch;

        struct cursor settle_cursor; /* own frames */
        struct verdict_copy verdicts[MAX_EVENTS];
        size_t n_verdicts;
        bool is_settled;
        enum cursor_room room; /* for the former versions of the cursor, at the last settle */
};

/* What a lane that owns has done with an event, as seen from outside. */
enum sim_standing {
        STANDING_UNREAD,
        STANDING_BEHIND, /* done before the lane was owned */
        STANDING_ROW,    /* parked, and not in memory as far as we know */
        STANDING_READ,   /* in memory, from the stream */
        STANDING_LOADED, /* in memory, from its row */
        STANDING_IN_FLIGHT,
        STANDING_DONE, /* delivered or given up */
};

struct sim_shadow {
        enum sim_standing standing;
        bool is_in_window; /* read from the stream and not known to be settled */
        bool is_given_up;
        bool was_delayed;   /* it was loaded from a row in state delayed */
        bool is_due;        /* it may be delivered as far as its time goes */
        bool is_unjudged;   /* it was read without its filter being asked */
        uint32_t n_read;    /* when it came into memory */
        uint32_t n_charged; /* attempts */
        int64_t retried_ms;
        int64_t not_before_ms;
        uint64_t n_started; /* attempts of the lane, with its latest */
        uint64_t n_first;   /* the same with its first since it came into memory; 0: none */
        uint64_t n_placed;  /* the same when its row went behind those of its key; 0: it did not */
        uint64_t blamed;    /* attempts of the lane, when it blamed the destination; 0: never */
};

struct sim_relay {
        bool is_running;
        bool is_frozen;
        bool is_draining;
        bool is_hurried; /* while draining: what is in flight was cancelled */
        bool was_lost;   /* the session went while it drained: that is no clean stop */
        unsigned n_lives;
        int64_t clock_offset_ms;
        struct lane lane;
        bool is_dirty;

        int session; /* or one of the two below */
        bool is_claiming;
        int64_t standby_ms; /* true time of the next try */
        int64_t sweep_ms;   /* true time */
        bool is_bell_ringing;
        bool is_control_ringing;

        struct sim_shadow shadow[MAX_EVENTS];
        uint32_t n_reads;
        uint64_t n_started;  /* attempts of the lane */
        uint64_t n_answered; /* the latest of them that was answered, as its event's own affair */
        uint64_t blamed[N_TARGETS]; /* like sim_shadow::blamed */
        unsigned n_alone;           /* its sink sends so many bursts of one event */
        bool is_down; /* the destination refused the last attempt that was to find out */
        int64_t down_until_ms;
        uint32_t n_refused;   /* attempts in a row */
        bool was_blame_wrong; /* others were taken, and an event that blamed it was charged */
        unsigned n_steps_without_progress;

        /* The latest attempts of the lane's life, for its rate. */
        struct sim_start {
                size_t event;
                int64_t at_ms;
                int64_t postponed_ms; /* when that was told, or 0 */
        } starts[64];
        size_t n_starts;
};

#define SESSION_NONE (-1)
#define SESSION_GONE (-2) /* and not noticed */

enum attempt_phase { ATTEMPT_FREE, ATTEMPT_SENT, ATTEMPT_DECIDED };

struct sim_attempt {
        enum attempt_phase phase;
        int relay;
        unsigned life;
        struct delivery *delivery; /* NULL: its answer is not awaited any more */
        size_t event;
        uint32_t sequence;
        int64_t not_before_ms; /* true time: it is slow */
        bool is_cancelled;
        bool is_in_burst;     /* of a sink that keeps order; what is not waits in its memory */
        bool ends_with_burst; /* all of it is answered at once */
        struct outcome outcome;
};

enum outage {
        OUTAGE_NONE,
        OUTAGE_REFUSES,
        OUTAGE_REFUSES_FOR_A_WHILE,
        OUTAGE_CREDENTIALS,
        OUTAGE_SILENT
};

struct sim_destination {
        struct sim_attempt attempts[MAX_ATTEMPTS];
        uint32_t n_sent;
        enum outage outage;
        bool is_reached; /* in an outage requests are made, and answered */
};

/* How rough a history is: a fault happens in one of so many cases; 0: never. */
struct climate {
        uint32_t crash;     /* of a relay, between any two of its actions */
        uint32_t outage;    /* of the destination */
        uint32_t noise;     /* an attempt that is not answered */
        uint32_t slow;      /* an attempt that takes long */
        uint32_t postponed; /* an attempt whose turn comes later */
        uint32_t lost;      /* sessions */
        uint32_t freeze;    /* relays */
        uint32_t stop;      /* relays, cleanly */
        uint32_t operators; /* change something */
        uint32_t server;    /* crashes of the database */
        uint32_t failing;   /* events */
        uint32_t rejected;  /* events */
        uint32_t blaming;   /* events */
        uint32_t delayed;   /* events */
        uint32_t unjudged;  /* events on a page, each time */
        uint32_t policy;    /* a new relay has another one */
        uint32_t size;      /* a new relay has another max_event_bytes */
        uint32_t full;      /* the page of the cursor's row, at a settle */
        bool has_targets;   /* each event names its own */
        int dead_target;    /* that is always refused; -1: none */
        bool has_two_relays;
        bool locks_keys; /* writers of a key wait for each other */
};

struct world {
        uint64_t seed;
        struct dice dice;
        struct climate climate;
        struct lane_policy policy;
        int64_t delays_ms[4];
        bool is_tracing;
        bool is_calm;       /* nothing fails any more */
        bool is_lenient;    /* events that would fail for ever do not any more */
        bool was_switched;  /* the policy of order was changed */
        bool was_unordered; /* the lane was run without order at some time */
        uint32_t n_steps;
        int64_t now_ms;

        struct sim_database database;
        struct sim_session sessions[MAX_SESSIONS];
        struct sim_relay relays[N_RELAYS];
        struct sim_destination destination;
        struct {
                /* Of its own, so that what befalls lanes is the same without it. */
                struct dice dice;
                uint32_t pace;              /* of the second lane: a move in so many steps */
                bool is_locked[MAX_EVENTS]; /* the application has the row locked */
        } marks;

        jmp_buf *on_failure;
        const char *failed_check;
        char failure[400];
};

/* trace.c */
void world_say(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void world_fail(struct world *world, const char *check, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
const char *event_name(const struct world *world, size_t event); /* a few buffers in turn */
const char *outcome_words(const struct outcome *outcome);

#define say(world, ...)                                                                            \
        do {                                                                                       \
                if ((world)->is_tracing)                                                           \
                        world_say(world, __VA_ARGS__);                                             \
        } while (0)

/* `check` names the promise, the rest says how it was broken. */
#define must(world, condition, check, ...)                                                         \
        do {                                                                                       \
                if (!(condition))                                                                  \
                        world_fail(world, check, __VA_ARGS__);                                     \
        } while (0)
