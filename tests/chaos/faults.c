#include "chaos/broker_steps.h"
#include "chaos/steps.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What was on its way may still arrive for so long. Relays do not wait for PostgreSQL for
 * longer: events go on arriving, and then come again, until a session is seen to be lost. */
#define AFTERMATH_US (2 * INT64_C(1000000))

/* What was not there at the last turn, or just before it, may have been there since. */
#define NOTICED_US (100 * INT64_C(1000))

const char *cause_name(enum cause cause)
{
        static const char *const names[N_CAUSES] = {"relay killed", "relay crashed at a point",
            "relay frozen", "drain limit reached", "attempt given up with its shard",
            "PostgreSQL's password changed", "PostgreSQL sessions lost",
            "PostgreSQL crashed (settles taken back)", "network to PostgreSQL",
            "Redis' password changed", "destination", "network to a destination", "broker killed",
            "broker frozen or disconnected", "broker short of memory or disk", "broker refused"};
        return names[cause];
}

/* ---- the record ------------------------------------------------------------------------------ */

unsigned faults_n_kills(const struct faults *faults)
{
        unsigned n_kills = faults->n_done[STEP_RELAY_KILL];

        for (int i = 0; i < N_CRASH_POINTS; i++)
                n_kills += faults->n_crashes_at[i];
        return n_kills;
}

int64_t faults_now_ms(const struct faults *faults)
{
        return (clock_monotonic_us() - faults->began_us) / 1000;
}

void faults_note(struct faults *faults, const char *format, ...)
{
        int64_t now_us = clock_wall_us();
        time_t now_s = (time_t)(now_us / 1000000);
        struct tm utc;
        va_list arguments;

        gmtime_r(&now_s, &utc);
        fprintf(faults->log, "%02d:%02d:%02d.%03d %8.3f ", utc.tm_hour, utc.tm_min, utc.tm_sec,
            (int)(now_us / 1000 % 1000), (double)faults_now_ms(faults) / 1000);
        va_start(arguments, format);
        vfprintf(faults->log, format, arguments);
        va_end(arguments);
        fputc('\n', faults->log);
        fflush(faults->log);
}

size_t faults_add_incident(
    struct faults *faults, enum cause cause, uint32_t sinks, uint32_t max_repeats)
{
        int64_t now_us = clock_wall_us();

        faults->incidents =
            xrealloc(faults->incidents, (faults->n_incidents + 1) * sizeof *faults->incidents);
        faults->incidents[faults->n_incidents] = (struct incident){.healed_us = now_us,
            .relay = -1,
            .judged = {.sinks = sinks,
                .cause = cause,
                .max_repeats = max_repeats,
                .forgets = cause == CAUSE_PG_CRASH,
                .begin_us = faults->turned_us - NOTICED_US,
                .end_us = now_us + AFTERMATH_US}};
        return faults->n_incidents++;
}

static void heal_incident(struct faults *faults, size_t i)
{
        if (i == SIZE_MAX)
                return;
        faults->incidents[i].healed_us = clock_wall_us();
        faults->incidents[i].judged.end_us = clock_wall_us() + AFTERMATH_US;
}

size_t faults_add_relay_incident(
    struct faults *faults, enum cause cause, int relay, uint32_t max_repeats)
{
        size_t i = faults_add_incident(faults, cause, ALL_SINKS, max_repeats);

        faults->incidents[i].relay = relay;
        return i;
}

/* ---- relays ---------------------------------------------------------------------------------- */

/* Of a fault, or because of one. */
static bool may_go_wrong(const struct faults *faults)
{
        return faults_now_ms(faults) > faults->plan->mixed_from_ms;
}

static void see_to_relay(struct faults *faults, int i)
{
        struct relay_slot *slot = &faults->world->relays[i];
        bool may_crash = !faults->is_over && may_go_wrong(faults);

        switch (relay_slot_look(slot)) {
        case NEWS_NONE:
                break;
        case NEWS_CRASHED_AS_PLANNED:
                faults_note(faults, "relay %c crashed at %s", slot->name, slot->crash_at);
                faults->n_crashes_at[slot->crash_point]++;
                faults_add_relay_incident(faults, CAUSE_CRASH, i, WORLD_MAX_IN_FLIGHT);
                break;
        case NEWS_STOPPED:
                faults_note(faults, "relay %c has stopped", slot->name);
                break;
        case NEWS_STOPPED_UNFINISHED:
                faults_note(faults, "relay %c has stopped at its drain limit", slot->name);
                if (may_go_wrong(faults))
                        faults_add_relay_incident(faults, CAUSE_UNFINISHED, i, WORLD_MAX_IN_FLIGHT);
                break;
        case NEWS_RELOADED:
                faults_note(faults, "relay %c has reloaded", slot->name);
                faults->n_reloads++;
                break;
        case NEWS_RELOADED_UNFINISHED:
                faults_note(faults, "relay %c has reloaded at its drain limit", slot->name);
                faults->n_reloads++;
                if (may_go_wrong(faults))
                        faults_add_incident(
                            faults, CAUSE_UNFINISHED, ALL_SINKS, WORLD_MAX_IN_FLIGHT);
                break;
        case NEWS_RELOAD_FAILED:
                faults_note(faults, "relay %c could not reload", slot->name);
                if (!may_go_wrong(faults))
                        test_abort("relay %c could not reload, with nothing wrong; see %s",
                            slot->name, slot->log_path);
                break;
        }
        if (slot->state == RELAY_DOWN && !slot->is_away && clock_monotonic_us() >= slot->restart_us)
                relay_slot_start(slot, may_crash);
}

static void see_to_relays(struct faults *faults)
{
        for (int i = 0; i < N_RELAYS; i++)
                see_to_relay(faults, i);
        rollout_see_to(&faults->rollout, faults->world);
}

static void tell_newcomers(const struct world *world)
{
        bool is_nobody = true;

        for (int i = 0; i < N_RELAYS; i++)
                is_nobody =
                    is_nobody && world->relays[i].is_away && world->relays[i].state == RELAY_DOWN;
        if (world->newcomers != NULL)
                newcomers_note_nobody(world->newcomers, is_nobody);
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* A server that takes long to come back holds everything up: the plan then waits, rather than do at
 * once all that has become due meanwhile. */
static void wait_with_plan(struct faults *faults, int64_t since_us)
{
        int64_t took_us = clock_monotonic_us() - since_us;

        if (took_us > 200 * 1000)
                faults->began_us += took_us;
}

static void begin_next(struct faults *faults)
{
        const struct chaos_step *step = &faults->plan->steps[faults->n_begun++];
        int64_t since_us = clock_monotonic_us();
        size_t incident = SIZE_MAX;

        if (faults->n_running == sizeof faults->running / sizeof faults->running[0])
                test_abort("too many faults at once");
        faults_note(faults, "%s (%u) for %" PRId64 " ms", step_name(step->kind), step->target,
            step->for_ms);
        if (!step_begin(faults, step, &incident)) {
                faults_note(faults, "  not now");
                return;
        }
        wait_with_plan(faults, since_us);
        faults->n_done[step->kind]++;
        faults->running[faults->n_running++] = (struct running){
            .step = step, .end_ms = faults_now_ms(faults) + step->for_ms, .incident = incident};
}

static void end_running(struct faults *faults, unsigned i)
{
        struct running ending = faults->running[i];
        int64_t since_us = clock_monotonic_us();

        if (!ending.has_ended)
                step_end(faults, ending.step);
        wait_with_plan(faults, since_us);
        faults->running[i].has_ended = true;
        if (!step_is_over(faults, ending.step))
                return;
        faults->running[i] = faults->running[--faults->n_running];
        heal_incident(faults, ending.incident);
        if (ending.incident != SIZE_MAX)
                faults_note(
                    faults, "%s (%u) is over", step_name(ending.step->kind), ending.step->target);
}

void faults_turn(struct faults *faults)
{
        for (unsigned i = faults->n_running; i-- > 0;)
                if (faults_now_ms(faults) >= faults->running[i].end_ms)
                        end_running(faults, i);
        while (!faults->is_over && faults->n_begun < faults->plan->n_steps &&
               faults->plan->steps[faults->n_begun].at_ms <= faults_now_ms(faults))
                begin_next(faults);
        see_to_relays(faults);
        receivers_see_to(&faults->world->receivers);
        broker_steps_see_to(faults);
        tell_newcomers(faults->world);
        faults->turned_us = clock_wall_us();
}

void faults_heal(struct faults *faults)
{
        static const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};

        faults->is_over = true;
        while (faults->n_running > 0) {
                for (unsigned i = faults->n_running; i-- > 0;)
                        end_running(faults, i);
                see_to_relays(faults);
                nanosleep(&pause, NULL);
        }
        faults_note(faults, "all is well again");
}

void faults_init(
    struct faults *faults, struct world *world, const struct chaos_plan *plan, FILE *log)
{
        *faults = (struct faults){.world = world,
            .plan = plan,
            .log = log,
            .began_us = clock_monotonic_us(),
            .turned_us = clock_wall_us()};
        rollout_watch(world->dsn);
}

void faults_deinit(struct faults *faults)
{
        free(faults->incidents);
}
