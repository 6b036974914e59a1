/*
 * The deliveries of a lane that are claimed and not yet settled, page by page
 * in the order in which they were read, and how far they are done without a
 * gap. Pure.
 */
#pragma once

#include "base/list.h"
#include "outbox/page.h"
#include "relay/delivery.h"

#include <stddef.h>
#include <stdint.h>

struct window {
        struct list pages;      /* window_page::link, oldest first */
        size_t bytes;           /* of the payloads held */
        struct cursor position; /* everything up to here is done */
        uint64_t n_taken;       /* events that ever entered */
        uint64_t n_done;        /* of these, the longest run from the first that is done */
};

struct window_page {
        struct list link;
        struct page *page;            /* owned */
        size_t n_done;                /* the longest run from the first that is done */
        struct delivery deliveries[]; /* page->n_events of them */
};

void window_init(struct window *window);
void window_deinit(struct window *window);

/* Empties it and puts it at a cursor. */
void window_reset(struct window *window, const struct cursor *position);

/* Takes the page. Its deliveries are zeroed but for their events. */
struct window_page *window_add(struct window *window, struct page *page);

/* Moves the position over what is done and lets go of pages that are behind it.
 * True if the position moved. */
bool window_advance(struct window *window);
