#include "simulator/destination.h"

#include "simulator/burst.h"
#include "simulator/checks.h"
#include "simulator/relay.h"

const struct outcome delivered = {.kind = OUTCOME_DELIVERED, .delay_ms = OUTCOME_NO_DELAY};
const struct outcome rejected = {
    .kind = OUTCOME_REJECTED, .delay_ms = OUTCOME_NO_DELAY, .reason = "no"};
const struct outcome cancelled = {
    .kind = OUTCOME_CANCELLED, .delay_ms = OUTCOME_NO_DELAY, .reason = "cancelled"};
const struct outcome unanswered = {.kind = OUTCOME_RETRY,
    .delay_ms = OUTCOME_NO_DELAY,
    .is_unanswered = true,
    .reason = "silence"};

void destination_send(struct world *world, int relay, struct delivery *delivery)
{
        struct sim_destination *destination = &world->destination;
        struct sim_attempt *attempt = NULL;

        for (size_t i = 0; i < MAX_ATTEMPTS && attempt == NULL; i++)
                if (destination->attempts[i].phase == ATTEMPT_FREE)
                        attempt = &destination->attempts[i];
        /* Of the attempts whose answer is not awaited, one does not arrive. */
        for (size_t i = 0; i < MAX_ATTEMPTS && attempt == NULL; i++)
                if (destination->attempts[i].delivery == NULL)
                        attempt = &destination->attempts[i];
        *attempt = (struct sim_attempt){.phase = ATTEMPT_SENT,
            .relay = relay,
            .life = world->relays[relay].n_lives,
            .delivery = delivery,
            .event = (size_t)delivery->event->id - 1,
            .sequence = ++destination->n_sent};
        if (!world->is_calm && dice_one_in(&world->dice, world->climate.slow))
                attempt->not_before_ms = world->now_ms + dice_between(&world->dice, 50, 4000);
        if (world->policy.sink_keeps_order)
                burst_note_sent(world, attempt);
}

void destination_abandon(struct world *world, int relay)
{
        for (size_t i = 0; i < MAX_ATTEMPTS; i++) {
                struct sim_attempt *attempt = &world->destination.attempts[i];
                if (attempt->phase == ATTEMPT_FREE || attempt->relay != relay ||
                    attempt->delivery == NULL)
                        continue;
                attempt->delivery = NULL;
                if (attempt->phase == ATTEMPT_DECIDED ||
                    (world->policy.sink_keeps_order && !attempt->is_in_burst))
                        attempt->phase = ATTEMPT_FREE;
        }
}

void destination_cancel(struct world *world, int relay)
{
        if (world->policy.sink_keeps_order) {
                burst_cancel(world, relay);
                return;
        }
        for (size_t i = 0; i < MAX_ATTEMPTS; i++)
                if (world->destination.attempts[i].relay == relay &&
                    world->destination.attempts[i].delivery != NULL)
                        world->destination.attempts[i].is_cancelled = true;
}

static bool may_go_on(const struct world *world, const struct sim_attempt *attempt)
{
        const struct sim_relay *relay = &world->relays[attempt->relay];

        if (attempt->phase == ATTEMPT_FREE)
                return false;
        if (attempt->delivery != NULL && relay->is_frozen &&
            (attempt->phase == ATTEMPT_DECIDED || !attempt->is_in_burst) &&
            (attempt->phase == ATTEMPT_DECIDED || world->policy.sink_keeps_order))
                return false;
        if (attempt->not_before_ms > world->now_ms && !attempt->is_cancelled)
                return false;
        return !world->policy.sink_keeps_order || burst_is_its_turn(world, attempt);
}

void destination_arrive(struct world *world, struct sim_attempt *attempt)
{
        struct sim_event *event = &world->database.events[attempt->event];

        say(world, "%s arrives%s", event_name(world, attempt->event),
            event->n_arrived > 0 ? " again" : "");
        checks_arrival(world, attempt);
        event->n_arrived++;
}

struct outcome destination_refusal(struct world *world)
{
        struct outcome outcome = {.kind = OUTCOME_SINK_DOWN,
            .delay_ms = OUTCOME_NO_DELAY,
            .concerns_all = !world->destination.is_reached,
            .reason = "down"};

        switch (world->destination.outage) {
        case OUTAGE_NONE:
        case OUTAGE_REFUSES:
                break;
        case OUTAGE_REFUSES_FOR_A_WHILE:
                outcome.delay_ms = dice_between(&world->dice, 0, 3000);
                break;
        case OUTAGE_CREDENTIALS:
                outcome.needs_operator = true;
                break;
        case OUTAGE_SILENT:
                return unanswered;
        }
        return outcome;
}

bool destination_would_fail(const struct world *world, const struct sim_event *event)
{
        return event->n_failures != 0 && (event->n_failures != ALWAYS || !world->is_lenient);
}

bool destination_fails(struct world *world, struct sim_event *event)
{
        if (!destination_would_fail(world, event))
                return false;
        if (event->n_failures != ALWAYS)
                event->n_failures--;
        return true;
}

static bool is_to_dead_target(const struct world *world, const struct sim_event *event)
{
        return event->target == world->climate.dead_target && !world->is_lenient;
}

bool destination_would_blame(const struct world *world, const struct sim_event *event)
{
        return is_to_dead_target(world, event) ||
               (event->n_blames != 0 && (event->n_blames != ALWAYS || !world->is_lenient));
}

bool destination_blames(struct world *world, struct sim_event *event)
{
        if (!destination_would_blame(world, event))
                return false;
        if (event->n_blames != ALWAYS && !is_to_dead_target(world, event))
                event->n_blames--;
        return true;
}

struct outcome destination_blame(struct world *world, const struct sim_event *event)
{
        struct dice *dice = &world->dice;
        enum blame blame =
            is_to_dead_target(world, event) && event->n_blames == 0 ? BLAME_OPERATOR : event->blame;

        if (blame == BLAME_SILENT)
                return unanswered;
        return (struct outcome){.kind = OUTCOME_SINK_DOWN,
            .delay_ms = dice_one_in(dice, 6) ? dice_between(dice, 0, 2000) : OUTCOME_NO_DELAY,
            .needs_operator = blame == BLAME_OPERATOR,
            .reason = "as if down"};
}

bool destination_rejects(struct sim_event *event)
{
        if (event->n_rejections == 0)
                return false;
        if (event->n_rejections != ALWAYS)
                event->n_rejections--;
        return true;
}

struct outcome destination_failure(struct world *world, const struct sim_event *event)
{
        struct dice *dice = &world->dice;

        return (struct outcome){.kind = OUTCOME_RETRY,
            .delay_ms = dice_one_in(dice, 4) ? dice_between(dice, 0, 2000) : OUTCOME_NO_DELAY,
            .max_attempts = event->soft_max,
            .reason = "not now"};
}

static struct outcome postponement(struct world *world)
{
        return (struct outcome){.kind = OUTCOME_RETRY,
            .delay_ms = dice_between(&world->dice, 1, 3000),
            .is_postponed = true,
            .reason = "later"};
}

static void decide(struct world *world, struct sim_attempt *attempt)
{
        struct sim_event *event = &world->database.events[attempt->event];
        struct dice *dice = &world->dice;

        attempt->phase = ATTEMPT_DECIDED;
        if (!world->is_calm && dice_one_in(dice, world->climate.postponed)) {
                attempt->outcome = postponement(world);
        } else if (world->destination.outage != OUTAGE_NONE) {
                attempt->outcome = destination_refusal(world);
        } else if (!world->is_calm && dice_one_in(dice, world->climate.noise)) {
                attempt->outcome = unanswered;
                if (dice_one_in(dice, 2))
                        destination_arrive(world, attempt);
        } else if (destination_blames(world, event)) {
                attempt->outcome = destination_blame(world, event);
        } else if (destination_rejects(event)) {
                attempt->outcome = rejected;
        } else if (destination_fails(world, event)) {
                attempt->outcome = destination_failure(world, event);
                if (!world->is_calm && dice_one_in(dice, 8))
                        destination_arrive(world, attempt);
        } else {
                attempt->outcome = delivered;
                destination_arrive(world, attempt);
        }
        say(world, "%s: %s", event_name(world, attempt->event), outcome_words(&attempt->outcome));
}

static void give_up(struct world *world, struct sim_attempt *attempt)
{
        struct sim_attempt ended = *attempt;

        ended.outcome = cancelled;
        /* What was sent was sent. */
        if (dice_one_in(&world->dice, 2))
                attempt->delivery = NULL;
        else
                attempt->phase = ATTEMPT_FREE;
        say(world, "%s is cancelled", event_name(world, ended.event));
        relay_finish(world, ended.relay, &ended);
}

static void go_on(struct world *world, struct sim_attempt *attempt)
{
        if (attempt->phase == ATTEMPT_DECIDED && world->policy.sink_keeps_order) {
                burst_tell(world, attempt);
        } else if (attempt->phase == ATTEMPT_DECIDED) {
                if (attempt->delivery != NULL)
                        relay_finish(world, attempt->relay, attempt);
                attempt->phase = ATTEMPT_FREE;
        } else if (world->policy.sink_keeps_order) {
                burst_decide(world, attempt);
        } else if (attempt->is_cancelled && attempt->delivery != NULL) {
                give_up(world, attempt);
        } else {
                decide(world, attempt);
                if (attempt->delivery == NULL)
                        attempt->phase = ATTEMPT_FREE;
        }
}

bool destination_step(struct world *world)
{
        struct sim_attempt *able[MAX_ATTEMPTS];
        uint32_t n_able = 0;

        for (size_t i = 0; i < MAX_ATTEMPTS; i++)
                if (may_go_on(world, &world->destination.attempts[i]))
                        able[n_able++] = &world->destination.attempts[i];
        if (n_able == 0)
                return false;
        go_on(world, able[dice_below(&world->dice, n_able)]);
        return true;
}

int64_t destination_next_due(const struct world *world)
{
        int64_t due_ms = -1;

        for (size_t i = 0; i < MAX_ATTEMPTS; i++) {
                const struct sim_attempt *attempt = &world->destination.attempts[i];
                if (attempt->phase != ATTEMPT_FREE && attempt->not_before_ms > world->now_ms &&
                    (due_ms < 0 || attempt->not_before_ms < due_ms))
                        due_ms = attempt->not_before_ms;
        }
        return due_ms;
}

void destination_change_weather(struct world *world)
{
        static const char *const names[] = {"is well again", "refuses", "refuses for a while",
            "refuses our credentials", "falls silent"};
        struct sim_destination *destination = &world->destination;

        if (destination->outage != OUTAGE_NONE)
                destination->outage = OUTAGE_NONE;
        else
                destination->outage = (enum outage)dice_between(&world->dice, 1, 4);
        destination->is_reached = dice_one_in(&world->dice, 2);
        say(world, "the destination %s", names[destination->outage]);
}
