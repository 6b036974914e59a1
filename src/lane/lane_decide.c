/*
 * What becomes of a delivery, as a verdict for the database: delivered, parked
 * or given up. The verdict on a delivery from the stream is written when the
 * cursor passes it, in the same transaction; the verdict on a row, with the
 * next settle. A delivery from the stream that is simply delivered needs none.
 */
#include "base/alloc.h"
#include "lane/lane_internal.h"

#include <assert.h>
#include <stdio.h>

int64_t lane_next_step(const struct lane *lane, int64_t at_ms)
{
        int64_t step_ms = lane->policy.settle_step_ms;

        return step_ms > 0 ? (at_ms + step_ms - 1) / step_ms * step_ms : at_ms;
}

void lane_settle_by(struct lane *lane, int64_t due_ms)
{
        settler_note_moved(&lane->settler, lane_next_step(lane, due_ms));
}

/* A window that fills up does not wait for that: lane_is_pressing(). */
static void settle_soon(struct lane *lane, int64_t now_ms)
{
        lane_settle_by(lane, now_ms + lane->policy.settle_delay_ms);
}

/* It came with the stream and is decided. */
static void advance(struct lane *lane, int64_t now_ms)
{
        window_note_decided(&lane->window);
        if (window_advance(&lane->window, &lane->settler))
                settle_soon(lane, now_ms);
}

void lane_let_go(struct lane *lane, struct delivery *delivery)
{
        parked_reader_unclaim(&lane->parked, delivery);
        if (delivery->batch->parked != NULL)
                parked_reader_let_go(&lane->parked, delivery);
        else
                window_let_go(&lane->window, delivery);
}

static struct verdict *make_verdict(
    struct delivery *delivery, enum verdict_kind kind, const char *words)
{
        struct verdict *verdict = xcalloc(1, sizeof *verdict);

        list_init(&verdict->link);
        verdict->event = delivery->event;
        verdict->delivery = delivery;
        verdict->kind = kind;
        verdict->is_parked = delivery_has_row(delivery);
        verdict->n_attempts = delivery->n_attempts;
        verdict->retried_ms = delivery->retried_ms;
        verdict->has_failed = words != NULL;
        snprintf(verdict->words, sizeof verdict->words, "%s", words != NULL ? words : "");
        return verdict;
}

static void give_verdict(
    struct lane *lane, struct delivery *delivery, struct verdict *verdict, int64_t now_ms)
{
        struct verdict *first = delivery->verdict; /* it was parked while it was under way */

        if (first != NULL && first->is_sent) {
                delivery->next_verdict = verdict;
                return;
        }
        if (first != NULL) {
                if (verdict->kind != VERDICT_PARK)
                        key_order_note_kept(delivery);
                settler_replace(&lane->settler, delivery, verdict);
                return;
        }
        if (verdict->kind == VERDICT_PARK)
                key_order_note_parking(delivery);
        delivery->verdict = verdict;
        if (delivery_is_behind_cursor(delivery)) {
                settler_add(&lane->settler, delivery);
                settle_soon(lane, now_ms);
        } else {
                advance(lane, now_ms);
        }
}

void lane_decide_delivered(struct lane *lane, struct delivery *delivery, int64_t now_ms)
{
        delivery->state = DELIVERY_DECIDED;
        key_order_leave(&lane->order, delivery, &lane->ready);
        if (delivery->verdict != NULL && !delivery_has_row(delivery)) {
                settler_withdraw(delivery); /* nothing is written yet, and nothing needs to be */
                lane_let_go(lane, delivery);
        } else if (delivery_is_behind_cursor(delivery)) {
                give_verdict(
                    lane, delivery, make_verdict(delivery, VERDICT_DELIVERED, NULL), now_ms);
        } else {
                advance(lane, now_ms);
        }
}

void lane_decide_dead(struct lane *lane, struct delivery *delivery, enum dead_reason reason,
    const char *words, int64_t now_ms)
{
        struct verdict *verdict = make_verdict(delivery, VERDICT_DEAD, words);

        verdict->reason = reason;
        delivery->state = DELIVERY_DECIDED;
        key_order_note_failed(delivery);
        give_verdict(lane, delivery, verdict, now_ms);
}

void lane_decide_delayed(struct lane *lane, struct delivery *delivery, int64_t now_ms)
{
        struct verdict *verdict = make_verdict(delivery, VERDICT_PARK, NULL);

        verdict->state = PARKED_DELAYED;
        delivery->state = DELIVERY_DECIDED;
        give_verdict(lane, delivery, verdict, now_ms);
}

void lane_decide_last(struct lane *lane, struct delivery *delivery, int64_t now_ms)
{
        struct verdict *verdict = make_verdict(delivery, VERDICT_PARK, NULL);

        verdict->state = PARKED_BLOCKED;
        verdict->goes_last = true;
        verdict->due_ms = now_ms;
        delivery->state = DELIVERY_DECIDED;
        give_verdict(lane, delivery, verdict, now_ms);
}

static void leave_line(struct delivery *delivery)
{
        if (delivery->state == DELIVERY_BLOCKED)
                key_order_unblock(delivery);
        else
                list_remove(&delivery->link);
        delivery->state = DELIVERY_DECIDED;
}

static void park_one(
    struct lane *lane, struct delivery *delivery, int64_t due_ms, const char *words, int64_t now_ms)
{
        struct verdict *verdict = make_verdict(delivery, VERDICT_PARK, words);

        verdict->state = PARKED_BLOCKED; /* until it is sent: settler.c */
        verdict->due_ms = due_ms;
        give_verdict(lane, delivery, verdict, now_ms);
}

/* Parks the deliveries of its key that stand behind it in memory and are not under way. */
static void park_followers(struct lane *lane, struct delivery *delivery, int64_t now_ms)
{
        struct key_chain *chain = delivery->chain;

        if (chain == NULL)
                return;
        for (struct list *link = delivery->chain_link.next, *next; link != &chain->deliveries;
             link = next) {
                struct delivery *follower = list_owner(link, struct delivery, chain_link);
                next = link->next;
                if (!delivery_is_waiting(follower))
                        continue;
                if (follower->row == ROW_NONE) {
                        leave_line(follower);
                        park_one(lane, follower, now_ms, NULL, now_ms);
                } else if (follower->row == ROW_DELAYED) {
                        leave_line(follower);
                        lane_decide_last(lane, follower, now_ms);
                } else {
                        lane_unload(lane, follower, now_ms);
                }
        }
}

void lane_decide_parked(
    struct lane *lane, struct delivery *delivery, int64_t due_ms, const char *words, int64_t now_ms)
{
        delivery->state = DELIVERY_DECIDED;
        park_one(lane, delivery, due_ms, words, now_ms);
        park_followers(lane, delivery, now_ms);
}

void lane_unload(struct lane *lane, struct delivery *delivery, int64_t now_ms)
{
        leave_line(delivery);
        if (delivery->chain == NULL || delivery->row == ROW_DELAYED)
                parked_reader_note_due(&lane->parked, now_ms);
        if (delivery->row == ROW_DELAYED) {
                /* Its row has no place behind its key yet. */
                parked_reader_note_row_gone(&lane->parked);
                key_order_leave(&lane->order, delivery, &lane->ready);
        } else {
                key_order_store(&lane->order, delivery, false, &lane->ready);
        }
        lane_let_go(lane, delivery);
}

/* The delivery in flight that the cursor waits for: the window's head or, if that is blocked, the
 * first of its key. */
static const struct delivery *holder(const struct lane *lane)
{
        const struct delivery *head = window_head(&lane->window);

        if (head != NULL && head->state == DELIVERY_BLOCKED)
                head = list_owner(head->chain->deliveries.next, struct delivery, chain_link);
        return head != NULL && head->state == DELIVERY_IN_FLIGHT ? head : NULL;
}

/* In an outage everything is slow, and nothing is parked. */
int64_t lane_slow_due(const struct lane *lane)
{
        const struct delivery *slow;

        if (lane->state != LANE_OWNED || lane->breaker.state != BREAKER_CLOSED ||
            !window_is_held_up(&lane->window))
                return -1;
        slow = holder(lane);
        return slow != NULL ? slow->started_ms + lane->policy.park_after_ms : -1;
}

static void park_head(struct lane *lane, int64_t now_ms)
{
        struct delivery *head = window_head(&lane->window);

        if (head->state == DELIVERY_IN_FLIGHT) {
                /* It stays under way. After a crash it is tried again, as if it had not been. */
                parked_reader_claim(&lane->parked, head);
                head->n_attempts--;
                park_one(lane, head, now_ms, NULL, now_ms);
                head->n_attempts++;
        } else {
                leave_line(head);
                park_one(lane, head, now_ms, NULL, now_ms);
        }
        park_followers(lane, head, now_ms);
}

void lane_park_slow(struct lane *lane, int64_t now_ms)
{
        int64_t due_ms;

        while ((due_ms = lane_slow_due(lane)) >= 0 && due_ms <= now_ms)
                park_head(lane, now_ms);
}

void lane_park_holes(struct lane *lane, int64_t now_ms)
{
        while (window_is_held_up(&lane->window)) {
                struct delivery *head = window_head(&lane->window);
                assert(delivery_is_waiting(head));
                leave_line(head);
                park_one(lane, head, now_ms, NULL, now_ms);
        }
}
