/* What kind of history it is to be: how rough, and with which policy. */
#pragma once

#include "simulator/world.h"

void climate_roll(struct world *world);
