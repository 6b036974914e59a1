/*
 * Takeovers that PostgreSQL itself was in the way of are left out, as are those of shards that are
 * gone because their sink was divided anew; how fast lanes come back after PostgreSQL does is
 * counted on its own.
 */
#include "chaos/report.h"

#include "base/alloc.h"
#include "chaos/owners.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- times ----------------------------------------------------------------------------------- */

struct times {
        struct span {
                int64_t from_us, us;
                const char *sink;
        } * each; /* owned */
        size_t n;
};

static void times_add(struct times *times, enum chaos_sink sink, int64_t from_us, int64_t until_us)
{
        times->each = xrealloc(times->each, (times->n + 1) * sizeof *times->each);
        times->each[times->n++] = (struct span){
            .from_us = from_us, .us = until_us - from_us, .sink = chaos_sink_name(sink)};
}

static int by_length(const void *a_, const void *b_)
{
        const struct span *a = a_, *b = b_;

        return (a->us > b->us) - (a->us < b->us);
}

static void times_print(struct times *times, const char *what)
{
        const struct span *worst;
        time_t from_s;
        struct tm utc;

        if (times->n > 0) {
                qsort(times->each, times->n, sizeof *times->each, by_length);
                worst = &times->each[times->n - 1];
                from_s = (time_t)(worst->from_us / 1000000);
                gmtime_r(&from_s, &utc);
                printf("  %-48s %4zu %8.0f %8.0f  %s, %02d:%02d:%02d\n", what, times->n,
                    (double)times->each[times->n / 2].us / 1000, (double)worst->us / 1000,
                    worst->sink, utc.tm_hour, utc.tm_min, utc.tm_sec);
        }
        free(times->each);
}

static bool is_about_postgres(const struct incident *incident)
{
        return incident->judged.cause == CAUSE_SESSION ||
               incident->judged.cause == CAUSE_PG_PASSWORD ||
               incident->judged.cause == CAUSE_PG_CRASH || incident->judged.cause == CAUSE_PG_LINK;
}

static bool postgres_is_in_the_way(const struct faults *faults, int64_t begin_us, int64_t end_us)
{
        for (size_t i = 0; i < faults->n_incidents; i++) {
                const struct incident *incident = &faults->incidents[i];
                if (is_about_postgres(incident) && incident->judged.begin_us <= end_us &&
                    incident->judged.end_us >= begin_us)
                        return true;
        }
        return false;
}

/* Or its network does, or has not stopped to fail. */
static bool postgres_fails_again(const struct faults *faults, int64_t begin_us, int64_t end_us)
{
        for (size_t i = 0; i < faults->n_incidents; i++) {
                const struct incident *incident = &faults->incidents[i];
                if (is_about_postgres(incident) && incident->judged.begin_us <= end_us &&
                    incident->healed_us > begin_us)
                        return true;
        }
        return false;
}

static void measure_takeover(const struct faults *faults, const struct owners *owners,
    const struct incident *incident, enum chaos_sink sink, int shard, struct times *times)
{
        int64_t lost_us = incident->judged.begin_us + 100 * 1000;
        int64_t owned_us = owners_next(owners, sink, shard, lost_us);
        int64_t divided_us = owners_next_division(owners, sink, lost_us);

        if (owned_us > 0 && owners_find(owners, sink, shard, lost_us) == incident->relay &&
            (divided_us < 0 || divided_us > owned_us) &&
            !postgres_is_in_the_way(faults, lost_us, owned_us))
                times_add(times, sink, lost_us, owned_us);
}

static void measure_takeovers(
    const struct faults *faults, const struct owners *owners, enum cause cause, struct times *times)
{
        for (size_t i = 0; i < faults->n_incidents; i++) {
                const struct incident *incident = &faults->incidents[i];
                if (incident->judged.cause != cause || incident->relay < 0)
                        continue;
                for (int s = 0; s < N_SINKS; s++)
                        for (int shard = 0; shard < MAX_SHARDS; shard++)
                                measure_takeover(
                                    faults, owners, incident, (enum chaos_sink)s, shard, times);
        }
}

static void measure_postgres(
    const struct faults *faults, const struct owners *owners, enum cause cause, struct times *times)
{
        for (size_t i = 0; i < faults->n_incidents; i++) {
                const struct incident *incident = &faults->incidents[i];
                bool was_down = incident->judged.cause == cause &&
                                (cause != CAUSE_SESSION ||
                                    incident->healed_us > incident->judged.begin_us + 150 * 1000);
                for (int s = 0; was_down && s < N_SINKS; s++) {
                        int64_t owned_us = owners_next(
                            owners, (enum chaos_sink)s, ALL_SHARDS, incident->healed_us);
                        if (owned_us > 0 &&
                            !postgres_fails_again(faults, incident->healed_us, owned_us))
                                times_add(times, (enum chaos_sink)s, incident->healed_us, owned_us);
                }
        }
}

/* From the end of a destination's fault to the next arrival there. */
static void measure_destinations(const struct faults *faults, enum cause cause, struct times *times)
{
        for (size_t i = 0; i < faults->n_incidents; i++) {
                const struct incident *incident = &faults->incidents[i];
                for (int s = 0; s < N_SINKS && incident->judged.cause == cause; s++) {
                        const struct arrivals *arrivals = &faults->world->arrivals[s];
                        size_t next = 0;
                        /* Of the one that is added anew, only what came since is known; and of
                         * those that come and go, not whether there was anything to come. */
                        if ((incident->judged.sinks >> s & 1u) == 0 || s == SINK_PASSING ||
                            s == SINK_FRESH)
                                continue;
                        while (
                            next < arrivals->n && arrivals->each[next].at_us < incident->healed_us)
                                next++;
                        if (next < arrivals->n)
                                times_add(times, (enum chaos_sink)s, incident->healed_us,
                                    arrivals->each[next].at_us);
                }
        }
}

/* From when a delayed event is due to its first arrival. */
static void measure_delays(const struct world *world, struct times *times)
{
        for (int s = 0; s < N_SINKS; s++) {
                const struct arrivals *arrivals = &world->arrivals[s];
                for (size_t i = 0; i < arrivals->n; i++)
                        if (arrivals->each[i].due_us > 0)
                                times_add(times, (enum chaos_sink)s, arrivals->each[i].due_us,
                                    arrivals->each[i].at_us);
        }
}

static void print_times(const struct faults *faults, const struct owners *owners)
{
        struct times killed = {0}, crashed = {0}, frozen = {0}, postgres = {0}, password = {0},
                     redis_password = {0}, destination = {0}, network = {0}, delayed = {0},
                     broker = {0}, broker_back = {0};

        measure_takeovers(faults, owners, CAUSE_KILL, &killed);
        measure_takeovers(faults, owners, CAUSE_CRASH, &crashed);
        measure_takeovers(faults, owners, CAUSE_FREEZE, &frozen);
        measure_postgres(faults, owners, CAUSE_PG_CRASH, &postgres);
        measure_postgres(faults, owners, CAUSE_SESSION, &postgres);
        measure_postgres(faults, owners, CAUSE_PG_PASSWORD, &password);
        measure_destinations(faults, CAUSE_REDIS_PASSWORD, &redis_password);
        measure_destinations(faults, CAUSE_DESTINATION, &destination);
        measure_destinations(faults, CAUSE_LINK, &network);
        measure_destinations(faults, CAUSE_BROKER_KILL, &broker);
        measure_destinations(faults, CAUSE_BROKER_AWAY, &broker_back);
        measure_destinations(faults, CAUSE_BROKER_SHORT, &broker_back);
        measure_destinations(faults, CAUSE_BROKER_REFUSES, &broker_back);
        measure_delays(faults->world, &delayed);
        printf("\n  %-48s %4s %8s %8s\n", "times in ms", "n", "median", "worst");
        times_print(&killed, "owner killed: until its lane is owned again");
        times_print(&crashed, "owner crashed: until its lane is owned again");
        times_print(&frozen, "owner frozen: until its lane is owned again");
        times_print(&postgres, "PostgreSQL accepts again: until a lane is owned");
        times_print(&password, "PostgreSQL's password changed: until it is owned");
        times_print(&redis_password, "Redis' password changed: until the next arrival");
        times_print(&destination, "destination well again: until the next arrival");
        times_print(&broker, "broker answers after a kill: until the next arrival");
        times_print(&broker_back, "broker well again: until the next arrival");
        times_print(&network, "network well again: until the next arrival");
        times_print(&delayed, "delayed event due: until it arrives, faults included");
}

/* ---- counts ---------------------------------------------------------------------------------- */

/* Some of the sinks: the columns of one table. */
struct columns {
        const struct chaos_verdict *verdicts;
        int from, to;
};

static void print_row(const char *what, const struct columns *columns, size_t offset)
{
        const struct chaos_verdict *verdicts = columns->verdicts;

        printf("  %-40s", what);
        for (int s = columns->from; s < columns->to; s++) {
                size_t count;
                memcpy(&count, (const char *)&verdicts[s] + offset, sizeof count);
                printf(" %9zu", count);
        }
        putchar('\n');
}

#define ROW(what, member) print_row(what, columns, offsetof(struct chaos_verdict, member))

static void print_repeated(const struct columns *columns)
{
        for (unsigned cause = 0; cause < N_CAUSES; cause++) {
                char what[64];
                size_t n = 0;
                for (int s = columns->from; s < columns->to; s++)
                        n += columns->verdicts[s].n_repeated_by[cause];
                if (n == 0)
                        continue;
                snprintf(what, sizeof what, "  %s", cause_name((enum cause)cause));
                ROW(what, n_repeated_by[cause]);
                if (cause == CAUSE_KILL || cause == CAUSE_CRASH || cause == CAUSE_BROKER_KILL)
                        ROW("    at most, each time", most_repeated_by[cause]);
        }
}

static void print_table(const struct columns *columns)
{
        printf("  %-40s", "");
        for (int s = columns->from; s < columns->to; s++)
                printf(" %9s", chaos_sink_name((enum chaos_sink)s));
        putchar('\n');
        ROW("events committed", n_wanted);
        ROW("arrivals", n_arrivals);
        ROW("dead letters", n_dead);
        ROW("  for a filter that took too long", n_dead_for_filter);
        ROW("lost", n_lost);
        ROW("order violations", n_misordered);
        ROW("rolled back, and arrived", n_uncommitted);
        ROW("dead without need", n_needlessly_dead);
        ROW("delivered before they were due", n_early);
        ROW("committed in the calm", n_timed);
        ROW("  and late", n_late);
        ROW("duplicates", n_repeated);
        print_repeated(columns);
        ROW("  unexplained", n_unexplained);
        putchar('\n');
}

/* Those that take no part are said, lest their noughts be taken for a result. */
static void print_brokers(const struct world *world, const struct chaos_verdict *verdicts)
{
        if (world->brokers.present != 0)
                print_table(&(struct columns){verdicts, SINK_NATS, N_PLAIN_SINKS});
        for (int broker = 0; broker < N_BROKERS; broker++)
                if (!brokers_have(&world->brokers, (enum broker)broker))
                        printf("  %s takes no part%s\n", broker_name((enum broker)broker),
                            (brokers_available() >> broker & 1u) != 0
                                ? ""
                                : ": it is not here; scripts/deps --kafka gets it");
        putchar('\n');
}

static void print_faults(const struct faults *faults)
{
        printf("\n  faults: %u kills of a relay, %u of them at any time", faults_n_kills(faults),
            faults->n_done[STEP_RELAY_KILL]);
        for (int i = 0; i < N_CRASH_POINTS; i++)
                printf(",\n    %u %s", faults->n_crashes_at[i], relay_crash_points[i]);
        for (int kind = STEP_RELAY_STOP; kind < STEP_LINK; kind++)
                if (faults->n_done[kind] > 0)
                        printf(
                            ",\n    %u %s", faults->n_done[kind], step_name((enum step_kind)kind));
        printf(",\n    %u reloads", faults->n_reloads);
        for (int kind = FAULT_DELAY; kind <= FAULT_REFUSE; kind++)
                if (faults->n_network[kind] > 0)
                        printf(",\n    %u network: %s", faults->n_network[kind],
                            fault_kind_name((enum fault_kind)kind));
        putchar('\n');
}

static void print_receivers(const struct world *world)
{
        const struct dear_filter *filter = &world->receivers.filter;

        printf("  dear filters: %zu, receiver disabled for them: %u\n", filter->n_spans,
            filter->n_disabled);
        if (world->newcomers != NULL)
                printf("  receivers that came: %u, while no relay ran: %u\n",
                    newcomers_count(world->newcomers), newcomers_n_late(world->newcomers));
}

static void print_taps(const struct taps *taps)
{
        printf("  rows of the attached table: %" PRId64 " marked, %" PRId64
               " marked as given up, %" PRId64 " not marked, %" PRIu64 " too early (%" PRIu64
               " looks), %" PRId64 " marks given up; %" PRIu64 " rows locked for a while\n",
            taps->n_marked, taps->n_marked_dead, taps->n_unmarked, taps->n_too_early, taps->n_looks,
            taps->n_dead_marks, taps->n_locked);
}

static void print_rollouts(const struct rollout *rollout, const struct owners *owners)
{
        uint64_t n_abandoned = 0;

        for (size_t i = 0; i < owners->n_abandoned; i++)
                n_abandoned += owners->abandoned[i].n_in_flight;
        printf("  rolling restarts: %u; sinks divided anew: %zu times, of these planned: %u, "
               "planned and "
               "overdue: %u; configurations older than the one in force: %u\n",
            rollout->n_rolled, owners->n_divisions, rollout->n_planned, rollout->n_overdue,
            owners->n_waiting);
        printf("  shards handed over: %u; of these, and of divisions, attempts given up: %" PRIu64
               " (%zu shards)\n",
            owners->n_given, n_abandoned, owners->n_abandoned);
}

void report_print(const struct faults *faults, const struct chaos_verdict verdicts[N_SINKS],
    const struct ticks *ticks, double minutes, double settled_after_s)
{
        struct owners owners = owners_read(faults->world);

        printf("\nchaos: %.1f minutes, seed %" PRIu64
               "; everything had arrived %.1f s after the end\n\n",
            minutes, faults->world->options.seed, settled_after_s);
        print_table(&(struct columns){verdicts, 0, SINK_NATS});
        print_brokers(faults->world, verdicts);
        print_table(&(struct columns){verdicts, SINK_ALL, SINK_LIMITED + 1});
        print_table(&(struct columns){verdicts, SINK_LIMITED + 1, N_SINKS});
        printf("  ticks of a schedule: %" PRId64 " due, %" PRId64 " published, %" PRId64
               " missing, %" PRId64 " twice\n",
            ticks->n_due, ticks->n_published, ticks->n_missing, ticks->n_repeated);
        print_taps(&faults->world->taps);
        print_receivers(faults->world);
        printf("  partitions of the outbox dropped: %u\n", faults->world->n_trimmed);
        print_rollouts(&faults->rollout, &owners);
        print_faults(faults);
        print_times(faults, &owners);
        owners_deinit(&owners);
}
