/*
 * Deliveries that were read together, from the stream (a page) or from where
 * they were parked. Their events live as long as the batch; a batch lives as
 * long as somebody holds it. Pure.
 */
#pragma once

#include "base/list.h"
#include "lane/delivery.h"
#include "outbox/page.h"
#include "outbox/parked.h"

#include <stddef.h>

struct batch {
        struct list link;
        struct page *page;           /* owned; NULL if it was parked */
        struct parked_batch *parked; /* owned; NULL if it is from the stream */
        size_t bytes;                /* of the payloads */
        int64_t arrived_us;          /* from the database; monotonic clock */
        size_t n_done; /* the longest run from the first that is decided: window.c's */
        size_t n_held; /* deliveries that still need it, once the window is past it */
        size_t n_deliveries;
        struct delivery deliveries[];
};

/* Takes the page or the parked batch. The deliveries are READY in name only: nothing is queued. */
struct batch *batch_of_page(struct page *page);
struct batch *batch_of_parked(struct parked_batch *parked);

/* Frees it with its events and any verdict left. It is unlinked already or never was linked. */
void batch_free(struct batch *batch);
