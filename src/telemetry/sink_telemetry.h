/*
 * What was seen of one sink: counted since the sink first appeared in the
 * configuration of this process, whatever was changed about it since.
 *
 * A sink that fans out is one here, with all its receivers: the set of
 * receivers is open, and what is counted here becomes labels.
 */
#pragma once

#include "base/list.h"
#include "pgcourier/event.h"
#include "pgcourier/outcome.h"
#include "telemetry/histogram.h"
#include "telemetry/recent.h"

struct telemetry;

/* Why something comes twice, perhaps. */
enum redelivery_cause {
        REDELIVERY_CRASH,   /* delivered, and the connection to PostgreSQL was lost before it was
                             * settled. What another relay had delivered when it died is not known */
        REDELIVERY_TIMEOUT, /* an attempt ended without an answer: it may have arrived */
        REDELIVERY_REPLAY,  /* an operator asked for it: a redriven dead letter, a replay */
};
#define REDELIVERY_CAUSES 3

enum sink_state {
        SINK_STARTING,
        SINK_RUNNING,
        SINK_STANDBY,      /* another relay owns it */
        SINK_PAUSED,       /* by an operator */
        SINK_REFUSED,      /* paused by the relay: the destination refuses us */
        SINK_DOWN,         /* the breaker is open */
        SINK_STALLED,      /* old undelivered events, no pause, and nothing gets delivered */
        SINK_DRAINING,     /* the relay, or this sink of it, is being stopped */
        SINK_DISCONNECTED, /* from PostgreSQL */
};
#define SINK_STATES 9

struct sink_telemetry {
        struct list link;            /* telemetry::sinks, in the order of their names */
        struct telemetry *telemetry; /* borrowed */
        char *name;                  /* owned */
        char *kind;                  /* owned: "redis", "http", … */
        char *target;                /* owned: where it delivers to; NULL: not known */
        unsigned n_references;

        /* Counters. */
        uint64_t outcomes[TELEMETRY_OUTCOMES];
        uint64_t faults[OUTCOME_FAULTS]; /* by enum outcome_fault: attempts that failed, and events
                                          * that were given up without one */
        uint64_t redeliveries[REDELIVERY_CAUSES];
        uint64_t payload_bytes; /* of what was delivered */

        /* Created -> delivered; but of what was scheduled for later, and of what an operator
         * sent on its way again. */
        struct histogram latency;
        struct histogram stages[STAGES];
        struct histogram batch; /* events that a page brought */
        struct minutes minutes;

        /* Gauges: as of the last telemetry_refresh(). */
        uint64_t in_flight; /* events in memory that are not settled yet */
        uint64_t window;    /* so many there may be: max_in_flight; of all receivers together */
        uint64_t sending;   /* attempts that the sink has */
        unsigned n_slow_filters; /* the sink's and its receivers' */
        char slow_filter[64];    /* a receiver of these; empty: the sink's, or none */
        bool is_owned;           /* by this relay */
        unsigned n_shards;       /* of the sink; 0: not known yet */
        unsigned n_shards_owned; /* by this relay */
        bool is_up;              /* we own it, and no breaker is open */
        bool is_paused;          /* by an operator or by the relay */
        unsigned breaker;        /* 0 closed, 1 half open, 2 open; of several receivers the best */
        enum sink_state state;
        char state_reason[256]; /* words, or empty */
        int64_t state_since_us; /* wall clock */

        /* As the database knows it. */
        double oldest_age_s; /* negative: not known */
        double overdue_s;    /* of what waits without a known reason; negative: not known */

        struct {
                int64_t at_us; /* wall clock; 0: there was none */
                enum telemetry_outcome outcome;
                enum outcome_fault fault;
                char words[256];
        } last_error;
        int64_t last_delivery_us; /* wall clock; 0: there was none */
};

/* "starting", … as in the status document. */
const char *sink_state_name(enum sink_state state);
const char *redelivery_cause_name(enum redelivery_cause cause);
const char *telemetry_stage_name(enum telemetry_stage stage);
const char *telemetry_fault_name(enum outcome_fault fault); /* "timeout", …, "other" */

/* One attempt that ended, or (attempt 0) an event that was given up without one. Times are those of
 * the monotonic clock, but created_us. */
struct attempt_seen {
        enum telemetry_outcome outcome;
        enum outcome_fault fault; /* unless it was delivered */
        const char *words;        /* NULL: nothing went wrong */
        const char *receiver;     /* NULL: the sink has one destination */
        const struct event *event;
        uint32_t attempt;
        bool is_scheduled;  /* it was to wait: its age says nothing of us */
        int64_t arrived_us; /* its page; 0: not known, and then neither is started_us */
        int64_t started_us;
        int64_t now_us;
};
void telemetry_see_attempt(struct sink_telemetry *sink, const struct attempt_seen *seen);

/* A page came with these events for the sink, of which some may be scheduled for later
 * (`are_to_wait`, which may be NULL): these are not picked up yet. */
void telemetry_see_page(struct sink_telemetry *sink, const struct event *events, size_t n_events,
    const bool *are_to_wait, int64_t now_us);

/* What ended then is settled now. */
void telemetry_see_settled(struct sink_telemetry *sink, int64_t finished_us, int64_t now_us);

void telemetry_see_redelivery(
    struct sink_telemetry *sink, enum redelivery_cause cause, uint64_t n_events);

/* The state's beginning is kept while only the words change. */
void telemetry_set_state(
    struct sink_telemetry *sink, enum sink_state state, const char *reason, int64_t now_us);

/* What the database says: how many wait, how long the oldest, and how long without a reason that
 * the database knows (negative: not known). */
void telemetry_set_backlog(struct sink_telemetry *sink, int64_t n_events, double oldest_age_s,
    double overdue_s, int64_t now_us);
