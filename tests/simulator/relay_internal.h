/* The two halves of a simulated relay, among themselves: what it hears (relay.c), what it asks
 * (relay_pump.c). */
#pragma once

#include "simulator/relay.h"

/* Between any two of its actions; true if it did crash. */
bool relay_crashes_here(struct world *world, int relay);

/* All that was asked is answered, all that was started has ended. */
void relay_end_cleanly(struct world *world, int relay);

/* Before it takes a page: it may ask for the next one. */
void relay_see_page(struct world *world, int relay, const struct page *page);
