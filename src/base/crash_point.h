/*
 * Named places where a test can have the program die. With the build option
 * PGCOURIER_CRASH_POINTS the environment variable PGCOURIER_CRASH_AT=NAME:N
 * kills the process by SIGKILL when it passes the point of that name for the
 * N-th time, as a power failure would: nothing is flushed, nothing is closed.
 * Without the option, as in releases, nothing of this is compiled.
 */
#pragma once

#ifdef PGCOURIER_CRASH_POINTS

void crash_point(const char *name);

#else

static inline void crash_point(const char *name)
{
        (void)name;
}

#endif
