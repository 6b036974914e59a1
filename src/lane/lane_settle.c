/* Making durable what was decided: the cursor and the verdicts that it has passed; and what changes
 * in memory once they are written. */
#include "lane/consistency.h"
#include "lane/lane_internal.h"

#include <assert.h>
#include <stdlib.h>

bool lane_wants_settle(struct lane *lane, int64_t now_ms, struct settlement *out_settlement)
{
        const struct settler *settler = &lane->settler;

        if (lane->state != LANE_OWNED)
                return false;
        lane_park_slow(lane, now_ms);
        if (lane->is_draining && lane->n_in_flight == 0)
                lane_park_holes(lane, now_ms);
        if (settler->due_ms < 0 || settler->is_writing ||
            (!lane_is_pressing(lane) && now_ms < settler_next_due(settler)))
                return false;
        settler_begin(
            &lane->settler, lane->window.n_passed, lane_next_step(lane, now_ms + settler->rest_ms));
        out_settlement->cursor = lane->window.position;
        out_settlement->verdicts = &settler->sent;
        out_settlement->now_ms = now_ms;
        lane_assert_consistent(lane);
        return true;
}

static void note_parked(struct lane *lane, const struct delivery *delivery, int64_t now_ms)
{
        const struct verdict *verdict = delivery->verdict;

        if (verdict->state == PARKED_DELAYED) {
                parked_reader_note_due(&lane->parked, now_ms); /* only the database knows when */
                return;
        }
        if (delivery->row == ROW_NONE)
                parked_reader_note_row(&lane->parked);
        if (verdict->state == PARKED_RETRY)
                parked_reader_note_due(&lane->parked, verdict->due_ms);
}

/* It was parked while under way, and that is written: it has a row. Its attempt goes on, or has
 * ended meanwhile. */
static void keep_parked(struct lane *lane, struct delivery *delivery, int64_t now_ms)
{
        const struct verdict *next = delivery->next_verdict;

        if (next == NULL || next->kind != VERDICT_PARK)
                key_order_note_kept(delivery);
        delivery->row = ROW_IN_LINE;
        parked_reader_note_row(&lane->parked);
        free(delivery->verdict);
        delivery->verdict = delivery->next_verdict;
        delivery->next_verdict = NULL;
        if (delivery->verdict != NULL) {
                settler_add(&lane->settler, delivery);
                lane_settle_by(lane, now_ms + lane->policy.settle_delay_ms);
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
                if (delivery->row != ROW_NONE)
                        parked_reader_note_row_gone(&lane->parked);
                break;
        }
        free(delivery->verdict);
        delivery->verdict = NULL;
        lane_let_go(lane, delivery);
}

void lane_settled(struct lane *lane, enum cursor_room room, int64_t now_ms)
{
        struct verdict *verdict;

        settler_end(&lane->settler, room, lane->policy.settle_idle_ms);
        while ((verdict = settler_take_sent(&lane->settler)) != NULL)
                apply_verdict(lane, verdict->delivery, now_ms);
        lane_assert_consistent(lane);
}
