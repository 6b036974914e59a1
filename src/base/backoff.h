/*
 * How long to wait before another try, and the randomness that spreads tries. The calculation is
 * pure: its caller draws the jitter, so that tests can set it.
 */
#pragma once

#include <stdint.h>

struct backoff {
        int64_t first_ms;
        double factor; /* at least 1 */
        int64_t max_ms;
};

/*
 * Exponential backoff with full jitter ("Exponential Backoff And Jitter", AWS Architecture Blog,
 * 2015): evenly spread over [1, min(max, first * factor^(failures - 1))] ms. `failures` counts
 * those so far and is at least 1; `jitter` is any 32-bit value.
 */
int64_t backoff_ms(const struct backoff *backoff, uint32_t failures, uint32_t jitter);

/* For jitter and for names that must differ; not for secrets. Seeded once from the system. */
uint32_t random_u32(void);
