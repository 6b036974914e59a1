#include "base/random.h"

#include "base/clock.h"

#include <sys/random.h>

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
