#include "support/lane_history.h"

#include <string.h>

static const struct outcome outcomes[] = {
    {.kind = OUTCOME_DELIVERED, .delay_ms = OUTCOME_NO_DELAY},
    {.kind = OUTCOME_RETRY, .delay_ms = OUTCOME_NO_DELAY},
    {.kind = OUTCOME_RETRY, .delay_ms = 300},
    {.kind = OUTCOME_REJECTED, .delay_ms = OUTCOME_NO_DELAY},
    {.kind = OUTCOME_SINK_DOWN, .delay_ms = OUTCOME_NO_DELAY},
    {.kind = OUTCOME_SINK_DOWN, .delay_ms = 500},
    {.kind = OUTCOME_CANCELLED, .delay_ms = OUTCOME_NO_DELAY},
};

/* splitmix64 (Steele, Lea, Flood 2014). */
uint32_t history_roll(struct history *history)
{
        uint64_t mixed = history->random += 0x9e3779b97f4a7c15u;

        mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
        return (uint32_t)((mixed ^ (mixed >> 31)) >> 32);
}

uint32_t history_roll_below(struct history *history, uint32_t limit)
{
        return history_roll(history) % limit;
}

bool history_one_in(struct history *history, uint32_t n)
{
        return history_roll_below(history, n) == 0;
}

void history_init(struct history *history, uint64_t seed)
{
        *history = (struct history){.seed = seed, .random = seed, .now_ms = 1000};
}

void history_start(struct history *history, const struct lane_policy *policy, int64_t scan_ids)
{
        fake_outbox_init(&history->outbox, scan_ids);
        lane_init(&history->lane, policy);
}

void history_deinit(struct history *history)
{
        lane_deinit(&history->lane);
        cursor_deinit(&history->settled);
        cursor_deinit(&history->settling);
        fake_outbox_deinit(&history->outbox);
}

static struct fate *fate_of(struct history *history, const struct delivery *delivery)
{
        return &history->fates[delivery->event->id - 1];
}

static bool have_same_key(const struct event *a, const struct event *b)
{
        return a->key != NULL && b->key != NULL && strcmp(a->key, b->key) == 0;
}

/* The lane begins anew where it durably stands. */
static void own(struct history *history)
{
        unsigned n_repeated = 0;

        for (size_t i = 0; i < history->outbox.n_events; i++) {
                struct fate *fate = &history->fates[i];
                bool is_behind =
                    fake_event_is_behind(&history->outbox.events[i], &history->outbox.durable);
                n_repeated += fate->is_delivered && !is_behind;
                *fate = (struct fate){.n_delivered = fate->n_delivered};
        }
        must(history, n_repeated <= history->lane.policy.max_in_flight);

        cursor_assign(&history->settled, &history->outbox.durable);
        lane_own(&history->lane, &history->outbox.durable);
}

static void forget_questions(struct history *history)
{
        /* A settle may have arrived although its answer did not. */
        if (history->is_settling && history_one_in(history, 2))
                fake_outbox_settle(&history->outbox, &history->settling);
        history->is_reading = history->is_drawing = history->is_settling = false;
        cursor_deinit(&history->settling);
}

void history_lose(struct history *history)
{
        forget_questions(history);
        lane_lose(&history->lane);
}

static void check_start(struct history *history, const struct delivery *delivery)
{
        const struct lane_policy *policy = &history->lane.policy;
        const struct fate *fate = fate_of(history, delivery);

        must(history, fate->is_claimed && !fate->is_in_flight && !fate->is_delivered);
        must(history, delivery->attempt.event == delivery->event);
        must(history, delivery->attempt.number == fate->n_failed + 1);
        must(history, history->now_ms >= fate->not_before_ms);
        must(history, policy->max_concurrent == 0 || history->n_in_flight < policy->max_concurrent);
        must(history, history->lane.breaker.state != BREAKER_OPEN);
        must(history, history->lane.breaker.state == BREAKER_CLOSED || history->n_in_flight == 0);
        for (size_t i = 0; i < history->n_in_flight && policy->by_key; i++)
                must(history, policy->sink_keeps_order ||
                                  !have_same_key(history->in_flight[i]->event, delivery->event));
}

static void check_settle(struct history *history, const struct cursor *cursor)
{
        must(history, cursor_is_complete(cursor));
        for (size_t i = 0; i < history->outbox.n_events; i++) {
                const struct fake_event *event = &history->outbox.events[i];
                must(history, !event->is_ours || history->fates[i].n_delivered > 0 ||
                                  !fake_event_is_behind(event, cursor));
        }
}

/* As the carrier does it. */
void history_pump(struct history *history)
{
        struct lane *lane = &history->lane;
        struct delivery *delivery;
        struct cursor cursor;
        int64_t due_ms;

        if (lane->state == LANE_UNOWNED)
                own(history);
        while ((delivery = lane_start_next(lane, history->now_ms)) != NULL) {
                check_start(history, delivery);
                fate_of(history, delivery)->is_in_flight = true;
                history->in_flight[history->n_in_flight++] = delivery;
        }
        if (lane_wants_xid(lane))
                history->is_drawing = true;
        if (lane_wants_page(lane, &history->request))
                history->is_reading = true;
        if (lane_wants_settle(lane, history->now_ms, &cursor)) {
                check_settle(history, &cursor);
                cursor_assign(&history->settling, &cursor);
                history->is_settling = true;
        }
        /* Otherwise the carrier's timer would come round at once, and again, with nothing to do. */
        due_ms = lane_next_due(lane);
        must(history, due_ms < 0 || due_ms > history->now_ms);
}

static void check_claimed(struct history *history)
{
        const struct lane_policy *policy = &history->lane.policy;
        size_t largest = 0;
        uint32_t n_unsettled = 0;

        for (size_t i = 0; i < history->outbox.n_events; i++) {
                const struct fake_event *event = &history->outbox.events[i];
                n_unsettled +=
                    history->fates[i].is_claimed && !fake_event_is_behind(event, &history->settled);
                if (history->fates[i].is_claimed && event->bytes > largest)
                        largest = event->bytes;
        }
        must(history, n_unsettled <= policy->max_in_flight);
        must(history, history->lane.window.bytes <= policy->max_in_flight_bytes ||
                          history->lane.window.bytes <= policy->max_in_flight_bytes / 2 + largest);
}

static void answer_page(struct history *history)
{
        struct page *page = fake_outbox_read(&history->outbox, &history->request);

        history->is_reading = false;
        for (size_t i = 0; i < page->n_events; i++) {
                struct fate *fate = &history->fates[page->events[i].id - 1];
                must(history, !fate->is_claimed);
                fate->is_claimed = true;
        }
        lane_take_page(&history->lane, page, history->now_ms);
        check_claimed(history);
}

static void answer_settle(struct history *history)
{
        history->is_settling = false;
        fake_outbox_settle(&history->outbox, &history->settling);
        cursor_assign(&history->settled, &history->settling);
        cursor_deinit(&history->settling);
        lane_settled(&history->lane);
}

void history_answer(struct history *history)
{
        if (history->is_reading && history_one_in(history, 2)) {
                answer_page(history);
        } else if (history->is_drawing) {
                history->is_drawing = false;
                lane_take_xid(&history->lane, ++history->xid);
        } else if (history->is_settling) {
                answer_settle(history);
        }
}

static void note_delivered(struct history *history, const struct delivery *delivery)
{
        const struct fake_event *event = &history->outbox.events[delivery->event->id - 1];
        struct fate *fate = fate_of(history, delivery);

        for (size_t i = 0; i < history->outbox.n_events; i++) {
                const struct fake_event *other = &history->outbox.events[i];
                bool is_earlier_of_key = event->key != NULL && other->key != NULL &&
                                         strcmp(event->key, other->key) == 0 &&
                                         other->id < event->id && other->is_ours;
                must(history, !history->lane.policy.by_key || fate->n_delivered > 0 ||
                                  !is_earlier_of_key || other->n_commit == FAKE_NEVER ||
                                  history->fates[i].n_delivered > 0);
        }
        fate->n_delivered++;
        fate->is_delivered = true;
}

static void finish(struct history *history, size_t index, const struct outcome *outcome)
{
        struct delivery *delivery = history->in_flight[index];
        struct fate *fate = fate_of(history, delivery);
        bool is_owned = history->lane.state == LANE_OWNED;
        bool counts = outcome->kind == OUTCOME_RETRY || outcome->kind == OUTCOME_REJECTED;
        int64_t delay_ms;

        history->n_in_flight--;
        memmove(&history->in_flight[index], &history->in_flight[index + 1],
            (history->n_in_flight - index) * sizeof history->in_flight[0]);
        fate->is_in_flight = false;
        if (outcome->kind == OUTCOME_DELIVERED)
                note_delivered(history, delivery);

        delay_ms =
            lane_finish(&history->lane, delivery, outcome, history->now_ms, history_roll(history));

        if (!is_owned)
                return;
        if (counts)
                fate->n_failed++;
        must(history,
            !counts || history->lane.policy.sink_keeps_order || delay_ms >= outcome->delay_ms);
        fate->not_before_ms = history->now_ms + delay_ms;
}

/* Any attempt ends in any way; but a sink that keeps order delivers nothing of a key past an
 * attempt that it has not delivered: all behind it fail with it. */
void history_finish_any(struct history *history)
{
        size_t index = history_roll_below(history, (uint32_t)history->n_in_flight);
        const struct outcome *outcome =
            &outcomes[history->is_calm || !history_one_in(history, 3)
                          ? 0
                          : history_roll_below(history, sizeof outcomes / sizeof outcomes[0])];
        const char *key = history->in_flight[index]->event->key;

        if (!history->lane.policy.sink_keeps_order || key == NULL) {
                finish(history, index, outcome);
                return;
        }
        for (size_t i = 0; i < index; i++)
                if (have_same_key(history->in_flight[i]->event, history->in_flight[index]->event))
                        index = i;
        if (outcome->kind != OUTCOME_DELIVERED) {
                const struct event first = *history->in_flight[index]->event;
                for (size_t i = history->n_in_flight - 1; i > index; i--)
                        if (have_same_key(history->in_flight[i]->event, &first))
                                finish(history, i, outcome);
        }
        finish(history, index, outcome);
}

/* What is in flight is delivered; then the relay ends, and another begins. */
void history_restart(struct history *history)
{
        const struct lane_policy policy = history->lane.policy;

        lane_drain(&history->lane);
        for (int i = 0; i < 1000 && !lane_is_at_rest(&history->lane); i++) {
                history_answer(history);
                if (history->n_in_flight > 0)
                        history_finish_any(history);
                if (history->lane.state != LANE_UNOWNED)
                        history_pump(history);
        }
        must(history, lane_is_at_rest(&history->lane));
        must(history, history->n_in_flight == 0);

        forget_questions(history);
        lane_deinit(&history->lane);
        lane_init(&history->lane, &policy);
        own(history);
}
