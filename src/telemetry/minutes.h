/*
 * The last five minutes of one sink, in steps of five seconds: for charts and
 * for "in the last minute". Steps are filled as things happen and move on when
 * something is added or read, so that nothing runs while nothing happens.
 */
#pragma once

#include "telemetry/histogram.h"

#include <stdint.h>

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
