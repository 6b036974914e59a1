/*
 * The pages that the lanes of a sink with many receivers read. A thousand
 * receivers at the same place in the log are one question to the database: each
 * gets a view of the same page, with the events that it takes. Pure.
 *
 * Receivers that have fallen behind catch up with the others, because a
 * difference is opened for all of them at the same moment: if no writer has rung
 * since the last was opened, a lane that opens another gets the end of that one.
 */
#pragma once

#include "base/list.h"
#include "outbox/outbox.h"
#include "outbox/routing.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct page_cache;

/* A lane that waits for a page; embedded in the object that asks. It waits for one page at a
 * time. */
struct page_waiter {
        struct list link; /* of a list of the cache, while it waits */
        struct cursor start;
        uint32_t max_events;
        uint64_t max_bytes;
};

/* Does the lane, filters apart, take event number `i` of the page? `owner`: its page_waiter. */
typedef bool page_takes_fn(void *owner, const struct page *page, size_t i);

struct page_cache_events {
        /* Answers page_cache_ask(). The receiver owns the view. `is_old`: it was read before the
         * last ring, so there may be more. */
        void (*on_view)(struct page_waiter *waiter, struct page *view, bool is_old);
        /* In place of on_view: the statement that was to read the page failed. */
        void (*on_failed)(struct page_waiter *waiter, const struct error *error);
        page_takes_fn *takes;
};

/* `store` reads the pages; borrowed. Its on_page and on_page_failed must lead to
 * page_cache_take_page() and page_cache_fail_page(). */
struct page_cache *page_cache_create(
    struct lane_store *store, const struct page_cache_events *events);
void page_cache_destroy(struct page_cache *cache); /* no answer is on its way */

/* What the lanes take, together; borrowed until the next call. Drops the pages read so far. */
void page_cache_set_routings(
    struct page_cache *cache, const struct routing *const *routings, size_t n_routings);

/* The end of the newest difference that was read; NULL: none yet. */
struct frame *page_cache_newest(const struct page_cache *cache);

/* There may be something new in the outbox. Call it also when a lane is taken. */
void page_cache_ring(struct page_cache *cache);

void page_waiter_init(struct page_waiter *waiter);
bool page_waiter_is_under_way(const struct page_waiter *waiter);

/* Answered by on_view or on_failed, from page_cache_serve() or page_cache_take_page(). The request
 * is borrowed for the call. */
void page_cache_ask(
    struct page_cache *cache, struct page_waiter *waiter, const struct page_request *request);

/* Answers from memory what it can, and reads one page for the others. Views may come inside the
 * call. */
void page_cache_serve(struct page_cache *cache);

/* No page is being read. */
bool page_cache_is_idle(const struct page_cache *cache);

void page_cache_take_page(struct page_cache *cache, struct page *page);
void page_cache_fail_page(struct page_cache *cache, const struct error *error);

/* The session is lost: drops all pages and waiters. */
void page_cache_reset(struct page_cache *cache);
