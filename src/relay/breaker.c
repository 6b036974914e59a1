#include "relay/breaker.h"

#include "base/backoff.h"

/* A probe is cheap, and a destination that is back should not wait for the next one for long. */
static const struct backoff probe_backoff = {.first_ms = 200, .factor = 2, .max_ms = 5000};

bool breaker_admits(struct breaker *breaker, int64_t now_ms, uint32_t n_in_flight)
{
        if (breaker->state == BREAKER_OPEN && now_ms >= breaker->until_ms)
                breaker->state = BREAKER_HALF_OPEN;

        switch (breaker->state) {
        case BREAKER_CLOSED:
                return true;
        case BREAKER_OPEN:
                return false;
        case BREAKER_HALF_OPEN:
                return n_in_flight == 0;
        }
        return false;
}

void breaker_note_down(struct breaker *breaker, int64_t now_ms, int64_t delay_ms, uint32_t jitter)
{
        int64_t wait_ms;

        /* Those that were in flight when it opened tell nothing new, but may know for how long. */
        if (breaker->state != BREAKER_OPEN)
                breaker->n_failures++;
        wait_ms = backoff_ms(&probe_backoff, breaker->n_failures, jitter);
        if (delay_ms > wait_ms)
                wait_ms = delay_ms;
        if (breaker->state != BREAKER_OPEN ||
            (delay_ms >= 0 && now_ms + wait_ms > breaker->until_ms))
                breaker->until_ms = now_ms + wait_ms;
        breaker->state = BREAKER_OPEN;
}

void breaker_note_up(struct breaker *breaker)
{
        /* Those that were accepted before it opened say nothing about now: a peer that asked for a
         * pause gets it, although it still answers what it had taken. */
        if (breaker->state != BREAKER_OPEN)
                *breaker = (struct breaker){.state = BREAKER_CLOSED};
}
