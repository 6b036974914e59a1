/* All that is left to chance in a history, from its seed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct dice {
        uint64_t state;
};

/* splitmix64 (Steele, Lea, Flood 2014). */
static inline uint32_t dice_roll(struct dice *dice)
{
        uint64_t mixed = dice->state += 0x9e3779b97f4a7c15u;

        mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
        return (uint32_t)((mixed ^ (mixed >> 31)) >> 32);
}

/* 0 … limit - 1 */
static inline uint32_t dice_below(struct dice *dice, uint32_t limit)
{
        return (uint32_t)((uint64_t)dice_roll(dice) * limit >> 32);
}

static inline int64_t dice_between(struct dice *dice, int64_t least, int64_t most)
{
        return least + dice_below(dice, (uint32_t)(most - least + 1));
}

/* In 1 of n cases; never with 0. */
static inline bool dice_one_in(struct dice *dice, uint32_t n)
{
        return n > 0 && dice_below(dice, n) == 0;
}
