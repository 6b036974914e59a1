/* A recurring event, each second: its ticks are published once, however often relays die. */
#pragma once

#include "chaos/world.h"

struct ticks {
        int64_t first_s; /* Unix time of the first */
        int64_t n_due;   /* up to the last that was published */
        int64_t n_published;
        int64_t n_repeated;
        int64_t n_missing; /* among those, or because the last one is not among the latest */
};

void ticks_begin(struct ticks *ticks, const struct world *world);

/* To be called soon after relays have stopped that were well for a while. */
void ticks_judge(struct ticks *ticks, const struct world *world);
