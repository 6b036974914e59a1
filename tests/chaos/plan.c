/*
 * Six tracks: one for the relays, one for their configuration, two for the world around them, one for
 * the brokers, one for a customer. Within a track one step follows the other, so at most six are in
 * force at once;
 * between the two tracks of the world, no two faults befall the same thing at the same time. The
 * last of all are new passwords, when nothing starts relays again that would wait for that.
 */
#include "chaos/plan.h"

#include "base/alloc.h"

#include <stdbool.h>
#include <stdlib.h>

enum { N_HOOKS = 4, N_LINKS = 9 };

/* So long before the end: what befalls relays and the world has taken its course before the last
 * passwords, and relays that were down run again. */
enum { END_RELAYS_MS = 5500, END_WORLD_MS = 6000, END_BROKERS_MS = 7000 };

/* What a fault needs to have for itself. */
enum resource {
        RESOURCE_RELAY,
        RESOURCE_PG,
        RESOURCE_PG_LINKS, /* two */
        RESOURCE_REDIS = RESOURCE_PG_LINKS + 2,
        RESOURCE_HOOKS, /* four */
        RESOURCE_MAIL = RESOURCE_HOOKS + 4,
        RESOURCE_ONCE,      /* a road to Redis */
        RESOURCE_RECEIVERS, /* who they are */
        RESOURCE_FILTER,    /* of one of them */
        RESOURCE_NATS,      /* the brokers, each with the road to it */
        RESOURCE_RABBIT,
        RESOURCE_KAFKA,
        N_RESOURCES,
};

static const struct kind {
        const char *name;
        enum resource resource; /* that of target 0 */
        unsigned n_targets;
        unsigned weight; /* among those of the world, or of the brokers */
        unsigned min_ms, max_ms;
        unsigned back_ms; /* a server's start, roughly; 0: AFTER_MS */
} kinds[N_STEP_KINDS] = {
    [STEP_RELAY_KILL] = {"relay killed", RESOURCE_RELAY, N_RELAYS, 0, 0, 0},
    [STEP_RELAY_STOP] = {"relay stopped", RESOURCE_RELAY, N_RELAYS, 0, 0, 0},
    [STEP_RELAY_RELOAD] = {"relay reconfigured", RESOURCE_RELAY, N_RELAYS, 0, 300, 1500},
    [STEP_RELAY_FREEZE] = {"relay frozen", RESOURCE_RELAY, N_RELAYS, 0, 800, 2500},
    [STEP_RELAYS_AWAY] = {"all relays away", RESOURCE_RELAY, 1, 0, 1500, 2500},
    [STEP_RELAYS_ROLL] = {"rolling restart", RESOURCE_RELAY, 1, 0, 500, 5000},
    [STEP_RESHARD] = {"other numbers of shards", RESOURCE_RELAY, 1, 0, 500, 4000},
    [STEP_PG_RESTART_FAST] = {"PostgreSQL restarted", RESOURCE_PG, 1, 3, 0, 600},
    [STEP_PG_RESTART_IMMEDIATE] = {"PostgreSQL stopped immediately", RESOURCE_PG, 1, 3, 0, 600},
    [STEP_PG_KILL] = {"PostgreSQL killed", RESOURCE_PG, 1, 3, 0, 600},
    [STEP_PG_TERMINATE] = {"sessions terminated", RESOURCE_PG, 1, 6, 0, 0},
    [STEP_PG_PASSWORD] = {"PostgreSQL's password changed", RESOURCE_PG, 1, 4, 0, 1000},
    [STEP_REDIS_KILL] = {"Redis killed", RESOURCE_REDIS, 1, 4, 0, 1500},
    [STEP_REDIS_FREEZE] = {"Redis frozen", RESOURCE_REDIS, 1, 4, 300, 3000},
    [STEP_REDIS_DISCONNECT] = {"Redis clients disconnected", RESOURCE_REDIS, 1, 4, 0, 0},
    [STEP_REDIS_FULL] = {"Redis out of memory", RESOURCE_REDIS, 1, 4, 200, 2000},
    [STEP_REDIS_PASSWORD] = {"Redis' password changed", RESOURCE_REDIS, 1, 3, 0, 1000},
    [STEP_HOOK_STOP] = {"HTTP receiver stopped", RESOURCE_HOOKS, N_HOOKS, 8, 200, 2000},
    [STEP_HOOK_MOOD] = {"HTTP receiver in a mood", RESOURCE_HOOKS, N_HOOKS, 20, 300, 3000},
    [STEP_MAIL_STOP] = {"mail server stopped", RESOURCE_MAIL, 1, 3, 200, 2000},
    [STEP_MAIL_MOOD] = {"mail server in a mood", RESOURCE_MAIL, 1, 8, 500, 3000},
    [STEP_RECEIVER_PAUSE] = {"receiver paused", RESOURCE_RECEIVERS, 1, 5, 300, 3000},
    [STEP_RECEIVER_MOVE] = {"receiver moved", RESOURCE_RECEIVERS, 1, 5, 0, 0},
    [STEP_RECEIVER_RENEW] = {"receiver removed and added", RESOURCE_RECEIVERS, 1, 4, 0, 0},
    [STEP_RECEIVER_FILTER] = {"receiver with a dear filter", RESOURCE_FILTER, 1, 0, 1500, 12000},
    [STEP_NATS_KILL] = {"NATS killed", RESOURCE_NATS, 1, 4, 0, 1500},
    [STEP_NATS_FREEZE] = {"NATS frozen", RESOURCE_NATS, 1, 4, 300, 3000},
    [STEP_NATS_DISCONNECT] = {"NATS clients disconnected", RESOURCE_NATS, 1, 3, 0, 0},
    [STEP_NATS_RETIRE] = {"NATS retired, and killed", RESOURCE_NATS, 1, 2, 300, 1500},
    [STEP_NATS_FULL] = {"NATS stream full", RESOURCE_NATS, 1, 4, 300, 2500},
    [STEP_RABBIT_KILL] = {"RabbitMQ killed", RESOURCE_RABBIT, 1, 3, 0, 600, 10000},
    [STEP_RABBIT_FREEZE] = {"RabbitMQ frozen", RESOURCE_RABBIT, 1, 4, 300, 4500},
    [STEP_RABBIT_DISCONNECT] = {"RabbitMQ clients disconnected", RESOURCE_RABBIT, 1, 3, 0, 0},
    [STEP_RABBIT_ALARM] = {"RabbitMQ short of memory or disk", RESOURCE_RABBIT, 1, 5, 300, 4500},
    [STEP_RABBIT_UNBIND] = {"RabbitMQ without a binding", RESOURCE_RABBIT, 1, 4, 300, 2500},
    [STEP_RABBIT_FULL] = {"RabbitMQ queue full", RESOURCE_RABBIT, 1, 3, 300, 2500},
    [STEP_KAFKA_KILL] = {"Kafka killed", RESOURCE_KAFKA, 1, 3, 0, 600, 8000},
    [STEP_KAFKA_FREEZE] = {"Kafka frozen", RESOURCE_KAFKA, 1, 4, 300, 4500},
    [STEP_KAFKA_SHORT] = {"Kafka short of replicas", RESOURCE_KAFKA, 1, 4, 300, 3000},
    [STEP_BROKER_LINK] = {"network to a broker", RESOURCE_NATS, N_BROKERS, 14, 200, 3000},
    [STEP_LINK] = {"network", RESOURCE_PG_LINKS, N_LINKS, 36, 200, 3000},
};

/* What is left of a fault, such as a server that starts, takes a while. */
enum { AFTER_MS = 1500 };

/* The links are those of the resources from RESOURCE_PG_LINKS on, in the same order. */
_Static_assert(RESOURCE_RECEIVERS - RESOURCE_PG_LINKS == N_LINKS, "each link has a resource");

unsigned step_n_targets(enum step_kind kind)
{
        return kinds[kind].n_targets;
}

const char *step_name(enum step_kind kind)
{
        return kinds[kind].name;
}

/* splitmix64 */
uint32_t chaos_random(uint64_t *state)
{
        uint64_t mixed = *state += 0x9e3779b97f4a7c15u;

        mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
        return (uint32_t)((mixed ^ (mixed >> 31)) >> 32);
}

static unsigned between(uint64_t *random, unsigned min, unsigned max)
{
        return min + chaos_random(random) % (max - min + 1);
}

static int64_t clamp(int64_t value, int64_t min, int64_t max)
{
        return value < min ? min : value > max ? max : value;
}

static struct chaos_step *append(
    struct chaos_plan *plan, uint64_t *random, int64_t at_ms, enum step_kind kind)
{
        struct chaos_step *step;

        plan->steps = xrealloc(plan->steps, (plan->n_steps + 1) * sizeof *plan->steps);
        step = &plan->steps[plan->n_steps++];
        *step = (struct chaos_step){.at_ms = at_ms,
            .kind = kind,
            .for_ms = between(random, kinds[kind].min_ms, kinds[kind].max_ms),
            .target = chaos_random(random) % kinds[kind].n_targets,
            .variant = chaos_random(random)};
        return step;
}

static enum step_kind choose_for_relay(uint64_t *random)
{
        unsigned chance = chaos_random(random) % 100;

        if (chance < 72)
                return STEP_RELAY_KILL;
        if (chance < 90)
                return chance < 80 ? STEP_RELAY_STOP : STEP_RELAY_RELOAD;
        if (chance < 92)
                return STEP_RELAYS_AWAY;
        return STEP_RELAY_FREEZE;
}

/* What nothing may come of. */
static enum step_kind choose_in_good_order(uint64_t *random)
{
        return chaos_random(random) % 3 == 0 ? STEP_RELAY_RELOAD : STEP_RELAY_STOP;
}

static bool is_of_brokers(int kind)
{
        return kinds[kind].resource >= RESOURCE_NATS;
}

static unsigned weight_of(int kind, bool for_brokers)
{
        return is_of_brokers(kind) == for_brokers ? kinds[kind].weight : 0;
}

static enum step_kind choose(uint64_t *random, bool for_brokers)
{
        unsigned total = 0;
        unsigned chance;

        for (int kind = 0; kind < N_STEP_KINDS; kind++)
                total += weight_of(kind, for_brokers);
        chance = chaos_random(random) % total;
        for (int kind = 0;; kind++) {
                if (chance < weight_of(kind, for_brokers))
                        return (enum step_kind)kind;
                chance -= weight_of(kind, for_brokers);
        }
}

/* One in each plan, and a longer one in a longer plan: as many transactions as an application
 * has in hours, or in a day. */
static int64_t plan_absence(struct chaos_plan *plan, uint64_t *random, int64_t at_ms)
{
        struct chaos_step *step = append(plan, random, at_ms, STEP_RELAYS_AWAY);

        step->for_ms = clamp(plan->end_ms / 25, 2000, 12000);
        return step->for_ms;
}

static void plan_relays(struct chaos_plan *plan, uint64_t *random)
{
        int64_t at_ms = 1500;

        if (plan->kills_from_ms > 0)
                at_ms += plan_absence(plan, random, at_ms) + between(random, 700, 2100);
        while (at_ms < plan->last_relay_ms) {
                enum step_kind kind = at_ms < plan->kills_from_ms   ? choose_in_good_order(random)
                                      : at_ms < plan->mixed_from_ms ? STEP_RELAY_KILL
                                                                    : choose_for_relay(random);
                int64_t pause_ms = kind == STEP_RELAY_STOP ? between(random, 600, 1600)
                                                           : between(random, 700, 2100);
                at_ms += append(plan, random, at_ms, kind)->for_ms + pause_ms;
        }
}

/* The time that one of them needs beside its own, to come and to go; it may be longer. The last one
 * begins so long before the relays' last step. */
enum { RESHARD_MS = 1500, ROLL_MS = 6000, LAST_MS = 3000 };

/* In turns; never while there are nothing but kills. What begins is finished. */
static void plan_rollouts(struct chaos_plan *plan, uint64_t *random, int64_t at_ms)
{
        enum step_kind kind = STEP_RESHARD;

        while (at_ms < plan->last_relay_ms - LAST_MS) {
                if (at_ms >= plan->kills_from_ms && at_ms < plan->mixed_from_ms) {
                        at_ms = plan->mixed_from_ms;
                        continue;
                }
                at_ms += append(plan, random, at_ms, kind)->for_ms +
                         (kind == STEP_RESHARD ? RESHARD_MS : ROLL_MS) + between(random, 200, 2000);
                kind = kind == STEP_RESHARD ? STEP_RELAYS_ROLL : STEP_RESHARD;
        }
}

static void plan_customer(struct chaos_plan *plan, uint64_t *random)
{
        int64_t at_ms = 500;

        while (at_ms < plan->end_ms)
                at_ms += append(plan, random, at_ms, STEP_RECEIVER_FILTER)->for_ms +
                         between(random, 1500, 6000);
}

/* All relays are running, and nothing but themselves brings them back. */
static void plan_end(struct chaos_plan *plan, uint64_t *random)
{
        append(plan, random, plan->end_ms - 1500, STEP_REDIS_PASSWORD);
        append(plan, random, plan->end_ms - 1500, STEP_PG_PASSWORD);
}

static void plan_world(struct chaos_plan *plan, uint64_t *random)
{
        int64_t busy_until_ms[N_RESOURCES] = {0};
        int64_t at_ms[2] = {plan->mixed_from_ms, plan->mixed_from_ms + 700};

        for (;;) {
                int64_t *track = at_ms[0] <= at_ms[1] ? &at_ms[0] : &at_ms[1];
                struct chaos_step *step;
                int64_t *busy_ms;
                if (*track >= plan->last_world_ms)
                        return;
                step = append(plan, random, *track, choose(random, false));
                busy_ms = &busy_until_ms[kinds[step->kind].resource + step->target];
                if (*busy_ms > *track) { /* another time */
                        plan->n_steps--;
                        *track += 100;
                        continue;
                }
                *busy_ms = *track + step->for_ms + AFTER_MS;
                *track += step->for_ms + between(random, 100, 2000);
        }
}

/* While one of them starts again, others have their turn. */
static void plan_brokers(struct chaos_plan *plan, uint64_t *random, unsigned brokers)
{
        int64_t busy_until_ms[N_BROKERS] = {0};
        int64_t at_ms = plan->mixed_from_ms + 300;

        while (brokers != 0 && at_ms < plan->end_ms - END_BROKERS_MS) {
                struct chaos_step *step = append(plan, random, at_ms, choose(random, true));
                unsigned broker = kinds[step->kind].resource + step->target - RESOURCE_NATS;
                unsigned back_ms = kinds[step->kind].back_ms;
                if ((brokers >> broker & 1u) == 0 || busy_until_ms[broker] > at_ms) {
                        plan->n_steps--;
                        at_ms += 20;
                        continue;
                }
                busy_until_ms[broker] = at_ms + step->for_ms + (back_ms > 0 ? back_ms : AFTER_MS);
                at_ms += step->for_ms + between(random, 100, 1200);
        }
}

static int by_time(const void *a_, const void *b_)
{
        const struct chaos_step *a = a_, *b = b_;

        return (a->at_ms > b->at_ms) - (a->at_ms < b->at_ms);
}

struct chaos_plan chaos_plan_make(
    uint64_t seed, int64_t length_ms, enum chaos_scope scope, unsigned brokers)
{
        struct chaos_plan plan = {.end_ms = length_ms};
        uint64_t random = seed;

        plan.kills_from_ms = clamp(length_ms / 5, 6000, 30000);
        plan.mixed_from_ms = plan.kills_from_ms + clamp(length_ms / 8, 4000, 60000);
        if (scope != SCOPE_ALL) {
                plan.kills_from_ms = scope == SCOPE_STOPS ? length_ms : 0;
                plan.mixed_from_ms = scope == SCOPE_BROKERS ? 0 : length_ms;
        }
        plan.last_relay_ms = plan.last_world_ms = length_ms;
        if (scope == SCOPE_ALL) {
                plan.last_relay_ms -= END_RELAYS_MS;
                plan.last_world_ms -= END_WORLD_MS;
        }
        if (scope != SCOPE_BROKERS) {
                plan_relays(&plan, &random);
                if (scope != SCOPE_KILLS)
                        plan_rollouts(&plan, &random, 4200);
                plan_world(&plan, &random);
        }
        plan_customer(&plan, &random);
        if (scope == SCOPE_ALL)
                plan_end(&plan, &random);
        plan_brokers(&plan, &random, brokers);
        qsort(plan.steps, plan.n_steps, sizeof *plan.steps, by_time);
        return plan;
}

void chaos_plan_deinit(struct chaos_plan *plan)
{
        free(plan->steps);
        *plan = (struct chaos_plan){0};
}
