#include "base/backoff.h"

#include "base/clock.h"

#include <sys/random.h>

/* span * jitter / 2^32, in two halves, as the product may need 96 bits. */
static int64_t scale(int64_t span, uint32_t jitter)
{
        uint64_t high = (uint64_t)span >> 32;
        uint64_t low = (uint64_t)span & UINT32_MAX;

        return (int64_t)(high * jitter + (low * jitter >> 32));
}

int64_t backoff_ms(const struct backoff *backoff, uint32_t failures, uint32_t jitter)
{
        double ceiling = (double)backoff->first_ms;
        int64_t span;

        for (uint32_t n = 1;
             n < failures && backoff->factor > 1 && ceiling < (double)backoff->max_ms; n++)
                ceiling *= backoff->factor;
        span = ceiling < (double)backoff->max_ms ? (int64_t)ceiling : backoff->max_ms;
        return 1 + scale(span, jitter);
}

/* splitmix64 (Steele, Lea, Flood 2014): one word of state, more than enough for jitter. */
uint32_t random_u32(void)
{
        static uint64_t state;
        uint64_t mixed;

        if (state == 0 && getrandom(&state, sizeof state, GRND_NONBLOCK) != sizeof state)
                state = (uint64_t)clock_wall_us();
        state += 0x9e3779b97f4a7c15u;
        mixed = state;
        mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
        return (uint32_t)((mixed ^ (mixed >> 31)) >> 32);
}
