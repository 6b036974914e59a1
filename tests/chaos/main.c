/*
 * A chaos run: writers publish while a plan made from a seed befalls the relays and everything
 * around them; then all is healed, everything has to arrive, and what arrived is judged.
 * docs/chaos.md tells how to run it and how to read its table.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "chaos/judgement.h"
#include "chaos/report.h"
#include "chaos/ticks.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Without progress. */
#define SETTLE_DEADLINE_S 60

/* Without traffic after so long, beacons are sent. */
#define QUIET_MS 5000

static volatile sig_atomic_t is_interrupted;

static void on_interrupt(int signal)
{
        (void)signal;
        is_interrupted = 1;
}

struct run {
        struct world world;
        struct chaos_plan plan;
        struct faults faults;
        FILE *log;
        struct chaos_verdict verdicts[N_SINKS];
        struct ticks ticks;
        bool is_filter_told_of;
        char filter_words[300]; /* what is wrong with that */
        double settled_after_s;
        bool has_settled;
        bool is_verbose;
};

/* ---- the course of it ------------------------------------------------------------------------ */

static void rest(void)
{
        const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};

        nanosleep(&pause, NULL);
}

static void cause_chaos(struct run *run)
{
        int64_t next_word_ms = 10000;

        while (!is_interrupted && faults_now_ms(&run->faults) < run->plan.end_ms) {
                faults_turn(&run->faults);
                if (run->is_verbose && faults_now_ms(&run->faults) >= next_word_ms) {
                        fprintf(stderr, "chaos: %" PRId64 " s, %u kills\n", next_word_ms / 1000,
                            faults_n_kills(&run->faults));
                        next_word_ms += 10000;
                }
                rest();
        }
}

/* Bursts have to be fast enough that no writer rings; nothing is lost in the calm. */
static void let_commits_return_early(const struct world *world, bool do_let)
{
        PGconn *admin = database_connect(world->dsn);

        database_exec(admin, do_let ? "ALTER SYSTEM SET synchronous_commit = off"
                                    : "ALTER SYSTEM RESET synchronous_commit");
        database_exec(admin, "SELECT pg_reload_conf(), pg_sleep(0.3)");
        if (!do_let)
                database_exec(admin, "CHECKPOINT");
        PQfinish(admin);
}

/* Nothing happens but that writers come in bursts, stay open for long and are silent for longer.
 * No relay sweeps: what is not noticed at once would be late. So would be what waited for a
 * customer's filter, which is dear from DEAR_MOOD on and through the silence after it. */
static void keep_calm(struct run *run, int64_t length_ms)
{
        struct world *world = &run->world;
        const struct {
                unsigned pause_us;
                int64_t for_ms;
        } moods[] = {{0, 60}, {10000000, 3000}, {world->options.pause_us, 800}, {10000000, 3000},
            {5000, 300}};
        enum { DEAR_MOOD = 2 };
        int64_t begin_ms = faults_now_ms(&run->faults), mood_until_ms = begin_ms;
        bool may_be_dear = (world->options.without & WITHOUT_FILTERS) == 0;

        while (!is_interrupted && redis_server_count(&world->redis, "XLEN " WORLD_STREAM) == 0)
                rest();
        let_commits_return_early(world, true);
        world->calm_from_us = clock_wall_us();
        for (unsigned i = 0;
             !is_interrupted && faults_now_ms(&run->faults) < begin_ms + length_ms;) {
                if (faults_now_ms(&run->faults) >= mood_until_ms) {
                        mood_until_ms = faults_now_ms(&run->faults) + moods[i % 5].for_ms;
                        writers_set_pause(world->writers, moods[i % 5].pause_us);
                        world->receivers.filter.wanted =
                            may_be_dear && (i % 5 == DEAR_MOOD || i % 5 == DEAR_MOOD + 1)
                                ? (int)(i / 5 + 1) % N_DEAR_FILTERS
                                : DEAR_FILTER_NONE;
                        i++;
                }
                receivers_see_to(&world->receivers);
                rest();
        }
        world->receivers.filter.wanted = DEAR_FILTER_NONE;
        writers_set_pause(world->writers, world->options.pause_us);
        world->calm_until_us = clock_wall_us();
        let_commits_return_early(world, false);
}

static int64_t count_parked(const struct world *world)
{
        PGconn *admin = database_connect(world->dsn);
        int64_t n = database_integer(admin, "SELECT count(*) FROM courier.parked");

        PQfinish(admin);
        return n;
}

/* Events that are to arrive yet; then what is parked, or not marked, though it arrived or died. What
 * is behind others is parked meanwhile: so of the two, only the first always shrinks. */
static uint64_t count_outstanding(struct run *run)
{
        uint64_t n_lost = 0;

        judge_world(&run->world, &run->faults, run->verdicts);
        for (int s = 0; s < N_SINKS; s++)
                n_lost += run->verdicts[s].n_lost;
        return n_lost > 0
                   ? n_lost + UINT32_MAX
                   : (uint64_t)count_parked(&run->world) + !taps_are_marked(&run->world.taps);
}

/* A destination that has only events left that it refuses looks as if it were down, and they
 * come to their end at the pace of probes: minutes. In an application others follow them. */
static void send_beacon(const struct world *world)
{
        PGconn *admin = database_connect(world->dsn);

        database_exec(admin, chaos_beacon_sql);
        PQfinish(admin);
}

/* With the relays as they are, until everything that was committed has arrived or is dead. */
static void await_everything(struct run *run)
{
        int64_t began_ms = faults_now_ms(&run->faults), progress_ms = began_ms;
        uint64_t fewest = UINT64_MAX;

        while (!is_interrupted && !run->has_settled &&
               faults_now_ms(&run->faults) - progress_ms < SETTLE_DEADLINE_S * 1000) {
                uint64_t n;
                for (int i = 0; i < 50; i++) {
                        faults_turn(&run->faults);
                        rest();
                }
                if (faults_now_ms(&run->faults) - began_ms > QUIET_MS)
                        send_beacon(&run->world);
                n = count_outstanding(run);
                if (n < fewest) {
                        fewest = n;
                        progress_ms = faults_now_ms(&run->faults);
                }
                run->has_settled = n == 0;
                run->settled_after_s = (double)(faults_now_ms(&run->faults) - began_ms) / 1000;
        }
}

static void await_end(struct relay_slot *slot)
{
        while (slot->state != RELAY_DOWN) {
                relay_slot_look(slot);
                rest();
        }
}

/* Stops all; then one runs for a moment more: if all was settled, nothing arrives again. */
static void stop_relays(struct run *run)
{
        for (int i = 0; i < N_RELAYS; i++)
                relay_slot_stop(&run->world.relays[i]);
        for (int i = 0; i < N_RELAYS; i++)
                await_end(&run->world.relays[i]);
        relay_slot_start(&run->world.relays[0], false);
        for (int i = 0; i < 250; i++)
                rest();
        relay_slot_stop(&run->world.relays[0]);
        await_end(&run->world.relays[0]);
}

/* For the search for a fault: each arrival with its time, as in the other logs. */
static void keep_arrivals(const struct run *run, enum chaos_sink sink)
{
        const struct arrivals *arrivals = &run->world.arrivals[sink];
        char *path = xasprintf("%s/arrivals-%s.log", run->world.folder, chaos_sink_name(sink));
        FILE *file = fopen(path, "w");

        for (size_t i = 0; i < arrivals->n && file != NULL; i++) {
                const struct arrived *arrived = &arrivals->each[i];
                time_t at_s = (time_t)(arrived->at_us / 1000000);
                struct tm utc;
                gmtime_r(&at_s, &utc);
                fprintf(file, "%02d:%02d:%02d.%06d %u %u\n", utc.tm_hour, utc.tm_min, utc.tm_sec,
                    (int)(arrived->at_us % 1000000), arrived->writer, arrived->number);
        }
        if (file != NULL)
                fclose(file);
        free(path);
}

static bool are_divided(const struct run *run)
{
        bool are_planned = false;

        for (size_t i = 0; i < run->plan.n_steps; i++)
                are_planned = are_planned || run->plan.steps[i].kind == STEP_RESHARD;
        return run->faults.rollout.n_overdue == 0 &&
               (run->faults.rollout.n_planned > 0 || !are_planned);
}

static bool is_good(const struct run *run)
{
        bool good = run->has_settled;

        if (!run->has_settled)
                printf("\nBROKEN  not everything had arrived, and nothing more came for %d s\n",
                    SETTLE_DEADLINE_S);
        for (int s = 0; s < N_SINKS; s++)
                if (!chaos_is_clean(&run->verdicts[s])) {
                        printf("\nBROKEN  %s: %s\n", chaos_sink_name((enum chaos_sink)s),
                            run->verdicts[s].first_fault);
                        keep_arrivals(run, (enum chaos_sink)s);
                        good = false;
                }
        if (run->ticks.n_repeated != 0 || run->ticks.n_missing != 0) {
                printf("\nBROKEN  ticks are missing, or came again\n");
                good = false;
        }
        if (run->world.taps.n_unmarked != 0 || run->world.taps.n_too_early != 0 ||
            run->world.taps.n_dead_marks != 0) {
                printf("\nBROKEN  rows of the attached table are not marked, or were too early\n");
                good = false;
        }
        if (!run->is_filter_told_of) {
                printf("\nBROKEN  choosy: %s\n", run->filter_words);
                good = false;
        }
        if (!are_divided(run)) {
                printf("\nBROKEN  a sink was to be divided anew, and was not\n");
                good = false;
        }
        if (run->world.n_trimmed == 0) {
                printf("\nBROKEN  nothing of the outbox was dropped\n");
                good = false;
        }
        return good;
}

static void judge_filter(struct run *run)
{
        PGconn *admin = database_connect(run->world.dsn);

        run->is_filter_told_of = dear_filter_is_told_of(
            &run->world.receivers.filter, admin, run->filter_words, sizeof run->filter_words);
        PQfinish(admin);
}

static int conduct(struct run *run, const struct world_options *options, int64_t length_ms,
    int64_t calm_ms, enum chaos_scope scope)
{
        char *log_path;

        world_begin(&run->world, options);
        log_path = xasprintf("%s/faults.log", run->world.folder);
        run->log = fopen(log_path, "w");
        if (run->log == NULL)
                test_abort("cannot write %s", log_path);
        free(log_path);
        if (calm_ms < length_ms)
                run->plan = chaos_plan_make(
                    options->seed, length_ms - calm_ms, scope, world_brokers(options));
        faults_init(&run->faults, &run->world, &run->plan, run->log);
        keep_calm(run, calm_ms);
        if (calm_ms < length_ms)
                world_end_calm(&run->world);
        taps_start(&run->world.taps);
        ticks_begin(&run->ticks, &run->world); /* they would bring along what is late, too */
        run->faults.began_us = clock_monotonic_us();
        cause_chaos(run);
        faults_heal(&run->faults);
        writers_stop(run->world.writers);
        taps_stop(&run->world.taps);
        if (run->world.newcomers != NULL)
                newcomers_stop(run->world.newcomers);
        atomic_store(&run->world.has_written, true);
        await_everything(run);
        if (is_interrupted)
                return 130;
        stop_relays(run);
        ticks_judge(&run->ticks, &run->world); /* before more of them are due */
        run->world.n_trimmed = trimmer_stop(run->world.trimmer);
        judge_world(&run->world, &run->faults, run->verdicts);
        taps_judge(&run->world.taps);
        judge_filter(run);
        report_print(&run->faults, run->verdicts, &run->ticks, (double)length_ms / 60000,
            run->settled_after_s);
        return is_good(run) ? 0 : 1;
}

static void finish(struct run *run)
{
        world_end(&run->world);
        faults_deinit(&run->faults);
        chaos_plan_deinit(&run->plan);
        fclose(run->log);
}

/* ---- the command line ------------------------------------------------------------------------ */

static void usage(void)
{
        fputs("usage: chaos [--minutes N] [--seed S] [--writers N] [--pause-ms N]\n"
              "       [--without refusals | filters | passwords | newcomers | absences |\n"
              "                  nats | rabbitmq | kafka] ...\n"
              "       [--stops-only | --kills-only | --brokers-only | --calm] [--clusters] "
              "[--standby] [--verbose]\n",
            stderr);
        exit(2);
}

static double number(const char *text, double min, double max)
{
        char *end;
        double value;

        errno = 0;
        value = text != NULL ? strtod(text, &end) : 0;
        if (text == NULL || errno != 0 || *end != '\0' || end == text || !(value >= min) ||
            !(value <= max)) {
                fprintf(stderr, "chaos: '%s' is no number from %g to %g\n",
                    text != NULL ? text : "", min, max);
                usage();
        }
        return value;
}

static unsigned without(const char *name)
{
        static const char *const names[] = {"refusals", "filters", "passwords", "newcomers",
            "absences", "nats", "rabbitmq", "kafka"}; /* enum without */

        for (unsigned i = 0; i < sizeof names / sizeof names[0] && name != NULL; i++)
                if (strcmp(name, names[i]) == 0)
                        return 1u << i;
        usage();
        return 0;
}

int main(int argc, char **argv)
{
        struct world_options options = {.seed = (uint64_t)clock_wall_us() / 1000 % 1000000,
            .n_writers = 4,
            .pause_us = 150 * 1000};
        struct run run = {0};
        enum chaos_scope scope = SCOPE_ALL;
        double minutes = 1, calm_share = 0.15;
        int code;

        for (int i = 1; i < argc; i++) {
                if (strcmp(argv[i], "--minutes") == 0)
                        minutes = number(argv[++i], 0.2, 10000);
                else if (strcmp(argv[i], "--seed") == 0)
                        options.seed = (uint64_t)number(argv[++i], 0, 1e9);
                else if (strcmp(argv[i], "--writers") == 0)
                        options.n_writers = (unsigned)number(argv[++i], 1, 64);
                else if (strcmp(argv[i], "--pause-ms") == 0)
                        options.pause_us = (unsigned)(1000 * number(argv[++i], 0, 60000));
                else if (strcmp(argv[i], "--stops-only") == 0)
                        scope = SCOPE_STOPS;
                else if (strcmp(argv[i], "--kills-only") == 0)
                        scope = SCOPE_KILLS;
                else if (strcmp(argv[i], "--brokers-only") == 0)
                        scope = SCOPE_BROKERS;
                else if (strcmp(argv[i], "--without") == 0)
                        options.without |= without(argv[++i]);
                else if (strcmp(argv[i], "--clusters") == 0)
                        options.has_clusters = true;
                else if (strcmp(argv[i], "--standby") == 0)
                        options.has_standby = true;
                else if (strcmp(argv[i], "--calm") == 0)
                        calm_share = 1;
                else if (strcmp(argv[i], "--verbose") == 0)
                        run.is_verbose = true;
                else
                        usage();
        }
        if (getenv("PGCOURIER") == NULL)
                test_abort("the environment variable PGCOURIER must name the program");
        signal(SIGINT, on_interrupt);
        signal(SIGTERM, on_interrupt);
        setvbuf(stdout, NULL, _IOLBF, 0);
        printf("chaos: seed %" PRIu64 ", %g minutes\n", options.seed, minutes);
        code = conduct(&run, &options, (int64_t)(minutes * 60000),
            (int64_t)(minutes * 60000 * calm_share), scope);
        finish(&run);
        if (code == 1)
                _exit(code); /* the folders stay, with the logs */
        return code;
}
