/*
 * The simulated destination and the network before it. An attempt is sent,
 * then decided (it arrives or does not, and so it will be answered), then
 * answered. Its sender may be gone by then. Attempts are independent of
 * each other, but for a sink that keeps order: that is in burst.c.
 */
#pragma once

#include "simulator/world.h"

void destination_send(struct world *world, int relay, struct delivery *delivery);

/* The relay awaits no answer any more; its attempts may still arrive. */
void destination_abandon(struct world *world, int relay);

/* Its attempts end soon, as CANCELLED unless they are decided. */
void destination_cancel(struct world *world, int relay);

/* One attempt gets further; false if none can. */
bool destination_step(struct world *world);

/* When the next slow attempt gets further, or -1. */
int64_t destination_next_due(const struct world *world);

void destination_change_weather(struct world *world);

/* What it does with an attempt. */
void destination_arrive(struct world *world, struct sim_attempt *attempt);
struct outcome destination_refusal(struct world *world);
bool destination_would_fail(const struct world *world, const struct sim_event *event);
bool destination_fails(struct world *world, struct sim_event *event); /* once more */
bool destination_rejects(struct sim_event *event);                    /* once more */
struct outcome destination_failure(struct world *world, const struct sim_event *event);
bool destination_would_blame(const struct world *world, const struct sim_event *event);
bool destination_blames(struct world *world, struct sim_event *event); /* once more */
struct outcome destination_blame(struct world *world, const struct sim_event *event);
