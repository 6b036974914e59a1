#include "torture/sweep.h"

#include "base/alloc.h"
#include "support/process.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A call to let fail. */
struct call {
        unsigned n;
        uint64_t stack;
};

/* The first call of each stack in the list, or all calls. */
static struct call *choose(const char *list_path, bool all, unsigned *out_n)
{
        FILE *file = fopen(list_path, "r");
        struct call *calls = NULL;
        struct call call;
        unsigned n = 0;

        while (file != NULL && fscanf(file, "%u %" SCNx64, &call.n, &call.stack) == 2) {
                unsigned i = 0;
                while (!all && i < n && calls[i].stack != call.stack)
                        i++;
                if (!all && i < n)
                        continue;
                calls = xrealloc(calls, (n + 1) * sizeof *calls);
                calls[n++] = call;
        }
        if (file != NULL)
                fclose(file);
        *out_n = n;
        return calls;
}

static unsigned number_from(const char *name, unsigned fallback)
{
        const char *text = getenv(name);

        return text != NULL && *text >= '0' && *text <= '9' ? (unsigned)strtoul(text, NULL, 10)
                                                            : fallback;
}

/* True if a call did fail. */
static bool run_setting(const struct torture_sweep *sweep, const char *setting)
{
        struct stat list;

        unlink(sweep->list_path);
        sweep->run(sweep->owner, setting);
        return stat(sweep->list_path, &list) == 0 && list.st_size > 0;
}

static bool run_call(const struct torture_sweep *sweep, const struct call *call, bool by_number)
{
        char *setting =
            by_number ? xasprintf("%s:%u%s", sweep->kind, call->n, sweep->suffix)
                      : xasprintf("%s:@%016" PRIx64 "%s", sweep->kind, call->stack, sweep->suffix);
        bool is_hit = run_setting(sweep, setting);

        free(setting);
        return is_hit;
}

/* TORTURE_RUNS: so many of the stacks, evenly spread; "stacks": all of them; "all": each call. */
static unsigned run_chosen(const struct torture_sweep *sweep)
{
        unsigned seed = number_from("TORTURE_SEED", 1);
        const char *runs = getenv("TORTURE_RUNS");
        bool all = runs != NULL && strcmp(runs, "all") == 0;
        unsigned n_calls;
        struct call *calls = choose(sweep->list_path, all, &n_calls);
        unsigned n_runs = n_calls;
        unsigned n_hits = 0;

        if (!all && (runs == NULL || strcmp(runs, "stacks") != 0))
                n_runs = number_from("TORTURE_RUNS", sweep->n_samples);
        if (n_runs > n_calls)
                n_runs = n_calls;
        for (unsigned i = 0; i < n_runs; i++)
                n_hits +=
                    run_call(sweep, &calls[(i * (uint64_t)n_calls / n_runs + seed) % n_calls], all);
        printf("%s%s: %u calls failed in %u runs, of %u calls to choose from\n", sweep->kind,
            sweep->suffix, n_hits, n_runs, n_calls);
        fflush(stdout);
        cr_expect_gt(n_calls, 0, "no call of the kind %s was seen", sweep->kind);
        cr_expect_geq(2 * n_hits, n_runs, "%s: in only %u of %u runs did a call fail", sweep->kind,
            n_hits, n_runs);
        free(calls);
        return n_hits;
}

/* True if TORTURE_ONLY, such as "libpq:17", is of another kind. */
static bool is_unwanted(const char *only, const struct torture_sweep *sweep)
{
        bool is_kind = strncmp(only, sweep->kind, strlen(sweep->kind)) == 0 &&
                       only[strlen(sweep->kind)] == ':';

        return !is_kind || (strchr(only, '+') != NULL) != (*sweep->suffix == '+');
}

unsigned torture_sweep(const struct torture_sweep *sweep)
{
        const char *only = getenv("TORTURE_ONLY");
        char *list;

        if (only != NULL)
                return is_unwanted(only, sweep) ? 0 : run_setting(sweep, only);
        list = xasprintf("%s:0", sweep->kind);
        run_setting(sweep, list);
        free(list);
        return run_chosen(sweep);
}

void torture_start(struct process *process, const char *const *argv, const char *output_path,
    const char *list_path, const char *setting)
{
        const char *interpose = getenv("PGCOURIER_INTERPOSE");
        char *sanitizer = xasprintf(
            "detect_stack_use_after_return=1:verify_asan_link_order=0:handle_abort=1:exitcode=%d",
            TORTURE_REPORTED);

        if (argv[0] == NULL || interpose == NULL)
                test_abort("PGCOURIER and PGCOURIER_INTERPOSE are not set: run this with ctest");
        /* The child inherits them; everything else that is started later must not. */
        setenv("ASAN_OPTIONS", sanitizer, 1);
        if (setting != NULL) {
                process_preload(interpose);
                setenv("PGCOURIER_TORTURE", setting, 1);
                setenv("PGCOURIER_TORTURE_LOG", list_path, 1);
        }
        process_start(process, argv, output_path, false);
        process_preload(NULL);
        unsetenv("PGCOURIER_TORTURE");
        unsetenv("PGCOURIER_TORTURE_LOG");
        free(sanitizer);
}

bool torture_is_allowed(int code)
{
        return code == 0 || code == 1 || code == 4 || code == 5 || code == 75;
}

static void print_tail(const char *path, long from)
{
        char *text = read_file(path);
        size_t length = strlen(text);
        const char *tail = (size_t)from < length ? text + from : "";

        if (strlen(tail) > 6000)
                tail = text + length - 6000;
        fprintf(stderr, "%s", tail);
        free(text);
}

void torture_complain(const char *list_path, const char *output_path, long from,
    const char *setting, const char *what)
{
        fprintf(stderr, "\n==== PGCOURIER_TORTURE=%s: %s\n", setting != NULL ? setting : "", what);
        print_tail(list_path, 0);
        fprintf(stderr, "---- it said:\n");
        print_tail(output_path, from);
}
