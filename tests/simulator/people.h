/* Applications that write events, and operators who change things by hand. */
#pragma once

#include "simulator/world.h"

void people_write(struct world *world);
void people_end_transactions(struct world *world); /* all that are open */
void people_operate(struct world *world);
void people_resume(struct world *world);
