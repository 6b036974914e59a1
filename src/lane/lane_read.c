/*
 * What a lane reads: how much of its window may be filled, with pages of the
 * stream and with parked rows; and what it does with each delivery that comes
 * in: queue it, park it behind its key or until its time, or give it up.
 */
#include "lane/consistency.h"
#include "lane/lane_internal.h"

#include <assert.h>
#include <stdio.h>

#define SMALL_PAGE 64

static const char unjudged_words[] =
    "the filter could not be evaluated for this event (usually because it took too long)";

/* Events claimed and not known to be durably behind us: what a crash now would repeat at most. */
static uint64_t n_unsettled(const struct lane *lane)
{
        return lane->window.n_taken - lane->settler.n_settled +
               (lane->stream.seen != NULL ? lane->stream.seen->n_events : 0);
}

/* Of the payloads that came with the stream. */
static uint64_t n_bytes(const struct lane *lane)
{
        return lane->window.bytes + (lane->stream.seen != NULL ? lane->stream.seen->bytes : 0);
}

/* The part of the window that is kept for rows that were parked. */
static uint32_t parked_share(const struct lane *lane)
{
        return lane->policy.max_in_flight >= 8 ? lane->policy.max_in_flight / 4 : 1;
}

static bool is_any_parked(const struct lane *lane)
{
        const struct parked_reader *parked = &lane->parked;

        return parked->n_rows > 0 || parked->n_claimed > 0 || parked->due_ms >= 0;
}

static uint32_t stream_share(const struct lane *lane)
{
        return lane->policy.max_in_flight - (is_any_parked(lane) ? parked_share(lane) : 0);
}

/* A page that so many times fits the window. A small window is rather divided into two pages than
 * into pages of a few events. */
static uint32_t part_of_window(const struct lane *lane, uint32_t n_pages)
{
        uint64_t page_bytes = lane->policy.max_in_flight_bytes / 2;
        uint64_t by_bytes = page_bytes / (n_pages * (lane->stream.mean_event_bytes + 1));
        uint32_t half = (stream_share(lane) + 1) / 2;
        uint32_t by_count = (stream_share(lane) + 1) / n_pages;

        if (by_count < SMALL_PAGE)
                by_count = half < SMALL_PAGE ? half : SMALL_PAGE;
        if (by_bytes < 1)
                return 1;
        return by_bytes < by_count ? (uint32_t)by_bytes : by_count;
}

/* When so many of them are settled. */
static uint32_t room(const struct lane *lane, uint64_t n_settled)
{
        uint64_t n_stream = n_unsettled(lane) - n_settled;
        uint64_t n_all = n_stream + lane->parked.n_claimed;
        uint64_t by_share = n_stream < stream_share(lane) ? stream_share(lane) - n_stream : 0;
        uint64_t by_window =
            n_all < lane->policy.max_in_flight ? lane->policy.max_in_flight - n_all : 0;

        if (n_bytes(lane) > lane->policy.max_in_flight_bytes / 2)
                return 0;
        return (uint32_t)(by_share < by_window ? by_share : by_window);
}

/*
 * Events of the next page; 0: there is no room for one.
 *
 * Three pages fit the window: one is read, one is delivered, and one that was delivered is being
 * settled, so that none of these waits for another. A slow sink gives room for a whole page seldom;
 * a quarter of the window is worth a page already.
 */
static uint32_t page_of_room(const struct lane *lane, uint32_t n_events)
{
        uint32_t most = part_of_window(lane, 3);

        if (n_events > most)
                return most;
        return n_events >= part_of_window(lane, 4) ? n_events : 0;
}

static uint32_t page_events(const struct lane *lane)
{
        return page_of_room(lane, room(lane, 0));
}

static uint32_t parked_room(const struct lane *lane)
{
        uint32_t share = parked_share(lane);
        uint64_t n_all = n_unsettled(lane) + lane->stream.n_reading + lane->parked.n_claimed;
        uint64_t free_window =
            n_all < lane->policy.max_in_flight ? lane->policy.max_in_flight - n_all : 0;

        /* One answer may bring as much again. */
        if (lane->parked.n_claimed >= share ||
            lane->parked.bytes > lane->policy.max_in_flight_bytes / 4)
                return 0;
        share -= lane->parked.n_claimed;
        return share < free_window ? share : (uint32_t)free_window;
}

/* Or less than a page, and once it is settled there is room for a page, which there is not now. */
static bool is_page_delivered(const struct lane *lane)
{
        uint64_t n_delivered = lane->window.n_passed - lane->settler.n_settled;

        return n_delivered >= part_of_window(lane, 3) ||
               (page_events(lane) == 0 && page_of_room(lane, room(lane, n_delivered)) > 0);
}

bool lane_is_pressing(const struct lane *lane)
{
        return lane->is_draining || lane->settler.is_awaited || is_page_delivered(lane);
}

bool lane_wants_page(struct lane *lane, struct page_request *out_request)
{
        uint32_t n_events = page_events(lane);

        if (lane_is_idle(lane) || !stream_reader_may_ask(&lane->stream) || n_events == 0 ||
            lane->parked.n_rows >= lane->policy.max_parked)
                return false;
        stream_reader_ask(&lane->stream, n_events, out_request);
        out_request->max_event_bytes = lane->policy.max_in_flight_bytes / 2 / n_events;
        lane_assert_consistent(lane);
        return true;
}

void lane_see_page(struct lane *lane, const struct page *page)
{
        assert(lane->state == LANE_OWNED);
        stream_reader_see(&lane->stream, page);
        lane_assert_consistent(lane);
}

void lane_fail_page(struct lane *lane)
{
        assert(lane->state == LANE_OWNED);
        stream_reader_fail(&lane->stream);
        lane_assert_consistent(lane);
}

static bool is_too_large(const struct lane *lane, const struct delivery *delivery)
{
        return lane->policy.max_event_bytes != 0 &&
               delivery->event->payload_bytes > lane->policy.max_event_bytes;
}

static void give_up_too_large(struct lane *lane, struct delivery *delivery, int64_t now_ms)
{
        char words[128];

        snprintf(words, sizeof words,
            "the payload has %zu bytes, and the sink's max_event_bytes is %llu",
            delivery->event->payload_bytes, (unsigned long long)lane->policy.max_event_bytes);
        lane_decide_dead(lane, delivery, DEAD_TOO_LARGE, words, now_ms);
}

static bool is_marked(const bool *marks, size_t i)
{
        return marks != NULL && marks[i];
}

static void admit_from_stream(
    struct lane *lane, struct delivery *delivery, const struct page *page, size_t i, int64_t now_ms)
{
        bool is_unjudged = is_marked(page->is_unjudged, i);

        if (lane->is_draining)
                return; /* the next relay delivers it */
        if (is_marked(page->is_delayed, i) && !is_unjudged) {
                lane_decide_delayed(lane, delivery, now_ms);
                return;
        }
        if (lane->policy.by_key)
                key_order_join(&lane->order, delivery);
        if (is_unjudged)
                lane_decide_dead(lane, delivery, DEAD_UNJUDGED, unjudged_words, now_ms);
        else if (is_too_large(lane, delivery))
                give_up_too_large(lane, delivery, now_ms);
        else if (key_order_has_joined_parked(delivery))
                lane_decide_parked(lane, delivery, now_ms, NULL, now_ms);
        else
                ready_queue_add_fresh(&lane->ready, delivery);
}

void lane_take_page(struct lane *lane, struct page *page, int64_t now_ms)
{
        struct batch *batch;

        if (lane->stream.seen == NULL)
                lane_see_page(lane, page);
        if (!stream_reader_take(&lane->stream, page)) {
                page->release(page);
                return;
        }
        batch = window_add(&lane->window, page);
        for (size_t i = 0, n = batch->n_deliveries; i < n; i++)
                admit_from_stream(lane, &batch->deliveries[i], page, i, now_ms);
        if (page->n_events == 0 && window_advance(&lane->window, &lane->settler))
                lane_settle_by(lane, now_ms + lane->policy.settle_idle_ms);
        lane_assert_consistent(lane);
}

bool lane_may_claim(const struct lane *lane)
{
        /* While the destination is down, rows may as well stay where they are. But if nothing else
         * is ready, one of them has to be the probe. */
        return !lane_is_idle(lane) && !lane->parked.is_reading && parked_room(lane) > 0 &&
               (lane->breaker.state == BREAKER_CLOSED ||
                   !ready_queue_is_any_unsuspected(&lane->ready));
}

bool lane_is_full(const struct lane *lane, int64_t now_ms)
{
        return (stream_reader_may_ask(&lane->stream) && page_events(lane) == 0) ||
               (parked_reader_may_ask(&lane->parked, &lane->order, now_ms) &&
                   parked_room(lane) == 0);
}

bool lane_wants_parked(struct lane *lane, int64_t now_ms, struct parked_request *out_request)
{
        if (!lane_may_claim(lane) || !parked_reader_may_ask(&lane->parked, &lane->order, now_ms))
                return false;
        parked_reader_ask(&lane->parked, &lane->order, parked_room(lane),
            lane->policy.max_in_flight_bytes / 8, out_request);
        lane_assert_consistent(lane);
        return true;
}

static void note_unstored(struct lane *lane, const struct parked_row *row)
{
        bool was_waiting = row->state == PARKED_RETRY;

        if (lane->policy.by_key || row->state == PARKED_BLOCKED)
                key_order_note_unstored(&lane->order, row->event.key, was_waiting);
        else if (was_waiting)
                key_order_note_due(&lane->order, row->event.key);
}

static void admit_parked(
    struct lane *lane, struct delivery *delivery, const struct parked_row *row, int64_t now_ms)
{
        bool is_stored = row->state != PARKED_DELAYED;

        if (!is_stored)
                parked_reader_note_row(&lane->parked); /* it counts from now on */
        parked_reader_claim(&lane->parked, delivery);
        if (lane->policy.by_key && is_stored)
                key_order_rejoin(&lane->order, delivery);
        else if (lane->policy.by_key)
                key_order_join(&lane->order, delivery);
        if (is_stored)
                note_unstored(lane, row);
        if (row->is_skipped)
                lane_decide_dead(lane, delivery, DEAD_SKIPPED, NULL, now_ms);
        else if (is_too_large(lane, delivery))
                give_up_too_large(lane, delivery, now_ms);
        else if (!is_stored && key_order_has_joined_parked(delivery))
                lane_decide_last(lane, delivery, now_ms);
        else
                ready_queue_add_parked(&lane->ready, delivery);
}

void lane_take_parked(struct lane *lane, struct parked_batch *parked, int64_t now_ms)
{
        struct parked_reader *reader = &lane->parked;
        struct batch *batch;
        uint32_t room;

        assert(lane->state == LANE_OWNED);
        parked_reader_note_answer(reader, parked, now_ms);
        room = lane->is_draining ? 0 : parked_room(lane);
        if (parked->n_rows > room)
                parked_reader_note_due(reader, now_ms); /* some rows stay where they are */
        if (parked->n_rows == 0 || room == 0) {
                parked_reader_note_fetched(reader, &lane->order, parked);
                parked->release(parked);
                return;
        }
        batch = parked_reader_add(reader, parked);
        for (size_t i = 0, n = batch->n_deliveries; i < n; i++) {
                if (i < room)
                        admit_parked(lane, &batch->deliveries[i], &parked->rows[i], now_ms);
                else
                        parked_reader_leave(&batch->deliveries[i]);
        }
        parked_reader_note_fetched(reader, &lane->order, parked);
        lane_assert_consistent(lane);
}
