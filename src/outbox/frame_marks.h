/*
 * Where the rows of old transactions can be: whoever got a transaction id after a
 * frame's drew ids above its floor (cursor.h), so frames that went by tell for a
 * straggler below which id nothing of it is. The statement then looks at the
 * partitions above, instead of all.
 *
 * Only those of this session: after a crash of the server transaction ids may be
 * given out again.
 */
#pragma once

#include "outbox/cursor.h"

#include <stddef.h>

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
