/*
 * The simulated database. The outbox: transactions draw ids and commit in any
 * order or never, a snapshot is the number of commits that it sees, a page is
 * cut as src/outbox/page.c cuts it. courier.parked and courier.dead_letter:
 * read and written as src/outbox/{parked,settlement}.h say.
 */
#pragma once

#include "simulator/world.h"

void database_init(struct world *world);
void database_deinit(struct world *world);

int64_t database_now(const struct world *world);

/* Something was written and is on disk now, and with it all that came before. */
void database_sync(struct world *world);

/* The server crashes: what was not on disk may be gone, and its clock may be another one's. Its
 * sessions are the caller's. */
void database_crash(struct world *world);

/* The rows of courier.outbox that a lane at this cursor will not read again. */
bool database_is_behind(const struct world *world, size_t event, const struct cursor *cursor);
bool event_is_committed(const struct sim_event *event);

/* It is delivered or given up for good, as far as the database knows. */
bool database_is_done(const struct world *world, size_t event);

/* The writer of b knew of a, so a is to be delivered before b. */
bool event_precedes(const struct sim_event *a, const struct sim_event *b);

/* Its transaction id was drawn after its snapshot was taken. */
bool frame_is_sound(const struct frame *frame);

struct cursor cursor_copy(const struct cursor *cursor); /* with frames of its own */

struct page *database_read_page(struct world *world, const struct page_request *request);
struct parked_batch *database_read_parked(struct world *world, const struct sim_session *session);

/* Keys of what is parked, as for lane_own(). */
void database_read_keys(struct world *world, struct sim_session *session);

/* The session's settle, in one transaction. */
void database_settle(struct world *world, struct sim_session *session);

const char *key_name(int key); /* NULL for -1 */
