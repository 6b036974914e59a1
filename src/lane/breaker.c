#include "lane/breaker.h"

#include "base/backoff.h"

/* A probe is cheap, and a destination that is back should not wait for the next one for long. */
static const struct backoff probe_backoff = {.first_ms = 200, .factor = 2, .max_ms = 5000};

/* A peer that refuses our credentials may count the attempts and lock us out: 10 s to 5 min. Only
 * half of that is random, so that a few short draws in a row do no harm. */
static const struct backoff half_rare_backoff = {.first_ms = 5000, .factor = 2, .max_ms = 150000};

static int64_t wait_ms(const struct breaker *breaker, uint32_t jitter)
{
        if (!breaker->needs_operator)
                return backoff_ms(&probe_backoff, breaker->n_failures, jitter);
        return backoff_ms(&half_rare_backoff, breaker->n_failures, UINT32_MAX) +
               backoff_ms(&half_rare_backoff, breaker->n_failures, jitter);
}

bool breaker_has_room(const struct breaker *breaker, uint32_t n_in_flight)
{
        switch (breaker->state) {
        case BREAKER_CLOSED:
                return breaker->allowance == 0 || n_in_flight < breaker->allowance;
        case BREAKER_OPEN:
                return true;
        case BREAKER_HALF_OPEN:
                break;
        }
        return n_in_flight == 0;
}

bool breaker_admits(struct breaker *breaker, int64_t now_ms, uint32_t n_in_flight)
{
        if (breaker->state == BREAKER_OPEN && now_ms >= breaker->until_ms)
                breaker->state = BREAKER_HALF_OPEN;

        return breaker->state != BREAKER_OPEN && breaker_has_room(breaker, n_in_flight);
}

void breaker_note_down(
    struct breaker *breaker, int64_t now_ms, int64_t delay_ms, bool needs_operator, uint32_t jitter)
{
        bool is_worse = needs_operator && !breaker->needs_operator;
        bool is_open = breaker->state == BREAKER_OPEN;
        int64_t due_ms;

        breaker->is_suspicion = false;
        if (is_worse) {
                breaker->needs_operator = true;
                breaker->n_failures = 0;
        }
        /* Attempts in flight when it opened tell nothing new, but may know for how long. */
        if (!is_open || is_worse)
                breaker->n_failures++;
        due_ms = wait_ms(breaker, jitter);
        due_ms = now_ms + (delay_ms > due_ms ? delay_ms : due_ms);
        if (!is_open || ((delay_ms >= 0 || is_worse) && due_ms > breaker->until_ms))
                breaker->until_ms = due_ms;
        breaker->state = BREAKER_OPEN;
}

static void close_slowly(struct breaker *breaker)
{
        *breaker = (struct breaker){.state = BREAKER_CLOSED, .allowance = BREAKER_SLOW_START};
}

void breaker_note_up(struct breaker *breaker)
{
        switch (breaker->state) {
        case BREAKER_CLOSED:
                breaker->n_failed = 0;
                /* One more for each success: the allowance doubles with each round of answers. */
                if (breaker->allowance > 0 && ++breaker->allowance >= BREAKER_FULL_SPEED)
                        breaker->allowance = 0;
                return;
        case BREAKER_OPEN:
                /* Answers to attempts from before it opened say nothing about now: a peer that
                 * asked for a pause gets it, although it still answers what it had taken. */
                return;
        case BREAKER_HALF_OPEN:
                close_slowly(breaker);
                return;
        }
}

static void open_on_suspicion(struct breaker *breaker, int64_t now_ms, uint32_t jitter)
{
        breaker_note_down(breaker, now_ms, -1, false, jitter);
        breaker->is_suspicion = true;
}

bool breaker_note_failed(struct breaker *breaker, int64_t event_id, int64_t now_ms, uint32_t jitter)
{
        if (breaker->state == BREAKER_OPEN)
                return false;
        if (breaker->state == BREAKER_HALF_OPEN) {
                if (breaker->is_suspicion) {
                        open_on_suspicion(breaker, now_ms, jitter);
                        return true;
                }
                close_slowly(breaker); /* it is back; the event has a fault of its own */
        }
        /* An event that fails again and again has a fault of its own. */
        if (breaker->n_failed > 0 && breaker->last_failed_id == event_id)
                return false;
        breaker->last_failed_id = event_id;
        if (++breaker->n_failed < BREAKER_SUSPICION)
                return false;
        breaker->n_failed = 0;
        open_on_suspicion(breaker, now_ms, jitter);
        return true;
}

void breaker_probe_now(struct breaker *breaker, int64_t now_ms)
{
        if (breaker->state == BREAKER_OPEN && breaker->until_ms > now_ms)
                breaker->until_ms = now_ms;
}
