/* Which delivery goes to the sink next, and what its outcome means: is it the event's fault, or the
 * destination's? */
#include "lane/consistency.h"
#include "lane/lane_internal.h"

static bool has_free_slot(const struct lane *lane)
{
        return lane->policy.max_concurrent == 0 || lane->n_in_flight < lane->policy.max_concurrent;
}

bool lane_may_start(const struct lane *lane)
{
        return !lane_is_idle(lane) && has_free_slot(lane) && ready_queue_is_any_ready(&lane->ready);
}

struct delivery *lane_start_next(struct lane *lane, int64_t now_ms)
{
        struct delivery *delivery;

        if (!lane_may_start(lane) || rate_due_ms(&lane->rate) > now_ms ||
            !breaker_admits(&lane->breaker, now_ms, lane->n_in_flight))
                return NULL;
        while ((delivery = ready_queue_take_next(&lane->ready)) != NULL) {
                if (!key_order_may_start(&lane->order, delivery)) {
                        key_order_block(delivery);
                        settler_note_blocked(&lane->settler, delivery);
                        continue;
                }
                delivery->state = DELIVERY_IN_FLIGHT;
                delivery->started_ms = now_ms;
                delivery->n_attempts++;
                if (!delivery->is_suspect)
                        delivery->n_answers_then = lane->n_answers;
                delivery->attempt.event = delivery->event;
                delivery->attempt.number = delivery->n_attempts;
                lane->n_in_flight++;
                rate_spend(&lane->rate, now_ms);
                key_order_note_started(&lane->order, delivery, &lane->ready);
                break;
        }
        lane_assert_consistent(lane);
        return delivery;
}

/* The destination works. */
static void note_up(struct lane *lane)
{
        breaker_note_up(&lane->breaker);
        if (lane->breaker.state == BREAKER_CLOSED)
                ready_queue_clear_suspicion(&lane->ready);
}

static bool is_behind_parked(const struct delivery *delivery)
{
        return key_order_is_behind_parking(delivery) || key_order_is_behind_stored(delivery);
}

/* Not the event's fault: it is as if the attempt had not been started. */
static void take_back(struct lane *lane, struct delivery *delivery, int64_t now_ms)
{
        delivery->n_attempts--;
        key_order_note_failed(delivery);
        delivery->state = DELIVERY_READY;
        if (delivery->verdict != NULL) {
                /* It was parked while it was under way: it comes back from its row. */
                delivery->state = DELIVERY_DECIDED;
        } else if (delivery->row != ROW_NONE && (lane->is_draining || is_behind_parked(delivery))) {
                lane_unload(lane, delivery, now_ms);
        } else if (is_behind_parked(delivery)) {
                lane_decide_parked(lane, delivery, now_ms, NULL, now_ms);
        } else if (!key_order_is_first(delivery)) {
                key_order_block(delivery);
        } else if (delivery->is_suspect) {
                ready_queue_add_suspect(&lane->ready, delivery);
        } else {
                ready_queue_resume(&lane->ready, delivery);
        }
}

static void note_down(
    struct lane *lane, const struct outcome *outcome, int64_t now_ms, uint32_t jitter)
{
        breaker_note_down(
            &lane->breaker, now_ms, outcome->delay_ms, outcome->needs_operator, jitter);
}

/*
 * A RETRY says something about the destination, not about the event, in two
 * cases: the destination did not answer, and has not answered others either; or
 * the sink counts as down already because event after event failed. Then
 * nothing is charged, until the same event fails once more after the
 * destination has answered others.
 *
 * A destination that read the event and refused it did say something about the
 * event. The attempt is charged, if only at the pace of the probes: otherwise
 * such events, once nothing else is left, would keep the sink down for ever.
 */
static bool is_an_outage(
    const struct lane *lane, const struct delivery *delivery, const struct outcome *outcome)
{
        bool answered_others = lane->n_answers > delivery->n_answers_then;

        if (lane->breaker.state == BREAKER_CLOSED)
                return outcome->is_unanswered && !answered_others;
        if (!outcome->is_unanswered && (!lane->breaker.is_suspicion || outcome->max_attempts > 0))
                return false;
        return !(delivery->is_suspect && answered_others);
}

/* The event is to come later: it is parked like one that failed, but nothing is charged. */
static struct lane_result postpone(
    struct lane *lane, struct delivery *delivery, const struct outcome *outcome, int64_t now_ms)
{
        delivery->n_attempts--;
        rate_give_back(&lane->rate);
        key_order_note_failed(delivery);
        lane_decide_parked(lane, delivery, now_ms + outcome->delay_ms, NULL, now_ms);
        return (struct lane_result){.decision = LANE_PARKED, .retry_ms = outcome->delay_ms};
}

static struct lane_result finish_retry(struct lane *lane, struct delivery *delivery,
    const struct outcome *outcome, int64_t now_ms, uint32_t jitter)
{
        struct retry_decision decision;

        if (outcome->is_postponed)
                return postpone(lane, delivery, outcome, now_ms);
        if (is_an_outage(lane, delivery, outcome)) {
                delivery->is_suspect = true;
                delivery->n_answers_then = lane->n_answers;
                if (outcome->is_unanswered)
                        note_down(lane, outcome, now_ms, jitter);
                else
                        (void)breaker_note_failed(
                            &lane->breaker, delivery->event->id, now_ms, jitter);
                take_back(lane, delivery, now_ms);
                return (struct lane_result){.decision = LANE_AGAIN};
        }
        if (!outcome->is_unanswered) {
                (void)breaker_note_failed(&lane->breaker, delivery->event->id, now_ms, jitter);
                if (lane->breaker.state == BREAKER_CLOSED)
                        ready_queue_clear_suspicion(&lane->ready);
        }

        decision = retry_decide(
            &lane->policy.retry, outcome, delivery->n_attempts, delivery->retried_ms, jitter);
        key_order_note_failed(delivery);
        if (decision.gives_up) {
                lane_decide_dead(lane, delivery, decision.reason, outcome->reason, now_ms);
                return (struct lane_result){.decision = LANE_DEAD, .reason = decision.reason};
        }
        delivery->retried_ms += decision.delay_ms;
        lane_decide_parked(lane, delivery, now_ms + decision.delay_ms, outcome->reason, now_ms);
        return (struct lane_result){.decision = LANE_PARKED, .retry_ms = decision.delay_ms};
}

struct lane_result lane_judge(struct lane *lane, struct delivery *delivery,
    const struct outcome *outcome, int64_t now_ms, uint32_t jitter)
{
        switch (outcome->kind) {
        case OUTCOME_DELIVERED:
                lane->n_answers++;
                note_up(lane);
                lane_decide_delivered(lane, delivery, now_ms);
                return (struct lane_result){.decision = LANE_DELIVERED};
        case OUTCOME_REJECTED:
                lane->n_answers++;
                note_up(lane);
                lane_decide_dead(lane, delivery, DEAD_REJECTED, outcome->reason, now_ms);
                return (struct lane_result){.decision = LANE_DEAD, .reason = DEAD_REJECTED};
        case OUTCOME_RETRY:
                return finish_retry(lane, delivery, outcome, now_ms, jitter);
        case OUTCOME_SINK_DOWN:
                note_down(lane, outcome, now_ms, jitter);
                break;
        case OUTCOME_CANCELLED:
                break;
        }
        take_back(lane, delivery, now_ms);
        return (struct lane_result){.decision = LANE_AGAIN};
}
