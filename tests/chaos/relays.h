/*
 * The relays of a chaos run, which have the same sinks. A relay that is down is started again after
 * a moment, now and then with a point at which it is to kill itself (PGCOURIER_CRASH_AT=name:N: the
 * Nth time it gets there; never getting there is no fault, nor is a program that was built without
 * such points).
 */
#pragma once

#include "chaos/plan.h"
#include "support/process.h"

#include <stdbool.h>
#include <stdint.h>

enum { N_CRASH_POINTS = 9 };

extern const char *const relay_crash_points[N_CRASH_POINTS];

/* As which each logs in to PostgreSQL. */
extern const char *const relay_roles[N_RELAYS];

enum relay_state {
        RELAY_DOWN, /* until restart_us */
        RELAY_RUNS,
        RELAY_STOPS, /* SIGTERM was sent */
        RELAY_FROZEN,
};

/* What a look at a relay found. */
enum relay_news {
        NEWS_NONE,
        NEWS_CRASHED_AS_PLANNED,
        NEWS_STOPPED,            /* at SIGTERM, with exit code 0 */
        NEWS_STOPPED_UNFINISHED, /* the same, but the drain limit was reached */
        NEWS_RELOADED,
        NEWS_RELOADED_UNFINISHED, /* the same, but the drain limit was reached */
        NEWS_RELOAD_FAILED,       /* it will be tried again */
};

struct relay_slot {
        char name; /* from 'a' on */
        enum relay_state state;
        struct process process;
        char *folder;      /* shared by all; owned by the caller */
        char *config_path; /* owned */
        char *log_path;    /* owned */
        char *crash_at;    /* of the run at hand; NULL: none; owned */
        int64_t restart_us;
        bool is_away;         /* not to be started again */
        int64_t stop_by_us;   /* while it stops */
        int64_t reload_us;    /* wants_reload: not before */
        bool wants_reload;    /* there is another configuration than it has */
        bool is_reloading;    /* SIGHUP was sent */
        long log_start;       /* of the run at hand */
        long reload_start;    /* in the log, of the reload at hand */
        unsigned crash_point; /* in crash_at; and the one after it is next */
        unsigned n_starts;
        uint64_t random; /* for crash points and pauses */
};

void relay_slot_init(
    struct relay_slot *slot, char name, char *folder, const char *config, uint64_t seed);
void relay_slot_deinit(struct relay_slot *slot);

void relay_slot_start(struct relay_slot *slot, bool may_crash);

/* False if it does not run. */
bool relay_slot_kill(struct relay_slot *slot);
bool relay_slot_stop(struct relay_slot *slot);
bool relay_slot_freeze(struct relay_slot *slot);
void relay_slot_thaw(struct relay_slot *slot);

/* Another configuration: by a reload as soon as it can be asked for one, or at its next start. */
void relay_slot_configure(struct relay_slot *slot, const char *config);

/* It has sinks, or knows that others have them. */
bool relay_slot_serves(const struct relay_slot *slot);

/* Sees whether it has ended. Aborts if it did so without being asked, with an exit code other
 * than 0 or not in time, or has left a sanitizer's report. */
enum relay_news relay_slot_look(struct relay_slot *slot);

/* How long it may take to stop. */
#define RELAY_DRAIN_MS 3000
