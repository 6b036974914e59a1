/*
 * Where a lane reads the stream: page after page of one difference after the
 * other. Pure.
 *
 *   IDLE -ask-> READING -seen, its frame has an xid-> IDLE
 *                       -seen, its frame has none->   NEEDS_XID -ask-> DRAWING -drawn-> IDLE
 *                       -failed->                     IDLE
 *
 * A page is seen when it has come: where it ends is known then, and the next
 * page may be asked for. It is taken when its events have been filtered. At
 * most one page is seen and not taken.
 */
#pragma once

#include "outbox/page.h"

#include <stdbool.h>
#include <stdint.h>

enum stream_state {
        STREAM_IDLE,
        STREAM_READING, /* a page is under way */
        STREAM_NEEDS_XID,
        STREAM_DRAWING, /* an xid is under way */
};

struct stream_reader {
        enum stream_state state;
        bool is_rung;              /* there may be something beyond what has been read */
        struct cursor next_page;   /* where it starts */
        struct frame *unfinished;  /* the frame that lacks its xid; NULL if IDLE or READING */
        uint32_t n_reading;        /* events that the page under way may bring */
        const struct page *seen;   /* and not yet taken; borrowed; or NULL */
        bool is_seen_for_nothing;  /* it is empty, and the reader stays where it was */
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

/* True once for each frame that lacks its xid: the caller draws it. */
bool stream_reader_ask_xid(struct stream_reader *reader);
void stream_reader_take_xid(struct stream_reader *reader, uint64_t xid);
