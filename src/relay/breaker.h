/*
 * Keeps a lane from hammering a destination that is down: nothing goes out
 * while it is open, then one attempt alone finds out. Pure.
 *
 *   CLOSED -down-> OPEN -time is up-> HALF_OPEN -up-> CLOSED
 *                                     HALF_OPEN -down-> OPEN, for longer
 *
 * What was in flight when it opened may make it wait longer, never less.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF_OPEN };

struct breaker {
        enum breaker_state state;
        uint32_t n_failures; /* since it was last closed */
        int64_t until_ms;    /* while OPEN */
};

/* May an attempt start now, with so many in flight? */
bool breaker_admits(struct breaker *breaker, int64_t now_ms, uint32_t n_in_flight);

/* The destination refused us, and perhaps said for how long (negative: it did not). `jitter` is
 * any 32-bit value. */
void breaker_note_down(struct breaker *breaker, int64_t now_ms, int64_t delay_ms, uint32_t jitter);

/* It answered, be it with an error of its own. Closes a breaker whose time is up, no other. */
void breaker_note_up(struct breaker *breaker);
