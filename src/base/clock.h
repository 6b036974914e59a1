/* Time. Delays use the monotonic clock; what is shown to people, the wall clock. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline int64_t clock_read_us(clockid_t id)
{
        struct timespec now;

        clock_gettime(id, &now);
        return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static inline int64_t clock_monotonic_us(void)
{
        return clock_read_us(CLOCK_MONOTONIC);
}

/* Since 1970-01-01 UTC. */
static inline int64_t clock_wall_us(void)
{
        return clock_read_us(CLOCK_REALTIME);
}
