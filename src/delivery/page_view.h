/*
 * One page that was read for many lanes, and what each of them sees of it: the
 * events that it takes, without copies of what they point at. Pure.
 */
#pragma once

#include "base/list.h"
#include "outbox/page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lives as long as somebody holds it: views, and whoever keeps it. */
struct shared_page {
        struct list link; /* its keeper's */
        int n_references;
        struct page *page; /* owned */
};

/* Takes the page; with one reference. */
struct shared_page *shared_page_create(struct page *page);
void shared_page_unref(struct shared_page *shared);

/* Of what a lane takes, as much as it asked for: the view ends there, but holds one event at least if
 * there is any. `takes` is asked for each event, by its number. */
typedef bool page_takes_fn(void *owner, const struct page *page, size_t i);
struct page *page_view_create(struct shared_page *shared, size_t max_events, uint64_t max_bytes,
    page_takes_fn *takes, void *owner);
