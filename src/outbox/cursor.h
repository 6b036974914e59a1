/*
 * How far a lane has come in the outbox: a snapshot, not a number.
 *
 * A frame is one look at the database's history. What is visible in a newer
 * frame and was not visible in an older one is the difference between them; a
 * lane reads one difference after the other, each in the order of ids.
 * docs/architecture.md says why nothing can slip through.
 *
 * Known to the pure core, so no libpq here.
 */
#pragma once

#include <stdbool.h>
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
