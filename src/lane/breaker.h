/*
 * A circuit breaker: it keeps a lane from hammering a destination that is down.
 * While it is open nothing starts. Then one attempt alone probes, and after
 * that more and more may start. Pure.
 *
 *   CLOSED    -down, or many events failed in a row-> OPEN
 *   OPEN      -time is up->                           HALF_OPEN
 *   HALF_OPEN -up->     CLOSED, slowly at first
 *   HALF_OPEN -down->   OPEN, for longer
 *   HALF_OPEN -failed-> OPEN, for longer, if failed events had opened it; else CLOSED
 *
 * `down` speaks of the destination, `failed` of an event; but if all events
 * fail alike it is the destination after all. Attempts that were in flight when
 * it opened may make it wait longer, never less.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* It opens after so many different events have failed in a row. */
#define BREAKER_SUSPICION 10

/* Attempts in flight just after it closed; from BREAKER_FULL_SPEED on there is no limit. */
#define BREAKER_SLOW_START 2
#define BREAKER_FULL_SPEED 1024

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF_OPEN };

struct breaker {
        enum breaker_state state;

        /* While OPEN or HALF_OPEN. */
        uint32_t n_failures; /* since it was closed, or since an operator is needed */
        int64_t until_ms;    /* OPEN: the probe is due */
        bool needs_operator; /* an outcome said so since it was closed: waiting will not mend it */
        bool is_suspicion;   /* it opened only because of events that failed */

        /* While CLOSED. */
        uint32_t allowance;     /* attempts that may be in flight; 0: any number */
        uint32_t n_failed;      /* different events that failed since the last good answer */
        int64_t last_failed_id; /* if n_failed > 0 */
};

/* May an attempt start now, with so many in flight? */
bool breaker_admits(struct breaker *breaker, int64_t now_ms, uint32_t n_in_flight);

/* It may, now or when the probe is due: no attempt in flight has to end first. */
bool breaker_has_room(const struct breaker *breaker, uint32_t n_in_flight);

/* The destination refused us, and perhaps said for how long (negative: it did not). With
 * `needs_operator` probes are rare from now on, until it closes. `jitter` is any 32-bit value. */
void breaker_note_down(struct breaker *breaker, int64_t now_ms, int64_t delay_ms,
    bool needs_operator, uint32_t jitter);

/* The destination answered as one that works, even if it rejected the event. Closes a half-open
 * breaker, no other. */
void breaker_note_up(struct breaker *breaker);

/* It answered, but this event failed and will be tried again. To be called instead of
 * breaker_note_up(), in any state. True if the breaker opened. `jitter` is any 32-bit value. */
bool breaker_note_failed(
    struct breaker *breaker, int64_t event_id, int64_t now_ms, uint32_t jitter);

/* An operator asks for a probe: an open breaker is due at once. */
void breaker_probe_now(struct breaker *breaker, int64_t now_ms);
