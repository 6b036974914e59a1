/* What is started and how it ends: order, charges, breakers, pauses. */
#include "simulator/checks.h"
#include "simulator/database.h"
#include "simulator/relay.h"

#include <string.h>

static bool is_under_way(const struct world *world, const struct sim_shadow *shadow)
{
        return world->policy.sink_keeps_order && shadow->standing == STANDING_IN_FLIGHT;
}

static bool is_in_line(const struct sim_row *row)
{
        return row->exists && row->state != PARKED_DELAYED;
}

/* Does `other` stand before `event`, of the same key, as the relay could know? */
static bool stands_before(const struct world *world, int relay, size_t other, size_t event)
{
        const struct sim_database *database = &world->database;
        const struct sim_shadow *shadows = world->relays[relay].shadow;
        const struct sim_row *row = &database->now.rows[event];
        const struct sim_row *other_row = &database->now.rows[other];

        /* A delayed one went behind what was started before, though that gets its row later. */
        if (shadows[event].n_first != 0 && shadows[event].n_first <= shadows[other].n_placed)
                return false;
        if (is_in_line(other_row) && is_in_line(row))
                return other_row->position < row->position;
        /* One whose time had come before the other one was read has its place, if not in a row. */
        if (is_in_line(other_row))
                return !shadows[event].was_delayed || shadows[event].n_read > shadows[other].n_read;
        if (other_row->exists)
                return false;
        if (is_in_line(row))
                return false;
        if (!database->events[other].is_unplaced)
                return event_precedes(&database->events[other], &database->events[event]);
        /* Taken in when its time had come, before the other one was read. */
        return shadows[other].standing == STANDING_LOADED && shadows[other].was_delayed &&
               shadows[other].n_read < shadows[event].n_read &&
               shadows[event].standing == STANDING_READ;
}

/* It is given up, but the next owner of the lane could still deliver it. */
static bool is_dying(const struct world *world, int relay, size_t event)
{
        const struct sim_shadow *shadow = &world->relays[relay].shadow[event];

        return shadow->standing == STANDING_DONE && shadow->is_given_up &&
               !world->database.events[event].is_unplaced;
}

static void check_order(struct world *world, int relay, size_t event)
{
        const struct sim_database *database = &world->database;
        const struct sim_shadow *shadows = world->relays[relay].shadow;

        if (!world->policy.by_key || world->was_unordered || database->events[event].key < 0)
                return;
        for (size_t i = 0; i < database->n_events; i++) {
                if (i == event || database->events[i].key != database->events[event].key)
                        continue;
                must(world,
                    shadows[i].standing != STANDING_IN_FLIGHT || world->policy.sink_keeps_order,
                    "one event of a key is in flight", "%s starts while %s is in flight",
                    event_name(world, event), event_name(world, i));
                if (!relay_is_owner(world, relay) || !stands_before(world, relay, i, event) ||
                    is_under_way(world, &shadows[i]))
                        continue;
                must(world, !is_dying(world, relay, i), "later events of a key wait",
                    "%s starts before the dead letter of %s is written", event_name(world, event),
                    event_name(world, i));
                must(world,
                    shadows[i].standing == STANDING_DONE || shadows[i].standing == STANDING_BEHIND,
                    "later events of a key wait", "%s starts before %s is done",
                    event_name(world, event), event_name(world, i));
        }
}

static void check_load(struct world *world, int relay)
{
        const struct sim_relay *at = &world->relays[relay];
        uint32_t n_in_flight = 0;

        for (size_t i = 0; i < world->database.n_events; i++)
                n_in_flight += at->shadow[i].standing == STANDING_IN_FLIGHT;
        must(
            world, !at->lane.is_paused, "nothing starts while paused", "relay %d is paused", relay);
        must(world, !at->is_draining, "nothing starts while stopping", "relay %d stops", relay);
        must(world, world->policy.max_concurrent == 0 || n_in_flight < world->policy.max_concurrent,
            "concurrent attempts are bounded", "%u are in flight already", n_in_flight);
        must(world, at->lane.breaker.state != BREAKER_OPEN, "nothing starts while down",
            "the breaker of relay %d is open", relay);
        must(world, at->lane.breaker.state != BREAKER_HALF_OPEN || n_in_flight == 0,
            "a half-open breaker admits one probe", "%u are in flight already", n_in_flight);
        must(world, !at->is_down || n_in_flight == 0, "a half-open breaker admits one probe",
            "the destination was down, and %u are in flight already", n_in_flight);
        must(world, !at->is_down || world->now_ms >= at->down_until_ms, "nothing starts while down",
            "the destination asked for a longer pause");
}

/* In any interval, no more than a full bucket, what has flowed into it since, and what was given
 * back to it by those that were postponed. */
static void check_rate(struct world *world, int relay)
{
        const struct sim_relay *at = &world->relays[relay];
        const struct lane_policy *policy = &at->lane.policy;
        double burst = policy->rate_burst > 0 ? policy->rate_burst : policy->rate_per_s;

        if (policy->rate_per_s <= 0)
                return;
        for (size_t i = 0; i < at->n_starts; i++) {
                int64_t interval_ms = world->now_ms - at->starts[i].at_ms;
                size_t n = at->n_starts - i;
                double most = burst + policy->rate_per_s * (double)interval_ms / 1000;
                for (size_t k = 0; k < at->n_starts; k++)
                        most += at->starts[k].postponed_ms >= at->starts[i].at_ms;
                must(world, (double)n <= most + 1e-6, "the rate is kept",
                    "%zu attempts within %lld ms, at %g a second and a burst of %g", n,
                    (long long)interval_ms, policy->rate_per_s, burst);
        }
}

static void note_start(struct world *world, int relay, size_t event)
{
        struct sim_relay *at = &world->relays[relay];
        size_t n_max = sizeof at->starts / sizeof at->starts[0];

        if (at->n_starts == n_max)
                memmove(at->starts, at->starts + 1, --at->n_starts * sizeof at->starts[0]);
        at->starts[at->n_starts++] = (struct sim_start){.event = event, .at_ms = world->now_ms};
        check_rate(world, relay);
}

static void note_postponed(struct world *world, int relay, size_t event)
{
        struct sim_relay *at = &world->relays[relay];

        for (size_t i = at->n_starts; i-- > 0;)
                if (at->starts[i].event == event) {
                        at->starts[i].postponed_ms = world->now_ms;
                        return;
                }
}

void checks_start(struct world *world, int relay, const struct delivery *delivery)
{
        struct sim_relay *at = &world->relays[relay];
        size_t index = (size_t)delivery->event->id - 1;
        struct sim_shadow *shadow = &at->shadow[index];
        const struct sim_event *event = &world->database.events[index];

        must(world, at->lane.state == LANE_OWNED, "only owners start attempts", "relay %d", relay);
        must(world, shadow->standing == STANDING_READ || shadow->standing == STANDING_LOADED,
            "events are started once", "%s starts although it is %s", event_name(world, index),
            shadow->standing == STANDING_DONE        ? "done"
            : shadow->standing == STANDING_IN_FLIGHT ? "in flight"
            : shadow->standing == STANDING_ROW       ? "parked"
                                                     : "not read");
        must(world, event_is_committed(event), "rolled-back events stay out", "%s starts",
            event_name(world, index));
        must(world, !event->is_cancelled, "cancelled events stay out", "%s starts",
            event_name(world, index));
        must(world, !relay_is_owner(world, relay) || !database_is_done(world, index),
            "events are started once", "%s is done and settled, and starts again",
            event_name(world, index));
        must(world, shadow->is_due, "nothing starts before it is due", "%s starts too early",
            event_name(world, index));
        must(world, world->was_switched || world->now_ms >= shadow->not_before_ms,
            "nothing starts before it is due", "%s starts %lld ms too early",
            event_name(world, index), (long long)(shadow->not_before_ms - world->now_ms));
        must(world, delivery->attempt.number == shadow->n_charged + 1, "attempts are counted",
            "%s starts as attempt %u after %u that count", event_name(world, index),
            delivery->attempt.number, shadow->n_charged);
        must(world,
            world->policy.max_event_bytes == 0 || event->bytes <= world->policy.max_event_bytes,
            "events that are too large are not tried", "%s starts", event_name(world, index));
        must(world,
            !world->database.now.rows[index].is_skipped || shadow->standing != STANDING_LOADED ||
                shadow->is_due,
            "skipped is not tried", "%s starts", event_name(world, index));
        check_load(world, relay);
        check_order(world, relay, index);
        note_start(world, relay, index);

        shadow->standing = STANDING_IN_FLIGHT;
        shadow->n_started = ++at->n_started;
        if (shadow->n_first == 0)
                shadow->n_first = shadow->n_started;
}

/* It has blamed the destination before, or else its target has been blamed, and since then others
 * were answered. */
static bool others_work(const struct world *world, int relay, size_t event)
{
        const struct sim_relay *at = &world->relays[relay];
        uint64_t blamed = at->shadow[event].blamed;

        if (blamed == 0 && world->climate.has_targets)
                blamed = at->blamed[world->database.events[event].target];
        return blamed != 0 && at->n_answered > blamed;
}

void checks_before_finish(
    struct world *world, int relay, size_t event, struct finish_view *out_view)
{
        const struct lane *lane = &world->relays[relay].lane;

        *out_view = (struct finish_view){.was_owned = lane->state == LANE_OWNED,
            .breaker = lane->breaker.state,
            .was_suspicion = lane->breaker.is_suspicion,
            .others_work = others_work(world, relay, event)};
}

static void check_decision(struct world *world, size_t event, const struct outcome *outcome,
    enum lane_decision decision, enum lane_decision expected)
{
        must(world, decision == expected, "outcomes are understood",
            "%s ended with %s, and the lane decided %d instead of %d", event_name(world, event),
            outcome_words(outcome), (int)decision, (int)expected);
}

static uint32_t most_attempts(const struct world *world, const struct outcome *outcome)
{
        const struct retry_policy *retry = &world->policy.retry;
        uint32_t most = retry->max_attempts;

        if (outcome->needs_operator && (most == 0 || most > 5))
                most = 5;
        if (outcome->max_attempts != 0 && (most == 0 || outcome->max_attempts < most))
                most = outcome->max_attempts;
        if (retry->delays_ms != NULL && (most == 0 || retry->n_delays + 1 < most))
                most = (uint32_t)retry->n_delays + 1;
        return most;
}

/* It was not its turn: nothing is charged, and it comes back when it was told to. */
static void check_postponed(struct world *world, int relay, size_t event,
    const struct outcome *outcome, const struct finish_view *view)
{
        struct sim_relay *at = &world->relays[relay];

        check_decision(world, event, outcome, view->result.decision, LANE_PARKED);
        must(world, view->result.retry_ms == outcome->delay_ms, "the peer's delay is kept",
            "%s was postponed for %lld ms and is tried after %lld", event_name(world, event),
            (long long)outcome->delay_ms, (long long)view->result.retry_ms);
        must(world, at->lane.breaker.state == view->breaker,
            "a postponed event leaves the breaker alone",
            "%s was postponed, and that changed the breaker", event_name(world, event));
        at->shadow[event].not_before_ms = world->now_ms + outcome->delay_ms;
        note_postponed(world, relay, event);
}

static bool is_blaming(const struct outcome *outcome)
{
        return outcome->kind == OUTCOME_SINK_DOWN || outcome->is_unanswered;
}

static void check_charge(struct world *world, int relay, size_t event,
    const struct outcome *outcome, const struct finish_view *view)
{
        const struct sim_relay *at = &world->relays[relay];
        bool others_work = view->others_work ||
                           (outcome->is_unanswered && at->n_answered > at->shadow[event].n_started);

        if (view->result.decision != LANE_AGAIN)
                must(world, !is_blaming(outcome) || (others_work && !outcome->concerns_all),
                    "an outage charges nothing",
                    "%s blames the destination, and is charged, though no others were answered",
                    event_name(world, event));
        else if (is_blaming(outcome))
                must(world,
                    outcome->concerns_all || !others_work || view->breaker != BREAKER_CLOSED,
                    "failures are charged",
                    "%s blames the destination, others are answered, and "
                    "nothing is charged",
                    event_name(world, event));
        else
                must(world,
                    view->breaker != BREAKER_CLOSED && view->was_suspicion &&
                        outcome->max_attempts == 0,
                    "failures are charged", "%s failed, and nothing is charged",
                    event_name(world, event));
}

/* A RETRY or a SINK_DOWN: is it charged, and what follows? */
static void check_failure(struct world *world, int relay, size_t event,
    const struct outcome *outcome, const struct finish_view *view)
{
        struct sim_relay *at = &world->relays[relay];
        struct sim_shadow *shadow = &at->shadow[event];
        const struct lane_result *result = &view->result;
        uint32_t most = most_attempts(world, outcome);

        check_charge(world, relay, event, outcome, view);
        if (!outcome->concerns_all && (is_blaming(outcome) || result->decision == LANE_AGAIN)) {
                shadow->blamed = at->n_started;
                if (result->decision == LANE_AGAIN)
                        at->blamed[world->database.events[event].target] = at->n_started;
        }
        if (result->decision == LANE_AGAIN)
                return;
        at->was_blame_wrong |= is_blaming(outcome);
        shadow->n_charged++;
        must(world,
            world->policy.retry.max_attempts == 0 ||
                shadow->n_charged <= world->policy.retry.max_attempts,
            "attempts are bounded", "%s had %u", event_name(world, event), shadow->n_charged);
        if (most != 0 && shadow->n_charged >= most) {
                check_decision(world, event, outcome, result->decision, LANE_DEAD);
                must(world, result->reason == DEAD_ATTEMPTS, "outcomes are understood",
                    "%s had all its attempts, and died of something else",
                    event_name(world, event));
        } else if (result->decision == LANE_DEAD) {
                must(world, result->reason == DEAD_AGE && world->policy.retry.max_age_ms > 0,
                    "attempts are not cut short", "%s is given up after %u of %u attempts",
                    event_name(world, event), shadow->n_charged, most);
        } else {
                check_decision(world, event, outcome, result->decision, LANE_PARKED);
                must(world, result->retry_ms >= outcome->delay_ms && result->retry_ms > 0,
                    "the peer's delay is kept", "%s is tried after %lld ms",
                    event_name(world, event), (long long)result->retry_ms);
                shadow->retried_ms += result->retry_ms;
                shadow->not_before_ms = world->now_ms + result->retry_ms;
                must(world,
                    world->policy.retry.max_age_ms == 0 ||
                        shadow->retried_ms <= world->policy.retry.max_age_ms,
                    "age is bounded", "%s is parked although it is too old",
                    event_name(world, event));
        }
}

/* It was taken or refused for itself; or it failed by itself while the destination worked. */
static void note_answered(struct world *world, int relay, size_t event,
    const struct outcome *outcome, const struct finish_view *view)
{
        struct sim_relay *at = &world->relays[relay];
        struct sim_shadow *shadow = &at->shadow[event];
        bool is_taken = outcome->kind == OUTCOME_DELIVERED || outcome->kind == OUTCOME_REJECTED;
        bool is_charged = outcome->kind == OUTCOME_RETRY && !is_blaming(outcome) &&
                          !outcome->is_postponed && view->result.decision != LANE_AGAIN &&
                          at->lane.breaker.state == BREAKER_CLOSED;

        if (is_taken) {
                shadow->blamed = 0;
                at->blamed[world->database.events[event].target] = 0;
        }
        if ((is_taken || is_charged) && shadow->n_started > at->n_answered)
                at->n_answered = shadow->n_started;
}

static void note_end(struct world *world, int relay, size_t event, const struct outcome *outcome,
    const struct finish_view *view)
{
        struct sim_relay *at = &world->relays[relay];
        struct sim_shadow *shadow = &at->shadow[event];

        shadow->standing = STANDING_READ;
        if (outcome->kind == OUTCOME_DELIVERED || view->result.decision == LANE_DEAD)
                shadow->standing = STANDING_DONE;
        if (outcome->kind == OUTCOME_DELIVERED)
                world->database.events[event].was_acked = true;
        if (view->result.decision == LANE_DEAD) {
                shadow->is_given_up = true;
                shadow->blamed = 0; /* if it is redriven it begins anew */
        }
        if (outcome->kind == OUTCOME_SINK_DOWN && view->result.decision == LANE_AGAIN) {
                at->n_refused++;
                must(world,
                    at->lane.breaker.state == BREAKER_OPEN ||
                        (at->was_blame_wrong && at->n_refused < BREAKER_SUSPICION &&
                            !outcome->concerns_all && outcome->delay_ms < 0),
                    "a destination that is down is left in peace",
                    "the lane goes on after %s, as %u in a row", outcome_words(outcome),
                    at->n_refused);
                if (!at->is_down || world->now_ms + outcome->delay_ms > at->down_until_ms)
                        at->down_until_ms = world->now_ms + outcome->delay_ms;
                at->is_down |= at->lane.breaker.state == BREAKER_OPEN;
        } else if (outcome->kind != OUTCOME_CANCELLED && !is_blaming(outcome) &&
                   !outcome->is_postponed) {
                at->is_down = false;
                at->n_refused = 0;
        }
        note_answered(world, relay, event, outcome, view);
}

void checks_after_finish(struct world *world, int relay, size_t event,
    const struct outcome *outcome, const struct finish_view *view)
{
        enum lane_decision decision = view->result.decision;

        if (!view->was_owned) {
                check_decision(world, event, outcome, decision, LANE_FORGOTTEN);
                return;
        }
        switch (outcome->kind) {
        case OUTCOME_DELIVERED:
                check_decision(world, event, outcome, decision, LANE_DELIVERED);
                break;
        case OUTCOME_REJECTED:
                check_decision(world, event, outcome, decision, LANE_DEAD);
                break;
        case OUTCOME_CANCELLED:
                check_decision(world, event, outcome, decision, LANE_AGAIN);
                break;
        case OUTCOME_SINK_DOWN:
        case OUTCOME_RETRY:
                if (outcome->is_postponed)
                        check_postponed(world, relay, event, outcome, view);
                else
                        check_failure(world, relay, event, outcome, view);
                break;
        }
        say(world, "relay %d: %s ended with %s -> %s", relay, event_name(world, event),
            outcome_words(outcome),
            decision == LANE_DELIVERED ? "delivered"
            : decision == LANE_PARKED  ? "parked"
            : decision == LANE_DEAD    ? "dead"
                                       : "again");
        note_end(world, relay, event, outcome, view);
}

/* The order that the world sees: of first deliveries, in the order of commits. */
void checks_arrival(struct world *world, const struct sim_attempt *attempt)
{
        const struct sim_database *database = &world->database;
        const struct sim_event *event = &database->events[attempt->event];

        if (world->was_unordered || event->n_arrived > 0)
                return;
        for (size_t i = 0; i < database->n_events; i++) {
                const struct sim_event *earlier = &database->events[i];
                if (earlier->n_arrived > 0 || earlier->is_unplaced ||
                    database->now.dead[i].exists || !event_precedes(earlier, event))
                        continue;
                world_fail(world, "first deliveries are in order", "%s arrives before %s",
                    event_name(world, attempt->event), event_name(world, i));
        }
}
