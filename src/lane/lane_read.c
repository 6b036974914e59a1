/* What a lane reads, and what it does with each delivery that comes in: queue it, park it behind
 * its key or until its time, or give it up at once. */
#include "lane/consistency.h"
#include "lane/lane_internal.h"

#include <assert.h>
#include <stdio.h>

static const char unjudged_words[] =
    "the filter could not be answered for this event (mostly: it took too long)";

bool lane_wants_page(struct lane *lane, struct page_request *out_request)
{
        uint32_t n_events = lane_page_events(lane);

        if (lane_is_idle(lane) || !stream_reader_may_ask(&lane->stream) ||
            !lane_has_room(lane, n_events) || lane->parked.n_rows >= lane->policy.max_parked)
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

bool lane_wants_xid(struct lane *lane)
{
        return lane->state == LANE_OWNED && stream_reader_ask_xid(&lane->stream);
}

void lane_take_xid(struct lane *lane, uint64_t xid)
{
        stream_reader_take_xid(&lane->stream, xid);
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
        return !lane_is_idle(lane) && !lane->parked.is_reading && lane_parked_room(lane) > 0 &&
               (lane->breaker.state == BREAKER_CLOSED || !ready_queue_is_any_ready(&lane->ready));
}

bool lane_wants_parked(struct lane *lane, int64_t now_ms, struct parked_request *out_request)
{
        if (!lane_may_claim(lane) || !parked_reader_may_ask(&lane->parked, &lane->order, now_ms))
                return false;
        parked_reader_ask(&lane->parked, &lane->order, lane_parked_room(lane),
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
        room = lane->is_draining ? 0 : lane_parked_room(lane);
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
