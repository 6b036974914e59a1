/*
 * The order-keeping sink and its destination, as src/sinks/redis/redis_sink.c and
 * Redis are. What a life of a relay sends stands in line; the first of them,
 * the burst, are under way, one burst at a time (two that share no key are no
 * different from one). A burst in which a key comes twice is a transaction: all
 * of it is executed or nothing. After a refusal those that wait are given back,
 * and nothing goes out before they are.
 */
#pragma once

#include "simulator/world.h"

extern const struct outcome delivered, rejected, cancelled, unanswered;

void burst_note_sent(struct world *world, struct sim_attempt *attempt);

/* All that the relay waits for is given back now; what is under way may still arrive. */
void burst_cancel(struct world *world, int relay);

/* May it get further: be decided with its burst, or be told how it ended? */
bool burst_is_its_turn(const struct world *world, const struct sim_attempt *attempt);

/* The sink is answered, and tells: this one, or all of its burst, or all that were given back. */
void burst_tell(struct world *world, struct sim_attempt *attempt);

/* The attempt is the first of its line, and is not decided. */
void burst_decide(struct world *world, struct sim_attempt *attempt);
