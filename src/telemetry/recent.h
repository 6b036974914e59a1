/*
 * What happened lately, for people to look at: the newest deliveries of all sinks (`recent`), and
 * the last five minutes of each sink for charts (`minutes`).
 *
 * The newest hundred deliveries that were noted are kept. Not each is noted, because copying one
 * costs more than delivering it to Redis: in each second the first twenty that worked, and the
 * first hundred that did not. Below these rates nothing is left out; the counters count all.
 */
#pragma once

#include "telemetry/histogram.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECENT_MAX          100
#define RECENT_GOOD_PER_S   20
#define RECENT_FAILED_PER_S 100

/* How an attempt, or a delivery without one, ended. */
enum telemetry_outcome {
        TELEMETRY_DELIVERED,
        TELEMETRY_RETRY,     /* it failed, and is tried again */
        TELEMETRY_DEAD,      /* given up: a dead letter */
        TELEMETRY_DROPPED,   /* the attempt was broken off, or its end came too late to count (a
                              * shutdown, a lost connection to PostgreSQL): the event comes again */
        TELEMETRY_SINK_DOWN, /* the destination is not there: costs the event nothing */
};
#define TELEMETRY_OUTCOMES 5

/* "delivered", "retry", "dead", "dropped", "sink_down" */
const char *telemetry_outcome_name(enum telemetry_outcome outcome);

/* Texts are cut to fit, at whole characters; control characters are escaped. */
struct recent_delivery {
        int64_t at_us; /* wall clock */
        char sink[64];
        char receiver[104]; /* of its receivers; empty: it has one destination */
        int64_t id;
        char event_id[37];
        int32_t source; /* of the event: a tap's id, or 0 */
        char topic[128];
        bool has_key;
        char key[128];
        uint32_t attempt;
        enum telemetry_outcome outcome;
        char words[256];    /* what went wrong; else empty */
        int64_t latency_us; /* created -> now */
};

typedef void recent_noted_fn(void *owner, const struct recent_delivery *delivery);

struct recent {
        struct recent_delivery entries[RECENT_MAX];
        uint64_t n_noted;    /* ever; the newest is entries[(n_noted - 1) % RECENT_MAX] */
        uint64_t n_left_out; /* ever */
        int64_t second;      /* monotonic: these were noted in it */
        unsigned n_good, n_failed;

        recent_noted_fn *on_noted; /* or NULL */
        void *owner;
};

/* May one be noted now? If so it counts, and recent_noted() has to follow. */
bool recent_admits(struct recent *recent, bool is_good, int64_t now_us);

/* Where to write it; complete it, then call recent_noted(). */
struct recent_delivery *recent_next(struct recent *recent);
void recent_noted(struct recent *recent);

/* How many there are, and the i-th, 0 being the newest. */
unsigned recent_count(const struct recent *recent);
const struct recent_delivery *recent_get(const struct recent *recent, unsigned i);

/*
 * The last five minutes of one sink, in steps of five seconds, for charts and for "in the last
 * minute". Steps are filled as things happen and move on when something is added or read, so that
 * nothing runs while nothing happens.
 */

#define MINUTES_STEP_US INT64_C(5000000)
#define MINUTES_STEPS   60
#define MINUTES_MINUTE  12 /* steps: a minute, of which the last is not over yet */
#define MINUTES_KEPT    72 /* steps: the running one, those that are shown, and whole minutes */
#define MINUTES_UNKNOWN (-1)

/* Where a delivery's time goes, in its order. */
enum telemetry_stage {
        STAGE_PICKUP, /* created -> its page arrived */
        STAGE_QUEUE,  /* -> its attempt started */
        STAGE_SEND,   /* -> the outcome */
        STAGE_SETTLE, /* -> the answer to the settle that covers it */
};
#define STAGES 4

/* Something that was timed: the stages and, behind them, the latency: created -> delivered. */
#define MINUTES_LATENCY STAGES
#define MINUTES_TIMES   (STAGES + 1)

/* In seconds; negative (MINUTES_UNKNOWN): nothing to tell. */
struct quantiles {
        double p50;
        double p99;
};

struct minutes_step {
        double rate; /* deliveries a second; 0 before the sink was there */
        struct quantiles latency;
        int64_t backlog; /* or MINUTES_UNKNOWN */
};

struct minutes {
        int64_t start_us;                       /* of the first step there was */
        int64_t step;                           /* the number of the running one, from 0 */
        int64_t step_end_us;                    /* of that */
        unsigned place, minute_place;           /* of the running step */
        uint64_t n_delivered[MINUTES_KEPT];     /* by number modulo MINUTES_KEPT, as all of these */
        struct quantiles latency[MINUTES_KEPT]; /* of those that are over */
        int64_t backlog[MINUTES_KEPT];
        struct log_histogram times[MINUTES_TIMES][MINUTES_MINUTE];
};

struct last_minute {
        double rate; /* deliveries a second */
        struct quantiles latency;
        struct quantiles stages[STAGES];
};

/* Of zeroed memory. */
void minutes_init(struct minutes *minutes, int64_t now_us);

/* Ends steps that are over. To be called before anything is counted. */
void minutes_move_on(struct minutes *minutes, int64_t now_us);

/* Where to count what took how long: one of enum telemetry_stage, or MINUTES_LATENCY. */
static inline struct log_histogram *minutes_times(struct minutes *minutes, unsigned what)
{
        return &minutes->times[what][minutes->minute_place];
}

static inline void minutes_count_delivered(struct minutes *minutes)
{
        minutes->n_delivered[minutes->place]++;
}
/* Stands for all steps from now on until it is set again. */
void minutes_set_backlog(struct minutes *minutes, int64_t n_events, int64_t now_us);

void minutes_last_minute(struct minutes *minutes, int64_t now_us, struct last_minute *out);

/* The last 60 steps, the oldest first; the last is the one that ended last, not the running one. */
void minutes_series(
    struct minutes *minutes, int64_t now_us, struct minutes_step out_steps[MINUTES_STEPS]);
