/*
 * The whole program between real servers, started again and again with one call in it failing
 * (interpose.c). A round is: publish some events, run with a failing call, see how the run ended.
 * Some of the events are delayed, fail and are parked, or become dead letters and are redriven; a
 * sink is paused and resumed. After some rounds an untouched run brings what is still missing, and
 * what arrived is judged: every event at every sink or a dead letter, whole, and in the order of
 * its key.
 */
#pragma once

#include "support/http_receiver.h"
#include "support/relay_fixture.h"

enum torture_manner {
        RUN_ONCE,        /* run --once; ends by itself */
        RUN_UNTIL_THERE, /* run, until its events have arrived or it has ended */
        RUN_SHORTLY,     /* the same, but they need not arrive */
};

struct torture_rig {
        struct relay_fixture fixture;
        struct http_receiver *http;
        char *folder;
        char *config_path;
        char *output_path; /* all that relays printed: events and log */
        char *list_path;   /* written by the interposer */
        unsigned n_files;  /* limit of open files for the next runs; 0: none */

        unsigned n_rounds;
        unsigned n_faults;
        struct torture_arrivals *arrivals;
};

void torture_rig_begin(struct torture_rig *rig);
void torture_rig_end(struct torture_rig *rig); /* fails the test if there were faults */

/* Runs rounds in that manner with calls of that kind failing: which, is said in CONTRIBUTING.md.
 * `suffix` is "" or "+". Faults are printed with what it takes to repeat them. */
void torture_rig_run(
    struct torture_rig *rig, enum torture_manner manner, const char *kind, const char *suffix);

/* One round; `setting` is what PGCOURIER_TORTURE will be, NULL for none. Returns the exit code. */
int torture_rig_round(struct torture_rig *rig, enum torture_manner manner, const char *setting);

/* Runs untouched relays until nothing is missing. */
void torture_rig_judge(struct torture_rig *rig);

/* A test of nothing but torture_rig_run(). */
#define TORTURE(suite, name, manner, kind, suffix)                                                 \
        Test(suite, name)                                                                          \
        {                                                                                          \
                struct torture_rig rig;                                                            \
                                                                                                   \
                torture_rig_begin(&rig);                                                           \
                torture_rig_run(&rig, manner, kind, suffix);                                       \
                torture_rig_end(&rig);                                                             \
        }
