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
#include "outbox/match.h"
#include "outbox/outbox.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct page_desk;

/* One lane's question; embedded in whoever asks. At most one is under way. */
struct page_ask {
        struct list link; /* of the desk's, while under way */
        struct cursor start;
        uint32_t max_events;
        uint64_t max_bytes;
};

struct page_desk_events {
        /* The answer, now the receiver's. `is_old`: it was read before somebody rang last, so there
         * may be more. */
        void (*on_view)(struct page_ask *ask, struct page *view, bool is_old);
        /* Instead of that: what was asked of the database for it failed. */
        void (*on_failed)(struct page_ask *ask, const struct error *error);
        /* Does the lane take the event, but for filters, which is number `i` of the page? `ask` is its page_ask. */
        page_takes_fn *takes;
};

/* `store` does the reading: its on_page and on_xid must lead to page_desk_take_page() and
 * page_desk_take_xid(). Borrowed. */
struct page_desk *page_desk_create(struct lane_store *store, const struct page_desk_events *events);
void page_desk_destroy(struct page_desk *desk); /* nothing is asked any more */

/* What any of the lanes takes; borrowed until the next call. Pages read so far are forgotten. */
void page_desk_set_routings(
    struct page_desk *desk, const struct routing *const *routings, size_t n_routings);

/* The end of the newest difference that was read, complete; NULL: none yet. */
struct frame *page_desk_newest(const struct page_desk *desk);

/* There may be something new in the outbox. To be called for a lane that is taken, too. */
void page_desk_ring(struct page_desk *desk);

void page_desk_ask(
    struct page_desk *desk, struct page_ask *ask, const struct page_request *request);
bool page_ask_is_under_way(const struct page_ask *ask);
void page_ask_init(struct page_ask *ask);

/* Answers what can be answered, and asks the database what cannot. Views may come inside the call. */
void page_desk_serve(struct page_desk *desk);

/* Nothing is asked of the database. */
bool page_desk_is_idle(const struct page_desk *desk);

void page_desk_take_page(struct page_desk *desk, struct page *page);
void page_desk_take_xid(struct page_desk *desk, uint64_t xid);
void page_desk_fail_page(struct page_desk *desk, const struct error *error);

/* The session is lost: nothing that was read may be used any more. */
void page_desk_reset(struct page_desk *desk);
