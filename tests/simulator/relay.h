/*
 * A simulated relay: a real lane, asked and told as src/delivery/dispatcher.c does
 * it, between a session and the destination. It may crash between any two of
 * its actions.
 */
#pragma once

#include "simulator/world.h"

void relay_start(struct world *world, int relay);
void relay_crash(struct world *world, int relay);
void relay_drain(struct world *world, int relay);
void relay_hurry(struct world *world, int relay);

/* Its end of the connection notices that the session is gone, or a new one is there. */
void relay_session_down(struct world *world, int relay);
void relay_session_up(struct world *world, int relay);

bool relay_can_answer(const struct world *world, int relay); /* something was executed */
void relay_take_answer(struct world *world, int relay);

void relay_hear(struct world *world, int relay); /* bells */
void relay_sweep(struct world *world, int relay);

/* An attempt has ended, and the sink says how. */
void relay_finish(struct world *world, int relay, struct sim_attempt *attempt);

/* The end of a turn of its loop. */
void relay_pump(struct world *world, int relay);

int64_t relay_now(const struct world *world, int relay);      /* its clock */
int64_t relay_next_due(const struct world *world, int relay); /* true time, or -1 */
bool relay_is_owner(const struct world *world, int relay);
