/* Making durable what was decided: the cursor and the verdicts it passes, at most one write at a
 * time; and what changes in memory once it is written. */
#include "lane/lane_internal.h"

#include <assert.h>
#include <stdlib.h>

static void settle_by(struct lane *lane, int64_t due_ms)
{
        int64_t step_ms = lane->policy.settle_step_ms;

        if (step_ms > 0)
                due_ms = (due_ms + step_ms - 1) / step_ms * step_ms;
        if (!lane->is_moved || due_ms < lane->settle_due_ms)
                lane->settle_due_ms = due_ms;
        lane->is_moved = true;
}

/* A window that fills up does not wait for that. */
void lane_note_moved(struct lane *lane, int64_t now_ms)
{
        settle_by(lane, now_ms + lane->policy.settle_delay_ms);
}

void lane_note_moved_idly(struct lane *lane, int64_t now_ms)
{
        settle_by(lane, now_ms + lane->policy.settle_idle_ms);
}

void lane_note_parked_due(struct lane *lane, int64_t due_ms)
{
        if (lane->parked_due_ms < 0 || due_ms < lane->parked_due_ms)
                lane->parked_due_ms = due_ms;
}

void lane_note_claimed(struct lane *lane, struct delivery *delivery)
{
        list_push_back(&lane->claimed, &delivery->claimed_link);
        lane->n_claimed++;
}

void lane_let_go(struct lane *lane, struct delivery *delivery)
{
        struct batch *batch = delivery->batch;

        if (!list_is_empty(&delivery->claimed_link)) {
                list_remove(&delivery->claimed_link);
                lane->n_claimed--;
        }
        if (batch->parked == NULL) {
                window_let_go(&lane->window, delivery);
        } else if (--batch->n_held == 0) {
                list_remove(&batch->link);
                lane->parked_bytes -= batch->bytes;
                batch_free(batch);
        }
}

/* Which of its key's is to be tried first is known only now: one before it may have been delivered
 * since, or parked too. */
static void name_states(struct lane *lane)
{
        list_for_each (link, &lane->verdicts) {
                struct verdict *verdict = list_owner(link, struct verdict, link);
                struct delivery *delivery = verdict->delivery;
                if (verdict->kind != VERDICT_PARK || verdict->state == PARKED_DELAYED ||
                    verdict->goes_last)
                        continue;
                verdict->state =
                    key_order_is_parked_first(delivery) ? PARKED_RETRY : PARKED_BLOCKED;
                /* It has no place in line yet. */
                verdict->goes_last =
                    delivery->row == ROW_DELAYED && verdict->state == PARKED_BLOCKED;
        }
}

static void move_list(struct list *from, struct list *to)
{
        list_for_each (link, from) {
                list_remove(link);
                list_push_back(to, link);
        }
}

bool lane_wants_settle(struct lane *lane, int64_t now_ms, struct settlement *out_settlement)
{
        if (lane->state != LANE_OWNED)
                return false;
        lane_park_slow(lane, now_ms);
        if (lane->is_draining && lane->n_in_flight == 0)
                lane_park_holes(lane, now_ms);
        if (!lane->is_moved || lane->is_settling || !cursor_is_complete(&lane->window.position) ||
            (!lane_is_pressing(lane) && now_ms < lane->settle_due_ms))
                return false;
        lane->is_moved = false;
        lane->is_settle_awaited = false;
        lane->is_settling = true;
        lane->n_settling = lane->window.n_passed;

        name_states(lane);
        move_list(&lane->verdicts, &lane->settling);
        list_for_each (link, &lane->settling)
                list_owner(link, struct verdict, link)->is_sent = true;
        out_settlement->cursor = lane->window.position;
        out_settlement->verdicts = &lane->settling;
        out_settlement->now_ms = now_ms;
        return true;
}

static void note_parked(struct lane *lane, struct delivery *delivery, int64_t now_ms)
{
        const struct verdict *verdict = delivery->verdict;

        if (verdict->state == PARKED_DELAYED) {
                lane_note_parked_due(lane, now_ms); /* only the database knows when */
                return;
        }
        if (delivery->row == ROW_NONE)
                lane->n_parked++;
        if (verdict->state == PARKED_RETRY)
                lane_note_parked_due(lane, verdict->due_ms);
}

/* It has a row now, and its attempt goes on or has ended meanwhile. */
static void keep_parked(struct lane *lane, struct delivery *delivery, int64_t now_ms)
{
        const struct verdict *next = delivery->next_verdict;

        if (next == NULL || next->kind != VERDICT_PARK)
                key_order_note_kept(delivery);
        assert(delivery->row == ROW_NONE);
        delivery->row = ROW_IN_LINE;
        lane->n_parked++;
        free(delivery->verdict);
        delivery->verdict = delivery->next_verdict;
        delivery->next_verdict = NULL;
        if (delivery->verdict != NULL) {
                lane_queue_verdict(lane, delivery);
                lane_note_moved(lane, now_ms);
        }
}

static void apply_verdict(struct lane *lane, struct delivery *delivery, int64_t now_ms)
{
        const struct verdict *verdict = delivery->verdict;

        if (verdict->kind == VERDICT_PARK &&
            (delivery->state == DELIVERY_IN_FLIGHT || delivery->next_verdict != NULL)) {
                keep_parked(lane, delivery, now_ms);
                return;
        }
        switch (verdict->kind) {
        case VERDICT_PARK:
                note_parked(lane, delivery, now_ms);
                key_order_store(
                    &lane->order, delivery, verdict->state == PARKED_RETRY, &lane->ready);
                break;
        case VERDICT_DEAD:
                key_order_leave(&lane->order, delivery, &lane->ready);
                /* fall through */
        case VERDICT_DELIVERED:
                if (delivery->row != ROW_NONE && lane->n_parked > 0)
                        lane->n_parked--;
                break;
        }
        free(delivery->verdict);
        delivery->verdict = NULL;
        lane_let_go(lane, delivery);
}

void lane_settled(struct lane *lane, int64_t now_ms)
{
        assert(lane->is_settling);
        lane->is_settling = false;
        lane->n_settled = lane->n_settling;
        while (!list_is_empty(&lane->settling)) {
                struct verdict *verdict = list_owner(lane->settling.next, struct verdict, link);
                list_remove(&verdict->link);
                apply_verdict(lane, verdict->delivery, now_ms);
        }
}
