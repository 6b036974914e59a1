/*
 * How far a lane has come in the outbox: a snapshot, not a number.
 *
 * A frame is the state of the database at one moment. What is visible in a newer frame and was not
 * visible in an older one is the difference between them; a lane reads one difference after the
 * other, each in the order of ids. docs/architecture.md says why nothing can slip through.
 *
 * The pure core uses this file, so no libpq here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct frame {
        int n_references;
        /* The outbox's sequence, read after the snapshot was taken: no id visible in the snapshot
         * is above it, and a transaction that gets its id after `xid` draws ids above it. */
        int64_t floor;
        uint64_t xid;    /* the next transaction id, read after both */
        char snapshot[]; /* pg_snapshot as text: xmin:xmax:xip,… */
};

struct frame *frame_create(const char *snapshot, int64_t floor, uint64_t xid);
struct frame *frame_ref(struct frame *frame); /* NULL gives NULL */
void frame_unref(struct frame *frame);        /* NULL is allowed */

/* Does `than` show transactions that the frame does not? Of one server, which shows more and more:
 * of two snapshots the later one has the higher xmax, or the same and fewer below it that are in
 * progress. Equal snapshots show the same, whatever their floors and xids. */
bool frame_is_older(const struct frame *frame, const struct frame *than);

struct cursor {
        struct frame *from;  /* everything visible here is behind us */
        struct frame *until; /* the open difference ends here; NULL: none is open */
        int64_t last_id;     /* in the open difference, everything up to this id is behind us */
};

/* *to takes its own references and gives up those it held. */
void cursor_assign(struct cursor *to, const struct cursor *from);
void cursor_deinit(struct cursor *cursor);

struct array_literal;

/*
 * Stragglers are transactions that a frame does not show although they may have drawn ids below its
 * floor: those that its snapshot lists as in progress, and those from its xmax on, which is the
 * last completed transaction plus one, that began before the frame's xid was read.
 */

/* Adds the ids of those below `end`. False if so many may lie between xmax and xid that these are
 * left out, and have to be looked for: the xid was read long after the snapshot was taken. */
bool stragglers_list(const struct frame *frame, uint64_t end, struct array_literal *ids);

/* There is one, or there may be one. */
bool stragglers_are_any(const struct frame *frame);

/* None of them has a lower id. */
uint64_t stragglers_oldest(const struct frame *frame);

/*
 * Where their rows can be: a transaction that got its id after a frame's xid was read drew ids
 * above the frame's floor. So the frames that a session has seen tell below which id a straggler
 * has no row. Most stragglers began a moment before their frame: their rows are among the last ids
 * below its floor, which a page looks at one by one. Of the others a page reads the partitions
 * above that id instead of all.
 *
 * A new session begins with none: after a crash of the server, transaction ids may be used again.
 */
struct frame_mark {
        int64_t floor;
        uint64_t xid;
};

#define FRAME_MARKS 64

struct frame_mark_list {
        struct frame_mark
            marks[FRAME_MARKS]; /* ascending; a full one begins anew from its newer half */
        size_t n_marks;
};

struct frame_marks {
        struct frame_mark_list far;  /* a partition is much wider than their distance */
        struct frame_mark_list near; /* of the last moment */
};

void frame_marks_note(struct frame_marks *marks, const struct frame *frame);

/* No row of a transaction with this id or a higher one has an id at or below the mark's floor. */
struct frame_mark frame_marks_below(const struct frame_marks *marks, uint64_t xid);

/* The mark from which on a page had best look at each row: the last one that is before all
 * stragglers of the frame; or the first that is not too far below its floor. At most the frame's
 * own, and just that if it has no stragglers: a page then asks its snapshot about no row. */
struct frame_mark frame_marks_near(const struct frame_marks *marks, const struct frame *frame);
