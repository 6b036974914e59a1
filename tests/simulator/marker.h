/*
 * courier.mark() (sql/0009_marks.sql), and what it needs besides the lane: a second sink's lane,
 * which lags, and an application's table whose rows are locked or refuse their mark.
 *
 * The marker follows the log by the cursors that lanes have durably written, as the SQL does, and
 * all that it writes goes with them into struct sim_progress: a crash of the server takes back both
 * or none. A relay that dies in the midst of a call has made the whole call or none of it.
 */
#pragma once

#include "simulator/world.h"

void marker_init(struct world *world);

/* Something may happen: the second lane moves, a row is locked, a relay calls courier.mark(). It
 * has dice of its own. */
void marker_step(struct world *world);

/* All is at rest: the second lane too, and then every event of the table is marked. */
void marker_end(struct world *world);
