/*
 * How fast one lane delivers: how many in the last five to six minutes, and how long the newest of
 * these took, 64 at most. A lane that delivers seldom has room for 8, so that ten thousand
 * receivers can afford it.
 */
#pragma once

#include <stdint.h>

struct pace;

struct pace_figures {
        double rate;            /* deliveries a second */
        int32_t p50_us, p99_us; /* how long they took; -1: there are none */
};

struct pace *pace_create(void);
void pace_destroy(struct pace *pace);

/* A delivery at `at_us`, by the monotonic clock; `took_us`: the attempt, to its answer. */
void pace_see(struct pace *pace, int64_t at_us, int64_t took_us);
struct pace_figures pace_figures(struct pace *pace, int64_t now_us);
