/*
 * A lane as a whole: who owns it, when it rests, and when time alone gives it
 * something to do. An event passes lane_read.c, lane_deliver.c, lane_decide.c
 * and lane_settle.c, in this order.
 */
#include "lane/lane.h"

#include "lane/consistency.h"
#include "lane/lane_internal.h"

#include <assert.h>

static const struct cursor nowhere;

void lane_init(struct lane *lane, const struct lane_policy *policy)
{
        *lane = (struct lane){.policy = *policy};
        stream_reader_init(&lane->stream);
        window_init(&lane->window);
        parked_reader_init(&lane->parked);
        key_order_init(&lane->order, policy->sink_keeps_order);
        ready_queue_init(&lane->ready);
        rate_init(&lane->rate, policy->rate_per_s, policy->rate_burst);
        settler_init(&lane->settler);
}

/* Forgets everything but what the destination is like. */
static void reset(struct lane *lane, const struct cursor *position, uint64_t n_rows)
{
        stream_reader_reset(&lane->stream, position);
        window_reset(&lane->window, position);
        parked_reader_reset(&lane->parked, n_rows);
        key_order_deinit(&lane->order);
        ready_queue_init(&lane->ready);
        suspects_forget_all(&lane->suspects);
        lane->doubt.n_blaming = 0; /* the next one may be the same */
        settler_init(&lane->settler);
}

void lane_deinit(struct lane *lane)
{
        assert(lane->n_in_flight == 0);
        reset(lane, &nowhere, 0);
        parked_reader_deinit(&lane->parked);
}

void lane_set_policy(struct lane *lane, const struct lane_policy *policy)
{
        bool is_rate_new = lane->policy.rate_per_s != policy->rate_per_s ||
                           lane->policy.rate_burst != policy->rate_burst;

        lane->policy = *policy;
        if (is_rate_new)
                rate_init(&lane->rate, policy->rate_per_s, policy->rate_burst);
}

void lane_own(struct lane *lane, const struct cursor *cursor, const struct parked_keys *parked)
{
        assert(lane->state == LANE_UNOWNED);
        reset(lane, cursor, parked->n_rows);
        lane->state = LANE_OWNED;
        lane->is_draining = false;
        for (size_t i = 0; i < parked->n_keys; i++) {
                const struct parked_key *key = &parked->keys[i];
                /* Without order each row comes when it is due, but for rows that were blocked while
                 * the lane still kept order. */
                uint64_t n_rows = lane->policy.by_key ? key->n_rows : key->n_blocked;
                if (n_rows > 0)
                        key_order_note_stored(&lane->order, key->key, n_rows, key->is_waiting);
        }
        lane_assert_consistent(lane);
}

static void leave(struct lane *lane)
{
        /* Attempts in flight borrow their events from their batches. */
        if (lane->n_in_flight > 0)
                return;
        reset(lane, &nowhere, 0);
        lane->state = LANE_UNOWNED;
}

void lane_lose(struct lane *lane)
{
        if (lane->state != LANE_OWNED)
                return;
        lane->state = LANE_LEAVING;
        leave(lane);
        lane_assert_consistent(lane);
}

void lane_ring(struct lane *lane)
{
        lane->stream.is_rung = true;
}

bool lane_has_backlog(const struct lane *lane)
{
        return lane->stream.next_page.until != NULL;
}

void lane_ring_parked(struct lane *lane)
{
        lane->parked.is_rung = true;
}

bool lane_note_parked_due(struct lane *lane, int64_t due_ms)
{
        bool is_news = lane->parked.due_ms < 0 || due_ms < lane->parked.due_ms;

        parked_reader_note_due(&lane->parked, due_ms);
        return is_news;
}

void lane_pause(struct lane *lane)
{
        lane->is_paused = true;
}

void lane_resume(struct lane *lane)
{
        lane->is_paused = false;
}

void lane_probe_now(struct lane *lane, int64_t now_ms)
{
        breaker_probe_now(&lane->breaker, now_ms);
}

struct lane_result lane_finish(struct lane *lane, struct delivery *delivery,
    const struct outcome *outcome, int64_t now_ms, uint32_t jitter)
{
        struct lane_result result = {.decision = LANE_FORGOTTEN};

        assert(delivery->state == DELIVERY_IN_FLIGHT && lane->n_in_flight > 0);
        delivery_assert_consistent(delivery);
        lane->n_in_flight--;
        if (lane->state == LANE_LEAVING)
                leave(lane);
        else
                result = lane_judge(lane, delivery, outcome, now_ms, jitter);
        lane_assert_consistent(lane);
        return result;
}

/* What was read back and not started stays where it is parked. */
static void unload_batch(struct lane *lane, struct batch *batch)
{
        for (size_t i = 0, n = batch->n_deliveries; i < n; i++) {
                bool is_last = batch->n_held == 1;
                if (batch->deliveries[i].batch == NULL ||
                    !delivery_is_waiting(&batch->deliveries[i]))
                        continue;
                lane_unload(lane, &batch->deliveries[i], 0);
                if (is_last)
                        return;
        }
}

void lane_drain(struct lane *lane)
{
        lane->is_draining = true;
        list_for_each (link, &lane->parked.batches)
                unload_batch(lane, list_owner(link, struct batch, link));
        lane_assert_consistent(lane);
}

bool lane_is_at_rest(const struct lane *lane)
{
        if (lane->n_in_flight > 0)
                return false;
        if (lane->state != LANE_OWNED)
                return true;
        return lane->settler.due_ms < 0 && !lane->settler.is_writing &&
               !window_is_held_up(&lane->window);
}

bool lane_is_asking(const struct lane *lane)
{
        return lane->stream.is_reading || lane->parked.is_reading || lane->settler.is_writing;
}

bool lane_is_caught_up(const struct lane *lane, bool waits_at_end, int64_t now_ms)
{
        if (lane->state != LANE_OWNED || (lane->stream.is_reading && !waits_at_end) ||
            lane->parked.is_reading || !lane_is_at_rest(lane))
                return false;
        if (lane->is_paused)
                return true;
        return !stream_reader_may_ask(&lane->stream) && list_is_empty(&lane->window.batches) &&
               list_is_empty(&lane->parked.batches) &&
               !parked_reader_may_ask(&lane->parked, &lane->order, now_ms);
}

static int64_t earlier(int64_t a_ms, int64_t b_ms)
{
        return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

/* When time alone lets a delivery start. Both the breaker and the rate must let it, and time does
 * not help while an attempt in flight has to end first. */
static int64_t start_due(const struct lane *lane)
{
        int64_t due_ms = lane_probe_due(lane);

        if (!lane_may_start(lane) || !breaker_has_room(&lane->breaker, lane->n_in_flight))
                return -1;
        if (!rate_has_token(&lane->rate) && rate_due_ms(&lane->rate) > due_ms)
                due_ms = rate_due_ms(&lane->rate);
        return due_ms;
}

bool lane_wants_start(const struct lane *lane, int64_t now_ms)
{
        return lane_may_start(lane) && breaker_has_room(&lane->breaker, lane->n_in_flight) &&
               start_due(lane) <= now_ms;
}

int64_t lane_next_due_without_starts(const struct lane *lane)
{
        int64_t due_ms = -1;

        if (lane->state != LANE_OWNED)
                return -1;
        if (!lane->settler.is_writing)
                due_ms = settler_next_due(&lane->settler);
        due_ms = earlier(due_ms, lane_slow_due(lane));
        if (lane_may_claim(lane))
                due_ms = earlier(due_ms, lane->parked.due_ms);
        return due_ms;
}

int64_t lane_next_due(const struct lane *lane)
{
        return earlier(lane_next_due_without_starts(lane), start_due(lane));
}
