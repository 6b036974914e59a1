/*
 * The deliveries of a lane that came with the stream and are not yet settled,
 * batch by batch in the order in which they were read. The cursor may stand
 * where they are decided without a gap. Pure.
 */
#pragma once

#include "base/list.h"
#include "lane/delivery.h"
#include "lane/settler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct window {
        struct list batches;    /* batch::link, oldest first: not yet passed */
        struct list held;       /* batch::link: passed, but needed by some of their deliveries */
        size_t bytes;           /* of the payloads in both */
        struct cursor position; /* everything up to here is decided */
        uint64_t n_taken;       /* deliveries that ever entered */
        uint64_t n_passed;      /* of these, the first ones that are decided without a gap */
        uint64_t n_decided;     /* of these, all that are decided */
};

void window_init(struct window *window);
void window_deinit(struct window *window);

/* Empties it and puts it at a cursor. */
void window_reset(struct window *window, const struct cursor *position);

/* Takes the page. Its deliveries have their events and their place in the order. */
struct batch *window_add(struct window *window, struct page *page);

/* A delivery is decided now (delivery_is_decided()). Once for each. */
void window_note_decided(struct window *window);

/* Moves the position over what is decided, and frees batches that are passed and not held. The
 * verdicts of what is passed go to the settler, in order; a delivery that has one holds its batch
 * until window_let_go(). True if the position moved. */
bool window_advance(struct window *window, struct settler *settler);

/* A delivery that was passed needs its batch no more. It may be gone when this returns. */
void window_let_go(struct window *window, struct delivery *delivery);

/* The first delivery that the position has not passed, or NULL. */
struct delivery *window_head(const struct window *window);

/* Deliveries that are decided wait behind one that is not. */
bool window_is_held_up(const struct window *window);
