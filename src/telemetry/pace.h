/*
 * How fast one lane delivers: how many in the last five to six minutes, and how long the newest 64
 * of these took. Ten thousand receivers can afford that.
 */
#pragma once

#include <stdint.h>

#define PACE_TIMES   64
#define PACE_MINUTES 6

struct pace {
        int64_t first_us; /* monotonic clock, as all of these; 0: nothing was delivered */
        int64_t newest_us;
        uint32_t counts[PACE_MINUTES]; /* by minute modulo PACE_MINUTES */
        uint64_t n_times;              /* ever; the newest is at (n_times - 1) % PACE_TIMES */
        uint32_t at_s[PACE_TIMES];
        uint32_t took_us[PACE_TIMES]; /* the attempt, to its answer */
};

struct pace_figures {
        double rate;            /* deliveries a second */
        int32_t p50_us, p99_us; /* how long they took; -1: there are none */
};

void pace_see(struct pace *pace, int64_t at_us, int64_t took_us);
struct pace_figures pace_figures(struct pace *pace, int64_t now_us);
