/*
 * Sessions of the simulated database. A relay's calls wait in order, are
 * executed in order, and are answered in order; each at a time of its own, so
 * that a connection may break before or after any of them was executed. The
 * lane's lock belongs to the session, which may outlive the relay's end of it.
 */
#pragma once

#include "simulator/world.h"

int session_open(struct world *world, int relay);

void session_call(struct world *world, int session, enum call_kind kind);
bool session_has_work(const struct world *world, int session);
void session_execute_next(struct world *world, int session);

/* The relay is gone from the other end; what it sent may still be executed. */
void session_orphan(struct world *world, int session);

/* The server has noticed, and lets go of the lock. */
void session_end(struct world *world, int session);

/* Forgets the answer of the first call. */
void session_drop_first(struct world *world, int session);
