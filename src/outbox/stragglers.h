/*
 * Transactions that a frame does not show although they may have drawn ids
 * below its floor: those that its snapshot lists as in progress, and those from
 * its xmax on, which is the last completed transaction plus one, that began
 * before the frame's xid was drawn.
 */
#pragma once

#include "outbox/cursor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct array_literal;

/* Adds their ids. False if so many may lie between xmax and xid that these are left out, and have
 * to be looked for: the xid was drawn long after the snapshot was taken. */
bool stragglers_list(const struct frame *frame, struct array_literal *ids);

/* None of them has a lower id. */
uint64_t stragglers_oldest(const struct frame *frame);

/*
 * Where their rows can be: a transaction that got its id after a frame's xid was drawn drew ids
 * above the frame's floor (cursor.h). So the frames that a session has seen tell below which id a
 * straggler has no row, and a page reads the partitions above that id instead of all.
 *
 * A new session begins with none: after a crash of the server, transaction ids may be used again.
 */

/* They are some way apart, and so few: a partition is much wider. */
#define FRAME_MARKS 64

struct frame_marks {
        struct {
                int64_t floor;
                uint64_t xid;
        } marks[FRAME_MARKS]; /* ascending; a full one begins anew from its newer half */
        size_t n_marks;
};

/* A complete frame. */
void frame_marks_note(struct frame_marks *marks, const struct frame *frame);

/* No row of a transaction with this id or a higher one has an id at or below this. */
int64_t frame_marks_floor(const struct frame_marks *marks, uint64_t xid);
