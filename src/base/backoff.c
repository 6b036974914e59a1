#include "base/backoff.h"

int64_t backoff_ms(const struct backoff *backoff, uint32_t failures, uint32_t jitter)
{
        double ceiling = (double)backoff->first_ms;
        int64_t span;

        for (uint32_t n = 1; n < failures && ceiling < (double)backoff->max_ms; n++)
                ceiling *= backoff->factor;
        span = ceiling < (double)backoff->max_ms ? (int64_t)ceiling : backoff->max_ms;
        return 1 + (int64_t)(((uint64_t)span * jitter) >> 32);
}
