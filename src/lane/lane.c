/* A lane as a whole: who owns it, when it rests. What it does is in lane_read.c, lane_deliver.c,
 * lane_decide.c and lane_settle.c, in the order in which an event passes them. */
#include "lane/lane.h"

#include "lane/lane_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void init_lists(struct lane *lane)
{
        list_init(&lane->parked);
        list_init(&lane->claimed);
        list_init(&lane->verdicts);
        list_init(&lane->settling);
        ready_queue_init(&lane->ready);
}

void lane_init(struct lane *lane, const struct lane_policy *policy)
{
        *lane = (struct lane){.policy = *policy, .mean_event_bytes = 1024, .parked_due_ms = -1};
        window_init(&lane->window);
        key_order_init(&lane->order, policy->sink_keeps_order);
        rate_init(&lane->rate, policy->rate_per_s, policy->rate_burst);
        init_lists(lane);
}

static void forget_everything(struct lane *lane)
{
        window_deinit(&lane->window);
        window_init(&lane->window);
        list_for_each (link, &lane->parked)
                batch_free(list_owner(link, struct batch, link));
        key_order_deinit(&lane->order);
        init_lists(lane);
        lane->n_claimed = 0;
        lane->parked_bytes = 0;
        cursor_deinit(&lane->next_page);
        frame_unref(lane->unfinished);
        lane->unfinished = NULL;
        lane->is_reading = false;
        lane->n_reading = 0;
        lane->seen = NULL;
        lane->is_drawing = false;
        lane->n_parked = 0;
        lane->is_reading_parked = false;
        lane->parked_due_ms = -1;
        lane->n_fetching = 0;
        lane->is_moved = false;
        lane->is_settle_awaited = false;
        lane->is_settling = false;
        lane->n_settling = 0;
        lane->n_settled = 0;
}

void lane_deinit(struct lane *lane)
{
        assert(lane->n_in_flight == 0);
        forget_everything(lane);
        free(lane->excluded);
}

void lane_set_policy(struct lane *lane, const struct lane_policy *policy)
{
        lane->policy = *policy;
        rate_init(&lane->rate, policy->rate_per_s, policy->rate_burst);
}

void lane_own(struct lane *lane, const struct cursor *cursor, const struct parked_keys *parked)
{
        assert(lane->state == LANE_UNOWNED);
        forget_everything(lane);
        lane->state = LANE_OWNED;
        cursor_assign(&lane->next_page, cursor);
        window_reset(&lane->window, cursor);
        lane->is_rung = true;

        lane->is_parked_rung = true;
        lane->n_parked = parked->n_rows;
        for (size_t i = 0; i < parked->n_keys; i++) {
                const struct parked_key *key = &parked->keys[i];
                /* Without order each row comes when it is due, but for those that were blocked while
                 * there still was one. */
                uint64_t n_rows = lane->policy.by_key ? key->n_rows : key->n_blocked;
                if (n_rows > 0)
                        key_order_note_stored(&lane->order, key->key, n_rows, key->is_waiting);
        }
}

void lane_leave(struct lane *lane)
{
        /* Attempts in flight borrow their events from their batches. */
        if (lane->n_in_flight > 0)
                return;
        forget_everything(lane);
        lane->state = LANE_UNOWNED;
}

void lane_lose(struct lane *lane)
{
        if (lane->state != LANE_OWNED)
                return;
        lane->state = LANE_LEAVING;
        lane_leave(lane);
}

void lane_ring(struct lane *lane)
{
        lane->is_rung = true;
}

void lane_ring_parked(struct lane *lane)
{
        lane->is_parked_rung = true;
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

static bool is_untouched(const struct delivery *delivery)
{
        return (delivery->state == DELIVERY_READY || delivery->state == DELIVERY_BLOCKED) &&
               delivery->verdict == NULL;
}

/* What was read back and not started stays where it is parked. */
static void unload_batch(struct lane *lane, struct batch *batch)
{
        for (size_t i = 0, n = batch->n_deliveries; i < n; i++) {
                bool is_last = batch->n_held == 1;
                if (batch->deliveries[i].batch == NULL || !is_untouched(&batch->deliveries[i]))
                        continue;
                lane_unload(lane, &batch->deliveries[i], 0);
                if (is_last)
                        return;
        }
}

void lane_drain(struct lane *lane)
{
        lane->is_draining = true;
        list_for_each (link, &lane->parked)
                unload_batch(lane, list_owner(link, struct batch, link));
}

bool lane_is_idle(const struct lane *lane)
{
        return lane->state != LANE_OWNED || lane->is_draining || lane->is_paused;
}

bool lane_is_at_rest(const struct lane *lane)
{
        if (lane->n_in_flight > 0)
                return false;
        if (lane->state != LANE_OWNED)
                return true;
        return !lane->is_drawing && !lane->is_moved && !lane->is_settling &&
               lane->unfinished == NULL && !window_is_held_up(&lane->window);
}

bool lane_is_caught_up(const struct lane *lane, int64_t now_ms)
{
        if (lane->state != LANE_OWNED || lane->is_reading || lane->is_reading_parked ||
            !lane_is_at_rest(lane))
                return false;
        if (lane->is_paused)
                return true;
        return !lane->is_rung && lane->next_page.until == NULL &&
               list_is_empty(&lane->window.batches) && list_is_empty(&lane->parked) &&
               !lane->is_parked_rung && !key_order_has_fetches(&lane->order) &&
               (lane->parked_due_ms < 0 || lane->parked_due_ms > now_ms);
}

static int64_t earlier(int64_t a_ms, int64_t b_ms)
{
        return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

/* When time alone lets something start. It takes both, the breaker and the rate; and neither's moment
 * matters while an attempt has to end first. */
static int64_t start_due(const struct lane *lane)
{
        int64_t due_ms = lane->breaker.state == BREAKER_OPEN ? lane->breaker.until_ms : -1;

        if (!lane_may_start(lane) || !breaker_has_room(&lane->breaker, lane->n_in_flight))
                return -1;
        if (!rate_has_token(&lane->rate) && rate_due_ms(&lane->rate) > due_ms)
                due_ms = rate_due_ms(&lane->rate);
        return due_ms;
}

int64_t lane_next_due_without_starts(const struct lane *lane)
{
        int64_t due_ms = -1;

        if (lane->state != LANE_OWNED)
                return -1;
        if (lane->is_moved && !lane->is_settling && cursor_is_complete(&lane->window.position))
                due_ms = lane->settle_due_ms;
        due_ms = earlier(due_ms, lane_slow_due(lane));
        if (lane_is_idle(lane))
                return due_ms;
        if (lane_may_claim(lane))
                due_ms = earlier(due_ms, lane->parked_due_ms);
        return due_ms;
}

int64_t lane_next_due(const struct lane *lane)
{
        return earlier(lane_next_due_without_starts(lane), start_due(lane));
}
