/* What a lane reads, and what it does with each delivery that comes in: let it stand in line, park
 * it behind its key or until its time, or give it up at once. */
#include "base/alloc.h"
#include "lane/lane_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_PAGE 64

static const char unjudged_words[] =
    "the filter could not be answered for this event (mostly: it took too long)";

/* Events claimed and not known to be durably behind us: what a crash now would repeat at most. */
static uint64_t n_unsettled(const struct lane *lane)
{
        return lane->window.n_taken - lane->n_settled +
               (lane->seen != NULL ? lane->seen->n_events : 0);
}

/* Of the payloads that came with the stream. */
static uint64_t n_bytes(const struct lane *lane)
{
        return lane->window.bytes + (lane->seen != NULL ? lane->seen->bytes : 0);
}

/* Of the window, what is kept for those that were parked. */
static uint32_t parked_share(const struct lane *lane)
{
        return lane->policy.max_in_flight >= 8 ? lane->policy.max_in_flight / 4 : 1;
}

static bool is_any_parked(const struct lane *lane)
{
        return lane->n_parked > 0 || lane->n_claimed > 0 || lane->parked_due_ms >= 0;
}

static uint32_t stream_share(const struct lane *lane)
{
        return lane->policy.max_in_flight - (is_any_parked(lane) ? parked_share(lane) : 0);
}

/* Four pages fit the window: one is read, one delivered, and what was delivered before them is being
 * settled, so that none of these waits for another. Of a small window rather two than pages of a few
 * events. */
static uint32_t page_events(const struct lane *lane)
{
        uint64_t page_bytes = lane->policy.max_in_flight_bytes / 2;
        uint64_t by_bytes = page_bytes / (4 * (lane->mean_event_bytes + 1));
        uint32_t half = (stream_share(lane) + 1) / 2;
        uint32_t by_count = half / 2;

        if (by_count < SMALL_PAGE)
                by_count = half < SMALL_PAGE ? half : SMALL_PAGE;
        if (by_bytes < 1)
                return 1;
        return by_bytes < by_count ? (uint32_t)by_bytes : by_count;
}

static bool has_room(const struct lane *lane, uint32_t n_events)
{
        return n_unsettled(lane) + n_events <= stream_share(lane) &&
               n_unsettled(lane) + lane->n_claimed + n_events <= lane->policy.max_in_flight &&
               n_bytes(lane) <= lane->policy.max_in_flight_bytes / 2;
}

static bool is_half_delivered(const struct lane *lane)
{
        return lane->window.n_passed - lane->n_settled >= (stream_share(lane) + 1) / 2;
}

bool lane_is_pressing(const struct lane *lane)
{
        return lane->is_draining || lane->is_settle_awaited || is_half_delivered(lane) ||
               !has_room(lane, page_events(lane));
}

bool lane_wants_page(struct lane *lane, struct page_request *out_request)
{
        uint32_t n_events = page_events(lane);

        if (lane_is_idle(lane) || lane->is_reading || lane->unfinished != NULL ||
            !has_room(lane, n_events) || lane->n_parked >= lane->policy.max_parked)
                return false;
        if (lane->next_page.until == NULL) {
                if (!lane->is_rung)
                        return false;
                lane->is_rung = false; /* whoever rings from here on is heard again */
        }
        lane->is_reading = true;
        lane->n_reading = n_events;
        out_request->start = lane->next_page;
        out_request->max_events = n_events;
        out_request->max_event_bytes = lane->policy.max_in_flight_bytes / 2 / n_events;
        return true;
}

/* An opened difference in which nobody drew an id and that let nothing through is not worth a
 * transaction id; but if its frame has one, the lane may as well go on from there. */
static bool is_nothing_new(const struct lane *lane, const struct page *page)
{
        return lane->next_page.until == NULL && page->start.until->xid == 0 &&
               page->n_events == 0 && page->start.until->floor == lane->next_page.from->floor;
}

static void move_reader(struct lane *lane, const struct page *page)
{
        struct cursor next = {
            .from = page->start.from, .until = page->start.until, .last_id = page->upto};

        if (page_ends_difference(page))
                next = (struct cursor){.from = page->start.until};
        if (page->start.until->xid == 0)
                lane->unfinished = frame_ref(page->start.until);
        cursor_assign(&lane->next_page, &next);
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
                return; /* it is left to the next relay */
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

void lane_see_page(struct lane *lane, const struct page *page)
{
        assert(lane->state == LANE_OWNED && lane->is_reading && lane->seen == NULL);
        lane->is_reading = false;
        lane->n_reading = 0;
        lane->seen = page;
        lane->is_seen_for_nothing = is_nothing_new(lane, page);
        if (!lane->is_seen_for_nothing)
                move_reader(lane, page);
}

void lane_fail_page(struct lane *lane)
{
        assert(lane->state == LANE_OWNED && lane->is_reading && lane->seen == NULL);
        lane->is_reading = false;
        lane->n_reading = 0;
        if (lane->next_page.until == NULL)
                lane->is_rung = true; /* what it was rung for has not been looked for */
}

void lane_take_page(struct lane *lane, struct page *page, int64_t now_ms)
{
        struct batch *batch;

        if (lane->seen == NULL)
                lane_see_page(lane, page);
        assert(lane->seen == page);
        lane->seen = NULL;
        if (lane->is_seen_for_nothing) {
                page->release(page);
                return;
        }
        if (page->n_events > 0)
                lane->mean_event_bytes =
                    (3 * lane->mean_event_bytes + page->bytes / page->n_events) / 4;

        batch = window_add(&lane->window, page);
        for (size_t i = 0, n = batch->n_deliveries; i < n; i++)
                admit_from_stream(lane, &batch->deliveries[i], page, i, now_ms);
        if (page->n_events == 0 && window_advance(&lane->window, NULL, NULL))
                lane_note_moved_idly(lane, now_ms);
}

/* How many more parked ones may come into memory. */
static uint32_t parked_room(const struct lane *lane)
{
        uint32_t share = parked_share(lane);
        uint64_t n_all = n_unsettled(lane) + lane->n_reading + lane->n_claimed;
        uint64_t free_window =
            n_all < lane->policy.max_in_flight ? lane->policy.max_in_flight - n_all : 0;

        /* One answer may bring as much again. */
        if (lane->n_claimed >= share || lane->parked_bytes > lane->policy.max_in_flight_bytes / 4)
                return 0;
        share -= lane->n_claimed;
        return share < free_window ? share : (uint32_t)free_window;
}

bool lane_may_claim(const struct lane *lane)
{
        /* While the destination is down they may as well stay where they are; but if nothing else
         * is at hand, one of them has to find out when it is back. */
        return !lane_is_idle(lane) && !lane->is_reading_parked && parked_room(lane) > 0 &&
               (lane->breaker.state == BREAKER_CLOSED || !ready_queue_is_any_ready(&lane->ready));
}

static size_t list_excluded(struct lane *lane)
{
        size_t n = 0;

        if (lane->n_claimed > lane->n_excluded_max) {
                lane->n_excluded_max = lane->n_claimed * 2;
                lane->excluded =
                    xrealloc(lane->excluded, lane->n_excluded_max * sizeof *lane->excluded);
        }
        list_for_each (link, &lane->claimed)
                lane->excluded[n++] = list_owner(link, struct delivery, claimed_link)->event->id;
        return n;
}

bool lane_wants_parked(struct lane *lane, int64_t now_ms, struct parked_request *out_request)
{
        bool is_due = lane->parked_due_ms >= 0 && lane->parked_due_ms <= now_ms;
        uint32_t room;
        size_t n_excluded;

        if (!lane_may_claim(lane) ||
            (!is_due && !lane->is_parked_rung && !key_order_has_fetches(&lane->order)))
                return false;
        room = parked_room(lane);
        n_excluded = list_excluded(lane);
        lane->n_fetching = key_order_take_fetches(
            &lane->order, lane->fetching, sizeof lane->fetching / sizeof lane->fetching[0]);
        lane->is_reading_parked = true;
        lane->is_parked_rung = false;
        lane->parked_due_ms = -1; /* the answer says */
        *out_request = (struct parked_request){.keys = lane->fetching,
            .n_keys = lane->n_fetching,
            .claimed = lane->excluded,
            .n_claimed = n_excluded,
            .max_rows = lane->n_fetching > 0 ? (room + 1) / 2 : room,
            .max_bytes = lane->policy.max_in_flight_bytes / 8};
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

static void note_fetched(struct lane *lane, const struct parked_batch *parked)
{
        for (size_t k = 0; k < lane->n_fetching; k++) {
                size_t n_rows = 0;
                for (size_t i = 0; i < parked->n_rows; i++) {
                        const char *key = parked->rows[i].event.key;
                        n_rows += key != NULL && strcmp(key, lane->fetching[k]) == 0;
                }
                /* A full answer leaves keys out, but never the first. */
                key_order_note_fetched(&lane->order, lane->fetching[k], n_rows, k == 0);
        }
        lane->n_fetching = 0;
}

void lane_take_parked(struct lane *lane, struct parked_batch *parked, int64_t now_ms)
{
        struct batch *batch;
        uint32_t room = lane->n_claimed + parked_room(lane);

        assert(lane->state == LANE_OWNED && lane->is_reading_parked);
        lane->is_reading_parked = false;
        if (parked->next_due_ms >= 0)
                lane_note_parked_due(lane, now_ms + parked->next_due_ms);
        if (parked->n_rows == 0 || lane->n_claimed >= room || lane->is_draining) {
                if (parked->n_rows > 0)
                        lane_note_parked_due(lane, now_ms);
                note_fetched(lane, parked);
                parked->release(parked);
                return;
        }
        batch = batch_of_parked(parked);
        batch->n_held = batch->n_deliveries;
        list_push_back(&lane->parked, &batch->link);
        lane->parked_bytes += batch->bytes;
        for (size_t i = 0, n = batch->n_deliveries; i < n; i++) {
                if (lane->n_claimed >= room) {
                        batch->deliveries[i].batch = NULL; /* it stays where it is */
                        batch->n_held--;
                        lane_note_parked_due(lane, now_ms);
                        continue;
                }
                if (parked->rows[i].state == PARKED_DELAYED)
                        lane->n_parked++;
                lane_note_claimed(lane, &batch->deliveries[i]);
                admit_parked(lane, &batch->deliveries[i], &parked->rows[i], now_ms);
        }
        note_fetched(lane, parked);
}

bool lane_wants_xid(struct lane *lane)
{
        if (lane->state != LANE_OWNED || lane->unfinished == NULL || lane->is_drawing)
                return false;
        lane->is_drawing = true;
        return true;
}

void lane_take_xid(struct lane *lane, uint64_t xid)
{
        assert(lane->is_drawing);
        lane->is_drawing = false;
        lane->unfinished->xid = xid;
        frame_unref(lane->unfinished);
        lane->unfinished = NULL;
}
