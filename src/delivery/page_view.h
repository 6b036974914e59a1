/*
 * A page that many lanes read, and what one of them sees of it: the events that
 * it takes. They point into the page, which lives as long as a view of it. Pure.
 */
#pragma once

#include "base/list.h"
#include "outbox/page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shared_page {
        struct list link; /* the page cache's */
        int n_references;
        struct page *page; /* owned */
};

/* Takes the page. */
struct shared_page *shared_page_create(struct page *page);
struct shared_page *shared_page_ref(struct shared_page *shared);
void shared_page_unref(struct shared_page *shared);

struct page_wish {
        size_t first; /* an event of the page: none before it */
        uint32_t max_events;
        uint64_t max_bytes; /* but one event at least */
        /* Does the lane, filters apart, take event number `i`? */
        bool (*takes)(void *owner, const struct page *page, size_t i);
        void *owner; /* borrowed */
};

/* The number of the first event that it takes; n_events: it takes none. */
size_t page_wish_find(const struct page_wish *wish, const struct page *page);

/* The receiver owns the view. It ends before what it has no room for. */
struct page *page_view_create(struct shared_page *shared, const struct page_wish *wish);

/* A page without events, after which a lane that stood at `from` stands at `to`. */
struct page *page_create_passed(const struct cursor *from, const struct cursor *to);
