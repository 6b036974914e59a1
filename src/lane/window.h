/*
 * The deliveries of a lane that came with the stream and are not yet settled,
 * batch by batch in the order in which they were read, and how far they are
 * decided without a gap: that is where the cursor may go. Pure.
 */
#pragma once

#include "base/list.h"
#include "lane/delivery.h"
#include "lane/settler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct window {
        struct list batches;    /* batch::link, oldest first: those not yet passed */
        struct list held;       /* batch::link: passed, but some of their deliveries need them */
        size_t bytes;           /* of the payloads in both */
        struct cursor position; /* everything up to here is decided */
        uint64_t n_taken;       /* deliveries that ever entered */
        uint64_t n_passed;      /* of these, the longest run from the first that is decided */
        uint64_t n_decided;     /* of these, all that are decided */
};

void window_init(struct window *window);
void window_deinit(struct window *window);

/* Empties it and puts it at a cursor. */
void window_reset(struct window *window, const struct cursor *position);

/* Takes the page. Its deliveries have their events and their place in the order. */
struct batch *window_add(struct window *window, struct page *page);

/* It is delivered, or it has a verdict: the position may pass it. Once for each delivery. */
void window_note_decided(struct window *window);

/* Moves the position over what is decided, and frees batches that are passed and not held. The
 * verdicts of what is passed go to the settler, in order; a delivery that has one holds its batch
 * until window_let_go(). True if the position moved. */
bool window_advance(struct window *window, struct settler *settler);

/* A delivery that was passed needs its batch no more. It is gone when this returns. */
void window_let_go(struct window *window, struct delivery *delivery);

/* The first that the position has not passed, or NULL. */
struct delivery *window_head(const struct window *window);

/* Some that are decided wait behind one that is not. */
bool window_is_held_up(const struct window *window);
