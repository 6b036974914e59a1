#include "chaos/broker_steps.h"

#include "base/clock.h"
#include "chaos/steps.h"

#define NO_BOUND UINT32_MAX

#define LOOK_EVERY_US (500 * INT64_C(1000))
#define LOOK_FOR_US   (5 * INT64_C(1000000))

typedef bool begin_fn(struct faults *faults, const struct chaos_step *step, enum broker broker);
typedef void end_fn(struct faults *faults, const struct chaos_step *step, enum broker broker);

static void set_link(struct faults *faults, enum broker broker, enum fault_kind kind)
{
        broker_set_link(&faults->world->brokers, broker, &(struct fault){.kind = kind});
}

/* ---- any of them ----------------------------------------------------------------------------- */

/* At times its address is still there, and ends connections at once, as a proxy does. */
static bool begin_kill(struct faults *faults, const struct chaos_step *step, enum broker broker)
{
        if (step->variant % 2 == 0)
                set_link(faults, broker, FAULT_REFUSE);
        broker_kill(&faults->world->brokers, broker);
        return true;
}

static void end_kill(struct faults *faults, const struct chaos_step *step, enum broker broker)
{
        (void)step;
        broker_start_again(&faults->world->brokers, broker);
        set_link(faults, broker, FAULT_NONE);
}

static bool begin_freeze(struct faults *faults, const struct chaos_step *step, enum broker broker)
{
        (void)step;
        broker_freeze(&faults->world->brokers, broker);
        return true;
}

static void end_freeze(struct faults *faults, const struct chaos_step *step, enum broker broker)
{
        (void)step;
        broker_thaw(&faults->world->brokers, broker);
}

static bool begin_link(struct faults *faults, const struct chaos_step *step, enum broker broker)
{
        const struct fault fault = step_choose_fault(faults, step, 20);

        broker_set_link(&faults->world->brokers, broker, &fault);
        return true;
}

static void end_link(struct faults *faults, const struct chaos_step *step, enum broker broker)
{
        (void)step;
        set_link(faults, broker, FAULT_NONE);
}

/* ---- NATS ------------------------------------------------------------------------------------ */

static bool begin_reset(struct faults *faults, const struct chaos_step *step, enum broker broker)
{
        (void)step;
        set_link(faults, broker, FAULT_RESET);
        set_link(faults, broker, FAULT_NONE);
        return true;
}

static bool begin_retire(struct faults *faults, const struct chaos_step *step, enum broker broker)
{
        (void)step;
        (void)broker;
        brokers_retire_nats(&faults->world->brokers);
        return true;
}

static void end_retire(struct faults *faults, const struct chaos_step *step, enum broker broker)
{
        broker_kill(&faults->world->brokers, broker);
        end_kill(faults, step, broker);
}

static bool begin_full(struct faults *faults, const struct chaos_step *step, enum broker broker)
{
        (void)step;
        (void)broker;
        world_read_arrivals_of_nats(faults->world);
        return brokers_set_nats_full(&faults->world->brokers, true);
}

static void end_full(struct faults *faults, const struct chaos_step *step, enum broker broker)
{
        (void)step;
        (void)broker;
        brokers_set_nats_full(&faults->world->brokers, false);
}

/* ---- RabbitMQ -------------------------------------------------------------------------------- */

static bool begin_close(struct faults *faults, const struct chaos_step *step, enum broker broker)
{
        (void)step;
        (void)broker;
        brokers_close_rabbit_connections(&faults->world->brokers);
        return true;
}

static bool is_of_disk(const struct chaos_step *step)
{
        return step->variant % 2 != 0;
}

static bool begin_alarm(struct faults *faults, const struct chaos_step *step, enum broker broker)
{
        (void)broker;
        faults_note(faults, "  %s", is_of_disk(step) ? "disk" : "memory");
        brokers_set_rabbit_alarm(&faults->world->brokers, is_of_disk(step), true);
        return true;
}

static void end_alarm(struct faults *faults, const struct chaos_step *step, enum broker broker)
{
        (void)broker;
        brokers_set_rabbit_alarm(&faults->world->brokers, is_of_disk(step), false);
}

static bool begin_unbind(struct faults *faults, const struct chaos_step *step, enum broker broker)
{
        (void)step;
        (void)broker;
        brokers_set_rabbit_bound(&faults->world->brokers, false);
        return true;
}

static void end_unbind(struct faults *faults, const struct chaos_step *step, enum broker broker)
{
        (void)step;
        (void)broker;
        brokers_set_rabbit_bound(&faults->world->brokers, true);
        faults->world->brokers.mended_us = clock_monotonic_us();
}

/* A relay pauses a sink whose messages no queue is bound for, and tries now and then: every few
 * minutes. Who mends the cause resumes the sink, and looks for a while whether that holds. */
void broker_steps_see_to(struct faults *faults)
{
        struct brokers *brokers = &faults->world->brokers;
        int64_t now_us = clock_monotonic_us();
        PGconn *admin;
        PGresult *result;

        if (brokers->mended_us == 0 || now_us < brokers->next_look_us)
                return;
        brokers->next_look_us = now_us + LOOK_EVERY_US;
        admin = PQconnectdb(faults->world->dsn);
        result = PQexec(admin, "DELETE FROM courier.pause WHERE sink = 'rabbitmq'");
        if (PQresultStatus(result) == PGRES_COMMAND_OK && now_us > brokers->mended_us + LOOK_FOR_US)
                brokers->mended_us = 0;
        PQclear(result);
        PQfinish(admin);
}

static bool begin_full_queue(
    struct faults *faults, const struct chaos_step *step, enum broker broker)
{
        (void)step;
        (void)broker;
        brokers_set_rabbit_full(&faults->world->brokers, true);
        return true;
}

static void end_full_queue(struct faults *faults, const struct chaos_step *step, enum broker broker)
{
        (void)step;
        (void)broker;
        brokers_set_rabbit_full(&faults->world->brokers, false);
}

/* ---- Kafka ----------------------------------------------------------------------------------- */

static bool begin_short(struct faults *faults, const struct chaos_step *step, enum broker broker)
{
        (void)step;
        (void)broker;
        brokers_set_kafka_short(&faults->world->brokers, true);
        return true;
}

static void end_short(struct faults *faults, const struct chaos_step *step, enum broker broker)
{
        (void)step;
        (void)broker;
        brokers_set_kafka_short(&faults->world->brokers, false);
}

/* ---- all ------------------------------------------------------------------------------------- */

#define FIRST STEP_NATS_KILL

/* Each touches the sink of its broker alone. */
static const struct kind {
        enum broker broker; /* of target 0 */
        enum cause cause;
        begin_fn *begin;
        end_fn *end; /* NULL: it is over at once */
} kinds[] = {
    [STEP_NATS_KILL - FIRST] = {BROKER_NATS, CAUSE_BROKER_KILL, begin_kill, end_kill},
    [STEP_NATS_FREEZE - FIRST] = {BROKER_NATS, CAUSE_BROKER_AWAY, begin_freeze, end_freeze},
    [STEP_NATS_DISCONNECT - FIRST] = {BROKER_NATS, CAUSE_BROKER_AWAY, begin_reset, NULL},
    [STEP_NATS_RETIRE - FIRST] = {BROKER_NATS, CAUSE_BROKER_KILL, begin_retire, end_retire},
    [STEP_NATS_FULL - FIRST] = {BROKER_NATS, CAUSE_BROKER_REFUSES, begin_full, end_full},
    [STEP_RABBIT_KILL - FIRST] = {BROKER_RABBIT, CAUSE_BROKER_KILL, begin_kill, end_kill},
    [STEP_RABBIT_FREEZE - FIRST] = {BROKER_RABBIT, CAUSE_BROKER_AWAY, begin_freeze, end_freeze},
    [STEP_RABBIT_DISCONNECT - FIRST] = {BROKER_RABBIT, CAUSE_BROKER_AWAY, begin_close, NULL},
    [STEP_RABBIT_ALARM - FIRST] = {BROKER_RABBIT, CAUSE_BROKER_SHORT, begin_alarm, end_alarm},
    [STEP_RABBIT_UNBIND - FIRST] = {BROKER_RABBIT, CAUSE_BROKER_REFUSES, begin_unbind, end_unbind},
    [STEP_RABBIT_FULL -
        FIRST] = {BROKER_RABBIT, CAUSE_BROKER_REFUSES, begin_full_queue, end_full_queue},
    [STEP_KAFKA_KILL - FIRST] = {BROKER_KAFKA, CAUSE_BROKER_KILL, begin_kill, end_kill},
    [STEP_KAFKA_FREEZE - FIRST] = {BROKER_KAFKA, CAUSE_BROKER_AWAY, begin_freeze, end_freeze},
    [STEP_KAFKA_SHORT - FIRST] = {BROKER_KAFKA, CAUSE_BROKER_REFUSES, begin_short, end_short},
    [STEP_BROKER_LINK - FIRST] = {BROKER_NATS, CAUSE_LINK, begin_link, end_link},
};

static const struct kind *kind_of(const struct chaos_step *step)
{
        return &kinds[step->kind - FIRST];
}

static enum broker broker_of(const struct chaos_step *step)
{
        return (enum broker)(kind_of(step)->broker + step->target);
}

/* Who is refused is told so: nothing needs to be sent again that was taken. */
static uint32_t max_repeats_of(enum cause cause)
{
        return cause == CAUSE_BROKER_KILL      ? WORLD_MAX_IN_FLIGHT
               : cause == CAUSE_BROKER_REFUSES ? 0
                                               : NO_BOUND;
}

bool broker_step_begin(struct faults *faults, const struct chaos_step *step, size_t *incident)
{
        enum broker broker = broker_of(step);
        enum cause cause = kind_of(step)->cause;
        struct brokers *brokers = &faults->world->brokers;

        if (!brokers_have(brokers, broker) || !broker_is_ready(brokers, broker))
                return false;
        *incident =
            faults_add_incident(faults, cause, 1u << (SINK_NATS + broker), max_repeats_of(cause));
        return kind_of(step)->begin(faults, step, broker);
}

void broker_step_end(struct faults *faults, const struct chaos_step *step)
{
        if (kind_of(step)->end != NULL)
                kind_of(step)->end(faults, step, broker_of(step));
}

bool broker_step_is_over(struct faults *faults, const struct chaos_step *step)
{
        return broker_is_ready(&faults->world->brokers, broker_of(step));
}
