/*
 * Which delivery goes to the sink next, and what its outcome means: is it the event's fault, or the
 * destination's?
 *
 * One event proves nothing about the destination, whatever the answer to it says. So its first
 * answer that blames the destination makes it a suspect, with its target, and is not charged: the
 * breaker opens, and another event is tried before it, to another target if there is one. If that
 * is answered, the suspect is tried again, and is charged like any event that fails; if that blames
 * the destination, too, the destination is down.
 */
#include "lane/consistency.h"
#include "lane/lane_internal.h"

/* Another event is asked so soon; a suspect in the way of all others comes back so late; so long
 * does one event count against what the destination says of itself. */
enum { ASK_MS = 200, ASIDE_MS = 5000, WARY_MS = 600000 };

static bool has_free_slot(const struct lane *lane)
{
        return lane->policy.max_concurrent == 0 || lane->n_in_flight < lane->policy.max_concurrent;
}

bool lane_may_start(const struct lane *lane)
{
        return !lane_is_idle(lane) && has_free_slot(lane) && ready_queue_is_any_ready(&lane->ready);
}

/* The breaker is open because of one event, and one that is ready will show whose fault it is. */
static bool asks_another(const struct lane *lane)
{
        return lane->doubt.is_open && ready_queue_is_any_unsuspected(&lane->ready);
}

bool lane_is_down(const struct lane *lane)
{
        return lane->breaker.state != BREAKER_CLOSED && !asks_another(lane);
}

int64_t lane_probe_due(const struct lane *lane)
{
        if (lane->breaker.state != BREAKER_OPEN)
                return -1;
        return asks_another(lane) && lane->doubt.ask_ms < lane->breaker.until_ms
                   ? lane->doubt.ask_ms
                   : lane->breaker.until_ms;
}

static uint64_t event_key(const struct delivery *delivery)
{
        return (uint64_t)delivery->event->id;
}

/* 0: all events go to one target. */
static uint64_t target_key(const struct lane *lane, const struct delivery *delivery)
{
        const struct lane_policy *policy = &lane->policy;

        if (policy->hash_target == NULL)
                return 0;
        return policy->hash_target(policy->owner, delivery->event) | UINT64_C(1) << 63; /* no id */
}

/* It or its target has failed so after that attempt. */
static bool has_blamed(const struct lane *lane, const struct delivery *delivery, uint64_t since)
{
        return lane->suspects.n > 0 &&
               (suspects_since(&lane->suspects, event_key(delivery)) > since ||
                   suspects_since(&lane->suspects, target_key(lane, delivery)) > since);
}

/* It has, and since then no others were answered. In doubt, what has failed before is no witness at
 * all, be it before the lane was owned. */
static bool is_suspect(const struct lane *lane, const struct delivery *delivery)
{
        if (lane->breaker.state == BREAKER_CLOSED)
                return has_blamed(lane, delivery, lane->n_answered);
        return delivery->n_attempts > 0 || has_blamed(lane, delivery, 0);
}

/* It has, and since then others were. One that has failed itself is not charged for its target. */
static bool is_guilty(const struct lane *lane, const struct delivery *delivery)
{
        uint64_t since = suspects_since(&lane->suspects, event_key(delivery));

        if (since == 0)
                since = suspects_since(&lane->suspects, target_key(lane, delivery));
        return since != 0 && since <= lane->n_answered;
}

/* Blocks what stands behind its key, and puts suspects behind others. NULL: none is left. */
static struct delivery *sort_ready(struct lane *lane)
{
        struct delivery *next;

        /* Who shall tell whose fault it is had better not resemble those that failed. */
        lane->ready.takes_newest =
            lane->breaker.state != BREAKER_CLOSED && lane->doubt.n_blaming > 0;
        while ((next = ready_queue_next(&lane->ready)) != NULL) {
                bool may_start = key_order_may_start(&lane->order, next);
                if (may_start &&
                    !(ready_queue_is_any_unsuspected(&lane->ready) && is_suspect(lane, next)))
                        break;
                list_remove(&next->link);
                if (may_start) {
                        ready_queue_add_suspect(&lane->ready, next);
                } else {
                        key_order_block(next);
                        settler_note_blocked(&lane->settler, next);
                }
        }
        return next;
}

struct delivery *lane_start_next(struct lane *lane, int64_t now_ms)
{
        struct delivery *delivery;

        if (!lane_may_start(lane) || sort_ready(lane) == NULL || rate_due_ms(&lane->rate) > now_ms)
                return NULL;
        if (lane_probe_due(lane) <= now_ms)
                breaker_probe_now(&lane->breaker, now_ms);
        if (!breaker_admits(&lane->breaker, now_ms, lane->n_in_flight))
                return NULL;
        delivery = ready_queue_take_next(&lane->ready);
        delivery->state = DELIVERY_IN_FLIGHT;
        delivery->started_ms = now_ms;
        delivery->n_attempts++;
        delivery->n_started = ++lane->n_started;
        delivery->attempt.event = delivery->event;
        delivery->attempt.number = delivery->n_attempts;
        lane->n_in_flight++;
        rate_spend(&lane->rate, now_ms);
        key_order_note_started(&lane->order, delivery, &lane->ready);
        lane_assert_consistent(lane);
        return delivery;
}

/* The destination worked, as it has answered this attempt. */
static void note_answered(struct lane *lane, const struct delivery *delivery)
{
        if (delivery->n_started > lane->n_answered)
                lane->n_answered = delivery->n_started;
        if (lane->breaker.state == BREAKER_CLOSED) {
                lane->doubt.is_open = false;
                lane->doubt.n_blaming = 0;
                ready_queue_clear_suspicion(&lane->ready);
        }
}

/* It has taken or refused this event. */
static void note_up(struct lane *lane, const struct delivery *delivery)
{
        if (suspects_forget(&lane->suspects, event_key(delivery)))
                lane->doubt.wary_until_ms = 0; /* it was right */
        if (lane->suspects.n > 0)
                suspects_forget(&lane->suspects, target_key(lane, delivery));
        breaker_note_up(&lane->breaker);
        note_answered(lane, delivery);
}

static bool is_behind_parked(const struct delivery *delivery)
{
        return key_order_is_behind_parking(delivery) || key_order_is_behind_stored(delivery);
}

/* A suspect that fills the memory, or keeps the lane from what could be asked instead: it lets it
 * read no more, or holds up the cursor, behind which other events are to be parked. */
static bool is_in_the_way(const struct lane *lane, const struct delivery *delivery, int64_t now_ms)
{
        return delivery->event->payload_bytes > lane->policy.max_in_flight_bytes / 4 ||
               (!ready_queue_is_any_unsuspected(&lane->ready) &&
                   (window_is_held_up(&lane->window) || lane_is_full(lane, now_ms)));
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
        } else if (!is_suspect(lane, delivery)) {
                ready_queue_resume(&lane->ready, delivery);
        } else {
                (void)sort_ready(lane); /* others go before it */
                if (is_in_the_way(lane, delivery, now_ms))
                        lane_decide_parked(lane, delivery, now_ms + ASIDE_MS, NULL, now_ms);
                else
                        ready_queue_add_suspect(&lane->ready, delivery);
        }
}

/* The destination is down, or is said to be. */
static void note_down(struct lane *lane, const struct outcome *outcome, bool is_doubtful,
    int64_t now_ms, uint32_t jitter)
{
        struct doubt *doubt = &lane->doubt;
        enum breaker_state before = lane->breaker.state;
        int64_t ask_ms = now_ms + (outcome->delay_ms > ASK_MS ? outcome->delay_ms : ASK_MS);

        breaker_note_down(
            &lane->breaker, now_ms, outcome->delay_ms, outcome->needs_operator, jitter);
        doubt->is_open = is_doubtful && (doubt->is_open || before == BREAKER_CLOSED);
        if (before != BREAKER_OPEN || (outcome->delay_ms >= 0 && ask_ms > doubt->ask_ms))
                doubt->ask_ms = ask_ms;
}

static void note_suspect(struct lane *lane, const struct delivery *delivery)
{
        suspects_note(&lane->suspects, event_key(delivery), lane->n_started + 1);
        suspects_note(&lane->suspects, target_key(lane, delivery), lane->n_started + 1);
}

/* This event says so. One opens the breaker; a second one that is asked then is believed. But if
 * that was one event's fault lately, and not once true since, ten open it while others go on. */
static void note_blame(struct lane *lane, const struct delivery *delivery,
    const struct outcome *outcome, int64_t now_ms, uint32_t jitter)
{
        struct doubt *doubt = &lane->doubt;
        enum breaker_state before = lane->breaker.state;
        uint32_t n_opening = now_ms < doubt->wary_until_ms ? BREAKER_SUSPICION : 1;

        /* What was in flight when it opened is no witness, either. */
        if (doubt->n_blaming == 0 || (before != BREAKER_OPEN && !has_blamed(lane, delivery, 0) &&
                                         (before == BREAKER_CLOSED || delivery->n_attempts == 1)))
                doubt->n_blaming++;
        note_suspect(lane, delivery);
        if (before == BREAKER_CLOSED && doubt->n_blaming < n_opening && outcome->delay_ms < 0 &&
            sort_ready(lane) != NULL && ready_queue_is_any_unsuspected(&lane->ready))
                return;
        note_down(lane, outcome, doubt->n_blaming <= n_opening, now_ms, jitter);
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

/* The answer to this event, or that there was none, blames the destination. */
static bool is_blaming(const struct outcome *outcome)
{
        return outcome->kind == OUTCOME_SINK_DOWN || outcome->is_unanswered;
}

/*
 * Is the event to be charged? One that blames the destination, only while that works, as others
 * show that were answered since it or its target failed before; one without an answer also if
 * others that began later were answered. An event that was refused for itself is charged, if only
 * at the pace of the probes (otherwise such events, once nothing else is left, would keep the sink
 * down for ever); but not while the sink counts as down because event after event failed so.
 */
static bool is_charged(
    const struct lane *lane, const struct delivery *delivery, const struct outcome *outcome)
{
        bool others_work = is_guilty(lane, delivery) ||
                           (outcome->is_unanswered && lane->n_answered > delivery->n_started);

        if (is_blaming(outcome))
                return lane->breaker.state == BREAKER_CLOSED && others_work;
        return lane->breaker.state == BREAKER_CLOSED || !lane->breaker.is_suspicion ||
               outcome->max_attempts > 0 || others_work;
}

static struct lane_result charge(struct lane *lane, struct delivery *delivery,
    const struct outcome *outcome, int64_t now_ms, uint32_t jitter)
{
        struct retry_decision decision;

        if (is_blaming(outcome)) {
                suspects_note(&lane->suspects, event_key(delivery), lane->n_started + 1);
                lane->doubt.wary_until_ms = now_ms + WARY_MS;
        } else {
                (void)breaker_note_failed(&lane->breaker, delivery->event->id, now_ms, jitter);
                if (lane->breaker.state == BREAKER_CLOSED)
                        note_answered(lane, delivery);
        }

        decision = retry_decide(
            &lane->policy.retry, outcome, delivery->n_attempts, delivery->retried_ms, jitter);
        key_order_note_failed(delivery);
        if (decision.gives_up) {
                suspects_forget(&lane->suspects, event_key(delivery));
                lane_decide_dead(lane, delivery, decision.reason, outcome->reason, now_ms);
                return (struct lane_result){.decision = LANE_DEAD, .reason = decision.reason};
        }
        delivery->retried_ms += decision.delay_ms;
        lane_decide_parked(lane, delivery, now_ms + decision.delay_ms, outcome->reason, now_ms);
        return (struct lane_result){.decision = LANE_PARKED, .retry_ms = decision.delay_ms};
}

static struct lane_result finish_failed(struct lane *lane, struct delivery *delivery,
    const struct outcome *outcome, int64_t now_ms, uint32_t jitter)
{
        if (outcome->kind == OUTCOME_RETRY && outcome->is_postponed)
                return postpone(lane, delivery, outcome, now_ms);
        if (outcome->kind == OUTCOME_SINK_DOWN && outcome->concerns_all) {
                note_down(lane, outcome, false, now_ms, jitter);
        } else if (is_charged(lane, delivery, outcome)) {
                return charge(lane, delivery, outcome, now_ms, jitter);
        } else if (is_blaming(outcome)) {
                note_blame(lane, delivery, outcome, now_ms, jitter);
        } else {
                (void)breaker_note_failed(&lane->breaker, delivery->event->id, now_ms, jitter);
                note_suspect(lane, delivery);
        }
        take_back(lane, delivery, now_ms);
        return (struct lane_result){.decision = LANE_AGAIN};
}

struct lane_result lane_judge(struct lane *lane, struct delivery *delivery,
    const struct outcome *outcome, int64_t now_ms, uint32_t jitter)
{
        switch (outcome->kind) {
        case OUTCOME_DELIVERED:
                note_up(lane, delivery);
                lane_decide_delivered(lane, delivery, now_ms);
                return (struct lane_result){.decision = LANE_DELIVERED};
        case OUTCOME_REJECTED:
                note_up(lane, delivery);
                lane_decide_dead(lane, delivery, DEAD_REJECTED, outcome->reason, now_ms);
                return (struct lane_result){.decision = LANE_DEAD, .reason = DEAD_REJECTED};
        case OUTCOME_RETRY:
        case OUTCOME_SINK_DOWN:
                return finish_failed(lane, delivery, outcome, now_ms, jitter);
        case OUTCOME_CANCELLED:
                break;
        }
        take_back(lane, delivery, now_ms);
        return (struct lane_result){.decision = LANE_AGAIN};
}
