/* Randomness for jitter, seeded once from the system; not for secrets. */
#pragma once

#include <stdint.h>

uint32_t random_u32(void);
