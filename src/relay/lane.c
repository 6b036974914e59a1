#include "relay/lane.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

/* Progress is made durable soon, but not at every single event: one write for what a moment brings.
 * A window that fills up does not wait for that. */
#define SETTLE_DELAY_MS 20

/* Moving over events of other topics is worth a write only now and then. */
#define SETTLE_DELAY_IDLE_MS 1000

void lane_init(struct lane *lane, const struct lane_policy *policy)
{
        *lane = (struct lane){.policy = *policy, .mean_event_bytes = 1024};
        window_init(&lane->window);
        key_order_init(&lane->order, policy->sink_keeps_order);
        turns_init(&lane->turns);
}

static void forget_everything(struct lane *lane)
{
        window_deinit(&lane->window);
        window_init(&lane->window);
        key_order_deinit(&lane->order);
        turns_init(&lane->turns);
        cursor_deinit(&lane->next_page);
        frame_unref(lane->unfinished);
        lane->unfinished = NULL;
        lane->is_reading = false;
        lane->is_drawing = false;
        lane->is_moved = false;
        lane->is_settling = false;
        lane->n_settling = 0;
        lane->n_settled = 0;
}

void lane_deinit(struct lane *lane)
{
        assert(lane->n_in_flight == 0);
        forget_everything(lane);
}

void lane_own(struct lane *lane, const struct cursor *cursor)
{
        assert(lane->state == LANE_UNOWNED);
        forget_everything(lane);
        lane->state = LANE_OWNED;
        cursor_assign(&lane->next_page, cursor);
        window_reset(&lane->window, cursor);
        lane->is_rung = true;
}

void lane_lose(struct lane *lane)
{
        if (lane->state != LANE_OWNED)
                return;
        /* Attempts in flight borrow their events from the window. */
        lane->state = LANE_LEAVING;
        if (lane->n_in_flight == 0) {
                forget_everything(lane);
                lane->state = LANE_UNOWNED;
        }
}

void lane_ring(struct lane *lane)
{
        lane->is_rung = true;
}

void lane_drain(struct lane *lane)
{
        lane->is_draining = true;
}

bool lane_is_at_rest(const struct lane *lane)
{
        if (lane->state != LANE_OWNED)
                return lane->n_in_flight == 0;
        return lane->n_in_flight == 0 && !lane->is_reading && !lane->is_drawing &&
               !lane->is_moved && !lane->is_settling && lane->unfinished == NULL;
}

bool lane_is_caught_up(const struct lane *lane)
{
        return lane->state == LANE_OWNED && lane_is_at_rest(lane) && !lane->is_rung &&
               lane->next_page.until == NULL && list_is_empty(&lane->window.pages);
}

/* Events claimed and not known to be durably behind us: what a crash now would repeat at most. */
static uint64_t n_unsettled(const struct lane *lane)
{
        return lane->window.n_taken - lane->n_settled;
}

/* Two pages fit the window: one is read while the other is delivered. */
static uint32_t page_events(const struct lane *lane)
{
        uint64_t page_bytes = lane->policy.max_in_flight_bytes / 2;
        uint64_t by_bytes = page_bytes / (4 * (lane->mean_event_bytes + 1));
        uint32_t by_count = (lane->policy.max_in_flight + 1) / 2;

        if (by_bytes < 1)
                return 1;
        return by_bytes < by_count ? (uint32_t)by_bytes : by_count;
}

static bool has_room(const struct lane *lane, uint32_t n_events)
{
        return n_unsettled(lane) + n_events <= lane->policy.max_in_flight &&
               lane->window.bytes <= lane->policy.max_in_flight_bytes / 2;
}

bool lane_wants_page(struct lane *lane, struct page_request *out_request)
{
        uint32_t n_events = page_events(lane);

        if (lane->state != LANE_OWNED || lane->is_draining || lane->is_reading ||
            lane->unfinished != NULL || !has_room(lane, n_events))
                return false;
        if (lane->next_page.until == NULL) {
                if (!lane->is_rung)
                        return false;
                lane->is_rung = false; /* whoever rings from here on is heard again */
        }
        lane->is_reading = true;
        out_request->start = lane->next_page;
        out_request->max_events = n_events;
        out_request->max_event_bytes = lane->policy.max_in_flight_bytes / 2 / n_events;
        return true;
}

static void note_moved(struct lane *lane, int64_t now_ms, int64_t delay_ms)
{
        if (!lane->is_moved || now_ms + delay_ms < lane->settle_due_ms)
                lane->settle_due_ms = now_ms + delay_ms;
        lane->is_moved = true;
}

/* An opened difference in which nobody drew an id and that let nothing through. */
static bool is_nothing_new(const struct lane *lane, const struct page *page)
{
        return lane->next_page.until == NULL && page->n_events == 0 &&
               page->start.until->floor == lane->next_page.from->floor;
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

void lane_take_page(struct lane *lane, struct page *page, int64_t now_ms)
{
        struct window_page *slot;

        assert(lane->state == LANE_OWNED && lane->is_reading);
        lane->is_reading = false;
        if (is_nothing_new(lane, page)) {
                page->release(page);
                return;
        }
        if (page->n_events > 0)
                lane->mean_event_bytes =
                    (3 * lane->mean_event_bytes + page->bytes / page->n_events) / 4;
        move_reader(lane, page);

        slot = window_add(&lane->window, page);
        for (size_t i = 0; i < page->n_events; i++) {
                struct delivery *delivery = &slot->deliveries[i];
                if (lane->policy.by_key)
                        key_order_join(&lane->order, delivery);
                turns_add(&lane->turns, delivery);
        }
        if (page->n_events == 0 && window_advance(&lane->window))
                note_moved(lane, now_ms, SETTLE_DELAY_IDLE_MS);
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

static bool has_free_slot(const struct lane *lane)
{
        return lane->policy.max_concurrent == 0 || lane->n_in_flight < lane->policy.max_concurrent;
}

static bool may_start_any(struct lane *lane, int64_t now_ms)
{
        if (lane->state != LANE_OWNED || lane->is_draining || !has_free_slot(lane))
                return false;
        turns_take_due(&lane->turns, now_ms);
        return turns_is_any_ready(&lane->turns) &&
               breaker_admits(&lane->breaker, now_ms, lane->n_in_flight);
}

struct delivery *lane_start_next(struct lane *lane, int64_t now_ms)
{
        struct delivery *delivery;

        if (!may_start_any(lane, now_ms))
                return NULL;
        while ((delivery = turns_take_next(&lane->turns)) != NULL) {
                if (!key_order_may_start(&lane->order, delivery)) {
                        key_order_block(delivery);
                        continue;
                }
                delivery->state = DELIVERY_IN_FLIGHT;
                delivery->n_attempts++;
                delivery->attempt.event = delivery->event;
                delivery->attempt.number = delivery->n_attempts;
                lane->n_in_flight++;
                return delivery;
        }
        return NULL;
}

static void release_follower(void *owner, struct delivery *delivery)
{
        struct lane *lane = owner;

        turns_resume(&lane->turns, delivery);
}

static void finish_delivered(struct lane *lane, struct delivery *delivery, int64_t now_ms)
{
        delivery->state = DELIVERY_DONE;
        key_order_leave(&lane->order, delivery, release_follower, lane);
        if (window_advance(&lane->window))
                note_moved(lane, now_ms, SETTLE_DELAY_MS);
}

/* Not its fault: it is as if it had not been started. */
static void take_back(struct lane *lane, struct delivery *delivery)
{
        delivery->n_attempts--;
        key_order_note_failed(delivery);
        if (key_order_is_first(delivery))
                turns_resume(&lane->turns, delivery);
        else
                key_order_block(delivery);
}

static int64_t try_again_later(struct lane *lane, struct delivery *delivery,
    const struct outcome *outcome, int64_t now_ms, uint32_t jitter)
{
        int64_t delay_ms = backoff_ms(&lane->policy.retry, delivery->n_attempts, jitter);

        if (outcome->delay_ms > delay_ms)
                delay_ms = outcome->delay_ms;
        key_order_note_failed(delivery);
        if (!key_order_is_first(delivery)) {
                key_order_block(delivery);
                return 0;
        }
        turns_wait(&lane->turns, delivery, now_ms + delay_ms);
        return delay_ms;
}

int64_t lane_finish(struct lane *lane, struct delivery *delivery, const struct outcome *outcome,
    int64_t now_ms, uint32_t jitter)
{
        assert(delivery->state == DELIVERY_IN_FLIGHT && lane->n_in_flight > 0);
        lane->n_in_flight--;
        if (lane->state == LANE_LEAVING) {
                if (lane->n_in_flight == 0) {
                        forget_everything(lane);
                        lane->state = LANE_UNOWNED;
                }
                return 0;
        }

        switch (outcome->kind) {
        case OUTCOME_DELIVERED:
                breaker_note_up(&lane->breaker);
                finish_delivered(lane, delivery, now_ms);
                return 0;
        case OUTCOME_RETRY:
        case OUTCOME_REJECTED:
                breaker_note_up(&lane->breaker);
                return try_again_later(lane, delivery, outcome, now_ms, jitter);
        case OUTCOME_SINK_DOWN:
                breaker_note_down(&lane->breaker, now_ms, outcome->delay_ms, jitter);
                take_back(lane, delivery);
                return 0;
        case OUTCOME_CANCELLED:
                take_back(lane, delivery);
                return 0;
        }
        return 0;
}

bool lane_wants_settle(struct lane *lane, int64_t now_ms, struct cursor *out_cursor)
{
        bool is_pressing = lane->is_draining || !has_room(lane, page_events(lane));

        if (lane->state != LANE_OWNED || !lane->is_moved || lane->is_settling ||
            !cursor_is_complete(&lane->window.position) ||
            (!is_pressing && now_ms < lane->settle_due_ms))
                return false;
        lane->is_moved = false;
        lane->is_settling = true;
        lane->n_settling = lane->window.n_done;
        *out_cursor = lane->window.position;
        return true;
}

void lane_settled(struct lane *lane)
{
        assert(lane->is_settling);
        lane->is_settling = false;
        lane->n_settled = lane->n_settling;
}

static int64_t earlier(int64_t a_ms, int64_t b_ms)
{
        return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

int64_t lane_next_due(const struct lane *lane)
{
        int64_t due_ms = -1;

        if (lane->state != LANE_OWNED)
                return -1;
        if (lane->is_moved && !lane->is_settling && cursor_is_complete(&lane->window.position))
                due_ms = lane->settle_due_ms;
        if (lane->is_draining || !has_free_slot(lane))
                return due_ms;
        due_ms = earlier(due_ms, turns_next_due(&lane->turns));
        if (lane->breaker.state == BREAKER_OPEN && turns_is_any_ready(&lane->turns))
                due_ms = earlier(due_ms, lane->breaker.until_ms);
        return due_ms;
}
