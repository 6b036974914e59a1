/*
 * One page of a difference: the events that a lane reads in one round trip.
 *
 * Known to the pure core, so no libpq here: what the events point into is
 * freed through `release`.
 */
#pragma once

#include "outbox/cursor.h"
#include "pgcourier/event.h"

#include <stdbool.h>
#include <stddef.h>

struct page {
        /* Where it was read from. `until` is always set; it is `from` itself if nothing is new:
         * then the page is empty. */
        struct cursor start;
        int64_t upto; /* everything of the difference up to this id is in it or before it */
        size_t n_events;
        struct event *events; /* in delivery order */
        bool *is_delayed;     /* for each: it is to be parked until its time; NULL: none of them */
        bool *is_unjudged; /* for each: its filter took too long to be asked; NULL: none of them */
        uint16_t *shards;  /* which each is of; NULL: the sink has one */
        size_t bytes;      /* of the payloads */
        int64_t asked_us;  /* monotonic clock: of what was read from the database */
        int64_t arrived_us;

        void (*release)(struct page *page);
};

/* No id of the difference is above this page. */
static inline bool page_ends_difference(const struct page *page)
{
        return page->upto >= page->start.until->floor;
}

/* It was to open a difference, but no id was drawn since `from`, and no event was committed. */
static inline bool page_is_nothing_new(const struct page *page)
{
        return page->start.until == page->start.from;
}

/* What to read next. Borrowed until the answer. */
struct page_request {
        struct cursor start; /* `until` NULL opens a difference that ends now */
        uint32_t max_events; /* at least 1 */
        /* The page ends before an event with a larger payload than this; an event that is larger
         * by itself comes alone on its page. So no page exceeds max_events * max_event_bytes, or
         * one event. */
        uint64_t max_event_bytes;
};
