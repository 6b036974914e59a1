/* Time. Delays use the monotonic clock; what is shown to people, the wall clock. */
#pragma once

#include <stdint.h>

int64_t clock_monotonic_us(void);
int64_t clock_wall_us(void); /* since 1970-01-01 UTC */
