/*
 * One call after the other fails: the program is run once with the interposer listing the calls of
 * a kind (interpose.c), then again for each stack that led to one. What a run is, and whether it
 * went well, is for the owner to say.
 */
#pragma once

#include <stdbool.h>

struct process;

struct torture_sweep {
        const char *kind;
        const char *suffix;    /* "", or "+": all later calls fail too */
        const char *list_path; /* where the interposer says what it saw, or what it let fail */
        unsigned n_samples;    /* so many runs, unless TORTURE_RUNS says otherwise */
        void (*run)(void *owner, const char *setting);
        void *owner;
};

/* Does nothing if TORTURE_ONLY wants another kind. Returns the number of runs in which a call did
 * fail. */
unsigned torture_sweep(const struct torture_sweep *sweep);

/* Starts argv (argv[0] is the program) with PGCOURIER_TORTURE=setting; NULL: with nothing
 * failing. A sanitizer's report ends it with TORTURE_REPORTED. */
void torture_start(struct process *process, const char *const *argv, const char *output_path,
    const char *list_path, const char *setting);

enum { TORTURE_REPORTED = 99 };

/* Done; system; database; sink; temporary. To blame the command line or the configuration for
 * a lack of resources would keep supervisors from trying again. */
bool torture_is_allowed(int code);

/* Prints what was wrong with a run, and what it takes to repeat it. */
void torture_complain(const char *list_path, const char *output_path, long from,
    const char *setting, const char *what);
