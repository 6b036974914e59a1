/*
 * How the lanes of a sink that has several read the log: through one page cache, by a store that is
 * no lane's. The lanes are those of its shards, or of its receivers. Before they look for what is
 * parked, one look for all of them says which have something that is due.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct dispatcher;
struct page_request;
struct runner;
struct reading;

/* Its page cache is the dispatcher's from then on. */
struct reading *reading_create(struct dispatcher *dispatcher);
void reading_destroy(struct reading *reading); /* its runners are gone; NULL is allowed */

/* Lanes have come or gone, or take other events. */
void reading_note_lanes(struct reading *reading);

/* Former shards of the sink have ended: lane_store_leave_out(). */
void reading_leave_out(struct reading *reading, const char *newest_end);

/* There may be something new in the outbox, or a lane was taken. */
void reading_ring(struct reading *reading);

/* What is parked may have been changed by hand. */
void reading_ring_parked(struct reading *reading);
bool reading_is_looking(const struct reading *reading); /* for lanes to ring */

/* runner_ops::read */
void reading_ask(struct runner *runner, struct page_request *request);

/* The end of the newest difference that was read, or newer; NULL: none yet. */
struct frame *reading_newest(const struct reading *reading);

/* After the runners were pumped: reads what they asked for together. */
void reading_serve(struct reading *reading, int64_t now_ms);

/* Nothing is being read. */
bool reading_is_idle(const struct reading *reading);

/* The session is lost. */
void reading_reset(struct reading *reading);
