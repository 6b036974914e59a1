/*
 * The pages that the lanes of a sink with many receivers read. A thousand lanes
 * at one place in the log are one question to the database, and wait for its
 * answer together, as a group. A lane is answered when there is a page with an
 * event that it takes: then it gets a view of that page. All others of its group
 * go on to the page's end without knowing it, so what passes by costs a lane
 * nothing. Now and then it is told how far it has come. Pure.
 *
 * Receivers that have fallen behind catch up with the others, because a
 * difference is opened for all of them at the same moment: if no writer has rung
 * since the last was opened, a group that opens another gets the end of that one.
 */
#pragma once

#include "base/list.h"
#include "outbox/outbox.h"
#include "outbox/routing.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct group;
struct page_cache;

/* A lane that may wait for a page; embedded in the object that asks. It waits for one at a time. */
struct page_waiter {
        const struct routing *routing; /* borrowed: see page_cache_set_waiters() */

        /* While it waits. */
        struct list link;     /* of the cache, or of its group */
        struct list age_link; /* of the cache, in order of since_ms */
        struct group *group;  /* borrowed; NULL: it was not looked at yet */
        struct cursor start;  /* where it stands, for all that it knows */
        uint32_t max_events;
        uint64_t max_bytes;
        int64_t since_ms; /* in this group */
        size_t first;     /* the first event that it takes, of the page that it is to get */
};

struct page_cache_events {
        /* Answers page_cache_ask(). The receiver owns the page. There may be more, always. */
        void (*on_view)(struct page_waiter *waiter, struct page *view);
        /* In place of on_view: the statement that was to read the page failed. */
        void (*on_failed)(struct page_waiter *waiter, const struct error *error);
        /* Does the lane, filters apart, take event number `i`? `owner`: its page_waiter. */
        bool (*takes)(void *owner, const struct page *page, size_t i);
};

struct page_cache_settings {
        /* What a page holds at most. A lane with room for less takes it in parts; an event with a
         * larger payload comes alone. */
        uint32_t max_events;
        uint64_t max_event_bytes;
        bool are_alike; /* all lanes have the same routing: `takes` tells them apart */
};

/* `store` reads the pages; borrowed. Its on_page and on_page_failed must lead to
 * page_cache_take_page() and page_cache_fail_page(). */
struct page_cache *page_cache_create(struct lane_store *store,
    const struct page_cache_settings *settings, const struct page_cache_events *events);
void page_cache_destroy(struct page_cache *cache); /* no answer is on its way */

/* Who may ask, each with what it takes at most; all is borrowed until the next call. Drops the
 * pages read so far, and looks for what is new: nothing is known for lanes that join. A lane that
 * waits takes by its new routing what its group comes to from now on. */
void page_cache_set_waiters(
    struct page_cache *cache, struct page_waiter *const *waiters, size_t n_waiters);

/* The end of the newest difference that was read, or newer; NULL: none yet. */
struct frame *page_cache_newest(const struct page_cache *cache);

/* There may be something new in the outbox. */
void page_cache_ring(struct page_cache *cache);

void page_waiter_init(struct page_waiter *waiter);
bool page_waiter_is_under_way(const struct page_waiter *waiter);

/* Answered by on_view or on_failed, from one of the calls below. The request is borrowed for the
 * call. */
void page_cache_ask(
    struct page_cache *cache, struct page_waiter *waiter, const struct page_request *request);

/* Answers at once, without an event, if it waits: the lane has no use for a page any more. */
void page_cache_call_off(struct page_cache *cache, struct page_waiter *waiter);

/* It waits, and all that is known of has been read for it. */
bool page_cache_is_at_end(const struct page_cache *cache, const struct page_waiter *waiter);

/* Answers from memory what it can, tells lanes how far they have come, and reads one page. To be
 * called again at page_cache_next_due(), if that is not -1. */
void page_cache_serve(struct page_cache *cache, int64_t now_ms);
int64_t page_cache_next_due(const struct page_cache *cache);

/* No page is being read. */
bool page_cache_is_idle(const struct page_cache *cache);

void page_cache_take_page(struct page_cache *cache, struct page *page);
void page_cache_fail_page(struct page_cache *cache, const struct error *error);

/* The session is lost: drops all pages and waiters. */
void page_cache_reset(struct page_cache *cache);
