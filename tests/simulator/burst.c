#include "simulator/burst.h"

#include "simulator/destination.h"
#include "simulator/relay.h"

static bool is_of_line(const struct sim_attempt *attempt, const struct sim_attempt *other)
{
        return other->phase != ATTEMPT_FREE && other->relay == attempt->relay &&
               other->life == attempt->life;
}

/* The first of the line behind this place that is not decided, or NULL. */
static struct sim_attempt *next_sent(
    struct world *world, const struct sim_attempt *of, uint32_t sequence)
{
        struct sim_attempt *next = NULL;

        for (size_t i = 0; i < MAX_ATTEMPTS; i++) {
                struct sim_attempt *at = &world->destination.attempts[i];
                if (is_of_line(of, at) && at->phase == ATTEMPT_SENT && at->sequence > sequence &&
                    (next == NULL || at->sequence < next->sequence))
                        next = at;
        }
        return next;
}

static void end(struct world *world, struct sim_attempt *attempt, const struct outcome *outcome)
{
        attempt->phase = attempt->delivery != NULL ? ATTEMPT_DECIDED : ATTEMPT_FREE;
        attempt->outcome = *outcome;
        say(world, "%s: %s", event_name(world, attempt->event), outcome_words(outcome));
}

static bool is_given_back(const struct sim_attempt *attempt)
{
        return attempt->phase == ATTEMPT_DECIDED && !attempt->is_in_burst;
}

void burst_note_sent(struct world *world, struct sim_attempt *attempt)
{
        for (size_t i = 0; i < MAX_ATTEMPTS; i++) {
                const struct sim_attempt *before = &world->destination.attempts[i];
                if (before == attempt || !is_of_line(attempt, before) || !is_given_back(before))
                        continue;
                end(world, attempt, &cancelled);
                return;
        }
}

static void give_back_waiting(struct world *world, const struct sim_attempt *of)
{
        struct sim_attempt *at = next_sent(world, of, 0);

        for (; at != NULL; at = next_sent(world, of, at->sequence))
                if (!at->is_in_burst)
                        end(world, at, &cancelled);
}

static bool is_before(const struct sim_attempt *a, const struct sim_attempt *b)
{
        return b == NULL || a->sequence < b->sequence;
}

/* The next of the line whose end is to be told, of its burst or of those given back, or NULL. */
static struct sim_attempt *next_decided(
    struct world *world, const struct sim_attempt *of, uint32_t sequence)
{
        struct sim_attempt *next = NULL;

        for (size_t i = 0; i < MAX_ATTEMPTS; i++) {
                struct sim_attempt *at = &world->destination.attempts[i];
                if (is_of_line(of, at) && at->phase == ATTEMPT_DECIDED &&
                    at->is_in_burst == of->is_in_burst && at->sequence >= sequence &&
                    is_before(at, next))
                        next = at;
        }
        return next;
}

/* After a rejected event, which becomes a dead letter, its key goes on. */
static bool stops_those_behind(const struct outcome *outcome)
{
        return outcome->kind != OUTCOME_DELIVERED && outcome->kind != OUTCOME_REJECTED;
}

void burst_tell(struct world *world, struct sim_attempt *attempt)
{
        const struct sim_attempt of = *attempt;
        bool is_alone = of.is_in_burst && !of.ends_with_burst;
        struct sim_attempt *at = attempt;

        for (; at != NULL && of.is_in_burst; at = next_decided(world, &of, at->sequence + 1)) {
                if (stops_those_behind(&at->outcome))
                        give_back_waiting(world, &of);
                if (is_alone)
                        break;
        }
        for (at = attempt; at != NULL;
             at = is_alone ? NULL : next_decided(world, &of, of.sequence)) {
                if (at->delivery != NULL)
                        relay_finish(world, at->relay, at);
                at->phase = ATTEMPT_FREE;
        }
}

/* No answer is awaited to attempts on a closed connection. */
static void leave_behind(struct world *world, struct sim_attempt *attempt)
{
        for (size_t i = 0; i < MAX_ATTEMPTS; i++) {
                struct sim_attempt *free_one = &world->destination.attempts[i];
                if (free_one->phase != ATTEMPT_FREE)
                        continue;
                *free_one = *attempt;
                free_one->delivery = NULL;
                free_one->life = 0;
                return;
        }
}

void burst_cancel(struct world *world, int relay)
{
        bool is_left = dice_one_in(&world->dice, 2);

        for (size_t i = 0; i < MAX_ATTEMPTS; i++) {
                struct sim_attempt *at = &world->destination.attempts[i];
                if (at->relay != relay || at->phase != ATTEMPT_SENT || at->delivery == NULL)
                        continue;
                if (is_left && at->is_in_burst && !at->is_cancelled)
                        leave_behind(world, at);
                at->is_cancelled = true;
                end(world, at, &cancelled);
        }
}

bool burst_is_its_turn(const struct world *world, const struct sim_attempt *attempt)
{
        for (size_t i = 0; i < MAX_ATTEMPTS; i++) {
                const struct sim_attempt *other = &world->destination.attempts[i];
                if (!is_of_line(attempt, other))
                        continue;
                if (other->sequence < attempt->sequence && other->phase == attempt->phase &&
                    other->is_in_burst == attempt->is_in_burst)
                        return false;
                /* One burst at a time, and nothing before what was given back is told. */
                if (attempt->phase == ATTEMPT_SENT && !attempt->is_in_burst &&
                    (other->is_in_burst || is_given_back(other)))
                        return false;
        }
        return true;
}

static int key_of(const struct world *world, const struct sim_attempt *attempt)
{
        return world->database.events[attempt->event].key;
}

static bool is_repeating(const struct world *world, struct sim_attempt *const burst[], size_t n)
{
        for (size_t i = 1; i < n; i++)
                for (size_t j = 0; j < i; j++)
                        if (key_of(world, burst[i]) >= 0 &&
                            key_of(world, burst[i]) == key_of(world, burst[j]))
                                return true;
        return false;
}

/* The first of the line, and some behind it. */
static void begin(struct world *world, struct sim_attempt *first)
{
        struct sim_relay *relay = &world->relays[first->relay];
        uint32_t n = relay->n_alone > 0 ? 1 : 1 + dice_below(&world->dice, 8);

        if (relay->n_alone > 0)
                relay->n_alone--;
        for (struct sim_attempt *at = first; at != NULL && n > 0; n--) {
                at->is_in_burst = true;
                at = next_sent(world, first, at->sequence);
        }
}

static size_t list_burst(
    struct world *world, struct sim_attempt *first, struct sim_attempt *out_burst[])
{
        size_t n = 0;

        for (struct sim_attempt *at = first; at != NULL && at->is_in_burst;
             at = next_sent(world, first, at->sequence))
                out_burst[n++] = at;
        return n;
}

static bool is_refused_alone(const struct world *world, const struct sim_attempt *attempt)
{
        const struct sim_event *event = &world->database.events[attempt->event];

        return destination_would_blame(world, event) ||
               (event->n_rejections == 0 && destination_would_fail(world, event));
}

static bool is_any_refused(const struct world *world, struct sim_attempt *const burst[], size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (is_refused_alone(world, burst[i]))
                        return true;
        return false;
}

/* The connection is lost: it is unknown what was executed. Only an event so large that Redis may
 * have hung up on it comes under suspicion. */
static void lose(struct world *world, struct sim_attempt *burst[], size_t n, bool is_transaction)
{
        const struct outcome lost = {.kind = OUTCOME_SINK_DOWN,
            .delay_ms = OUTCOME_NO_DELAY,
            .concerns_all = true,
            .reason = "lost"};
        uint32_t n_done = dice_below(&world->dice, (uint32_t)n + 1);

        if (is_transaction)
                n_done = n_done > n / 2 && !is_any_refused(world, burst, n) ? (uint32_t)n : 0;
        if (world->destination.outage != OUTAGE_NONE)
                n_done = 0;
        for (size_t i = 0; i < n; i++) {
                struct sim_event *event = &world->database.events[burst[i]->event];
                if (i < n_done && is_refused_alone(world, burst[i]))
                        ;
                else if (i < n_done && destination_rejects(event))
                        event->is_unplaced = true;
                else if (i < n_done)
                        destination_arrive(world, burst[i]);
                end(world, burst[i], event->bytes >= 400 ? &unanswered : &lost);
                burst[i]->ends_with_burst = true;
        }
}

static void execute_one(struct world *world, struct sim_attempt *attempt)
{
        struct sim_event *event = &world->database.events[attempt->event];

        if (destination_blames(world, event)) {
                struct outcome blame = destination_blame(world, event);
                end(world, attempt, &blame);
        } else if (destination_rejects(event)) {
                event->is_unplaced = true; /* those behind it go on */
                end(world, attempt, &rejected);
        } else if (destination_fails(world, event)) {
                struct outcome failure = destination_failure(world, event);
                end(world, attempt, &failure);
        } else {
                destination_arrive(world, attempt);
                end(world, attempt, &delivered);
        }
}

/* One event of it is refused, so nothing is executed; each is sent again alone. */
static void refuse_transaction(struct world *world, struct sim_attempt *burst[], size_t n)
{
        if (burst[0]->delivery != NULL)
                world->relays[burst[0]->relay].n_alone = (unsigned)n;
        for (size_t i = 0; i < n; i++)
                end(world, burst[i], &cancelled);
}

static void refuse_all(struct world *world, struct sim_attempt *burst[], size_t n)
{
        struct outcome refusal = destination_refusal(world);

        for (size_t i = 0; i < n; i++)
                end(world, burst[i], &refusal);
}

void burst_decide(struct world *world, struct sim_attempt *attempt)
{
        struct sim_attempt *burst[MAX_ATTEMPTS];
        bool is_transaction;
        size_t n;

        if (!attempt->is_in_burst) {
                begin(world, attempt);
                return;
        }
        n = list_burst(world, attempt, burst);
        is_transaction = is_repeating(world, burst, n);
        for (size_t i = 0; i < n; i++)
                burst[i]->ends_with_burst = is_transaction;
        if (world->destination.outage == OUTAGE_SILENT ||
            (world->destination.outage == OUTAGE_NONE && !world->is_calm &&
                dice_one_in(&world->dice, world->climate.noise)))
                lose(world, burst, n, is_transaction);
        else if (world->destination.outage != OUTAGE_NONE)
                refuse_all(world, burst, n);
        else if (is_transaction && is_any_refused(world, burst, n))
                refuse_transaction(world, burst, n);
        else
                for (size_t i = 0; i < n; i++)
                        execute_one(world, burst[i]);
}
