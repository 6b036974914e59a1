/*
 * Where the lanes of a sink that fans out get their pages. A thousand receivers
 * that stand at the same place in the log are one question to the database:
 * each gets a view of the same page, with the events that it takes.
 *
 * Those who have fallen behind find their way back to the others, because a
 * difference is opened for all at the same moment: whoever opens one while
 * nobody has rung since the last was opened, gets the end of that one.
 */
#pragma once

#include "delivery/page_view.h"
#include "outbox/outbox.h"
#include "outbox/routing.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct page_cache;

/* One lane's question; embedded in whoever asks. At most one is under way. */
struct page_waiter {
        struct list link; /* of the cache's, while under way */
        struct cursor start;
        uint32_t max_events;
        uint64_t max_bytes;
};

struct page_cache_events {
        /* The answer, now the receiver's. `is_old`: it was read before somebody rang last, so there
         * may be more. */
        void (*on_view)(struct page_waiter *ask, struct page *view, bool is_old);
        /* Instead of that: what was asked of the database for it failed. */
        void (*on_failed)(struct page_waiter *ask, const struct error *error);
        /* Does the lane take the event, but for filters, which is number `i` of the page? `ask` is its page_waiter. */
        page_takes_fn *takes;
};

/* `store` does the reading: its on_page and on_xid must lead to page_cache_take_page() and
 * page_cache_take_xid(). Borrowed. */
struct page_cache *page_cache_create(
    struct lane_store *store, const struct page_cache_events *events);
void page_cache_destroy(struct page_cache *cache); /* nothing is asked any more */

/* What any of the lanes takes; borrowed until the next call. Pages read so far are forgotten. */
void page_cache_set_routings(
    struct page_cache *cache, const struct routing *const *routings, size_t n_routings);

/* The end of the newest difference that was read, complete; NULL: none yet. */
struct frame *page_cache_newest(const struct page_cache *cache);

/* There may be something new in the outbox. To be called for a lane that is taken, too. */
void page_cache_ring(struct page_cache *cache);

void page_cache_ask(
    struct page_cache *cache, struct page_waiter *ask, const struct page_request *request);
bool page_waiter_is_under_way(const struct page_waiter *ask);
void page_waiter_init(struct page_waiter *ask);

/* Answers what can be answered, and asks the database what cannot. Views may come inside the call. */
void page_cache_serve(struct page_cache *cache);

/* Nothing is asked of the database. */
bool page_cache_is_idle(const struct page_cache *cache);

void page_cache_take_page(struct page_cache *cache, struct page *page);
void page_cache_take_xid(struct page_cache *cache, uint64_t xid);
void page_cache_fail_page(struct page_cache *cache, const struct error *error);

/* The session is lost: nothing that was read may be used any more. */
void page_cache_reset(struct page_cache *cache);
