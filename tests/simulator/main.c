/*
 * Runs histories from one seed on. Whatever breaks a promise is printed with
 * its seed; `--seed S --trace` then tells that history.
 */
#include "simulator/history.h"

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char help[] =
    "usage: simulator [--histories N] [--seed S] [--jobs J] [--failures F] [--trace]\n"
    "\n"
    "Runs N histories (10000), from seed S (1) on, in J processes (1). Each is a lane of "
    "pgcourier\n"
    "between a simulated outbox and a simulated destination, through crashes and outages, with "
    "all\n"
    "promises checked. Stops after F failures (1); each is printed with its seed.\n"
    "\n"
    "  --trace   runs the one history of seed S and tells what happens in it\n";

struct options {
        uint64_t n_histories;
        uint64_t seed;
        unsigned n_jobs;
        unsigned max_failures;
        bool is_tracing;
};

static struct world world;
static uint64_t running_seed;

/* An assertion in the core or a sanitizer's complaint has a seed as well. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
        return "abort_on_error=1:detect_leaks=0";
}

static void on_abort(int number)
{
        char line[64];
        int length = snprintf(line, sizeof line, "seed %" PRIu64 ": aborted\n", running_seed);

        (void)number;
        if (write(STDERR_FILENO, line, (size_t)length) < 0)
                _exit(3);
        _exit(2);
}

/* Every n_jobs-th history from the first one on; how many failed. */
static unsigned run_share(const struct options *options, uint64_t first)
{
        unsigned n_failed = 0;

        for (uint64_t i = first; i < options->n_histories; i += options->n_jobs) {
                running_seed = options->seed + i;
                if (history_run(&world, running_seed, options->is_tracing))
                        continue;
                fprintf(stderr, "seed %" PRIu64 ", step %u: %s: %s\n", running_seed, world.n_steps,
                    world.failed_check, world.failure);
                if (++n_failed >= options->max_failures)
                        break;
        }
        return n_failed;
}

static bool run_shares(const struct options *options)
{
        bool all_passed = true;

        for (unsigned job = 0; job < options->n_jobs; job++) {
                pid_t child = fork();
                if (child == 0)
                        exit(run_share(options, job) >
                             0); /* not _exit(): what it reached is counted */
                all_passed &= child > 0;
        }
        for (int status; wait(&status) > 0;)
                all_passed &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
        return all_passed;
}

static uint64_t number_or_usage(const char *text)
{
        char *end;
        uint64_t number = strtoull(text, &end, 10);

        if (*text != '\0' && *end == '\0')
                return number;
        fprintf(stderr, "not a number: %s\n", text);
        exit(64);
}

static void read_options(struct options *options, int argc, char **argv)
{
        static const struct option names[] = {{"histories", required_argument, NULL, 'n'},
            {"seed", required_argument, NULL, 's'}, {"jobs", required_argument, NULL, 'j'},
            {"failures", required_argument, NULL, 'f'}, {"trace", no_argument, NULL, 't'},
            {"help", no_argument, NULL, 'h'}, {0}};

        for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
                if (c == 'n')
                        options->n_histories = number_or_usage(optarg);
                else if (c == 's')
                        options->seed = number_or_usage(optarg);
                else if (c == 'j')
                        options->n_jobs = (unsigned)number_or_usage(optarg);
                else if (c == 'f')
                        options->max_failures = (unsigned)number_or_usage(optarg);
                else if (c == 't')
                        options->is_tracing = true;
                else {
                        fputs(help, c == 'h' ? stdout : stderr);
                        exit(c == 'h' ? 0 : 64);
                }
        }
        if (options->is_tracing)
                options->n_histories = options->n_jobs = 1;
        if (options->n_jobs == 0)
                options->n_jobs = 1;
}

int main(int argc, char **argv)
{
        struct options options = {.n_histories = 10000, .seed = 1, .n_jobs = 1, .max_failures = 1};
        struct timespec began, ended;
        bool all_passed;
        double seconds;

        read_options(&options, argc, argv);
        signal(SIGABRT, on_abort);
        signal(SIGSEGV, on_abort);
        clock_gettime(CLOCK_MONOTONIC, &began);
        all_passed = options.n_jobs == 1 ? run_share(&options, 0) == 0 : run_shares(&options);
        clock_gettime(CLOCK_MONOTONIC, &ended);
        seconds =
            (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9;
        printf("%" PRIu64 " histories from seed %" PRIu64 " in %.1f s: %s\n", options.n_histories,
            options.seed, seconds, all_passed ? "every promise was kept" : "FAILED");
        return all_passed ? 0 : 1;
}
