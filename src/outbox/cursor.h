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
        uint64_t xid;    /* a transaction id drawn after both; 0 until it has been drawn */
        char snapshot[]; /* pg_snapshot as text: xmin:xmax:xip,… */
};

struct frame *frame_create(const char *snapshot, int64_t floor, uint64_t xid);
struct frame *frame_ref(struct frame *frame); /* NULL gives NULL */
void frame_unref(struct frame *frame);        /* NULL is allowed */

struct cursor {
        struct frame *from;  /* everything visible here is behind us */
        struct frame *until; /* the open difference ends here; NULL: none is open */
        int64_t last_id;     /* in the open difference, everything up to this id is behind us */
};

/* *to takes its own references and gives up those it held. */
void cursor_assign(struct cursor *to, const struct cursor *from);
void cursor_deinit(struct cursor *cursor);

/* All of its frames have their xid: it may be written to the database. */
bool cursor_is_complete(const struct cursor *cursor);

struct array_literal;

/*
 * Stragglers are transactions that a frame does not show although they may have drawn ids below its
 * floor: those that its snapshot lists as in progress, and those from its xmax on, which is the
 * last completed transaction plus one, that began before the frame's xid was drawn.
 */

/* Adds their ids. False if so many may lie between xmax and xid that these are left out, and have
 * to be looked for: the xid was drawn long after the snapshot was taken. */
bool stragglers_list(const struct frame *frame, struct array_literal *ids);

/* None of them has a lower id. */
uint64_t stragglers_oldest(const struct frame *frame);

/*
 * Where their rows can be: a transaction that got its id after a frame's xid was drawn drew ids
 * above the frame's floor. So the frames that a session has seen tell below which id a
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
