/*
 * The two places that a lane reads events from: the stream, and courier.parked. Pure.
 *
 * The stream reader asks for page after page of one difference after the other.
 *
 * A page is seen when it has come: where it ends is known then, and the next page may be asked for.
 * It is taken when its events have been filtered. At most one page is seen and not taken.
 */
#pragma once

#include "base/list.h"
#include "lane/delivery.h"
#include "lane/key_order.h"
#include "outbox/page.h"
#include "outbox/parked.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream_reader {
        bool is_reading;           /* a page is under way */
        bool is_rung;              /* there may be something beyond what has been read */
        struct cursor next_page;   /* where it starts */
        uint32_t n_reading;        /* events that the page under way may bring */
        const struct page *seen;   /* and not yet taken; borrowed; or NULL */
        bool is_seen_for_nothing;  /* nothing is new: the reader stays where it was */
        uint64_t mean_event_bytes; /* a moving average, to guess how many events fit a page */
};

void stream_reader_init(struct stream_reader *reader);

/* Starts at the position, whatever was under way. It is rung. The mean size of events is kept. */
void stream_reader_reset(struct stream_reader *reader, const struct cursor *position);

/* A difference is open, or the reader is rung; and nothing is under way. */
bool stream_reader_may_ask(const struct stream_reader *reader);

/* Fills in where the page starts and how many events it may have. */
void stream_reader_ask(
    struct stream_reader *reader, uint32_t max_events, struct page_request *out_request);

/* The page under way has come, or could not be read. */
void stream_reader_see(struct stream_reader *reader, const struct page *page);
void stream_reader_fail(struct stream_reader *reader);

/* The page that was seen. False if the reader stayed where it was: the page says nothing new. */
bool stream_reader_take(struct stream_reader *reader, const struct page *page);

/* The parked reader knows when to read which rows of courier.parked back, and which of them the
 * lane has claimed by reading them. */
struct parked_reader {
        uint64_t n_rows; /* of the lane, in memory or not, but those that are delayed */
        int64_t due_ms;  /* when the next row is due; -1: none that is known */
        bool is_rung;    /* another session may have changed the rows */

        bool is_reading;          /* a request is under way */
        const char *fetching[64]; /* the keys that it asks for; borrowed from the order */
        size_t n_fetching;
        int64_t *excluded; /* owned; the ids that it excludes */
        size_t n_excluded_max;

        struct list batches; /* batch::link: what was read back */
        size_t bytes;        /* of the payloads in these */

        /* delivery::claimed_link: all in memory that have a row, or get one while they are under
         * way. They came with these batches or with the stream. */
        struct list claimed;
        uint32_t n_claimed;
};

void parked_reader_init(struct parked_reader *reader);
void parked_reader_deinit(struct parked_reader *reader);

/* Frees its batches and forgets what was under way. It is rung, for a lane with so many rows. */
void parked_reader_reset(struct parked_reader *reader, uint64_t n_rows);

/* A row is due then. */
void parked_reader_note_due(struct parked_reader *reader, int64_t due_ms);

/* The lane has a row more or a row less. */
void parked_reader_note_row(struct parked_reader *reader);
void parked_reader_note_row_gone(struct parked_reader *reader);

/* Nothing is under way, and there is a reason to look. */
bool parked_reader_may_ask(
    const struct parked_reader *reader, const struct key_order *order, int64_t now_ms);

/* The request is borrowed until parked_reader_note_answer(). `room`: so many rows may come, at
 * least 1. */
void parked_reader_ask(struct parked_reader *reader, struct key_order *order, uint32_t room,
    uint64_t max_bytes, struct parked_request *out_request);

/* The answer has come. */
void parked_reader_note_answer(
    struct parked_reader *reader, const struct parked_batch *parked, int64_t now_ms);

/* Its deliveries hold the batch that is returned; each is to be claimed or left. */
struct batch *parked_reader_add(struct parked_reader *reader, struct parked_batch *parked);

/* The row stays where it is. At least one delivery of the batch is claimed before. */
void parked_reader_leave(struct delivery *delivery);

/* What the answer says about the keys that were asked for, once its rows are in their chains. */
void parked_reader_note_fetched(
    struct parked_reader *reader, struct key_order *order, const struct parked_batch *parked);

void parked_reader_claim(struct parked_reader *reader, struct delivery *delivery);
void parked_reader_unclaim(struct parked_reader *reader, struct delivery *delivery);

/* A delivery of one of its batches needs the batch no more. It may be gone when this returns. */
void parked_reader_let_go(struct parked_reader *reader, struct delivery *delivery);
