/*
 * What the relay has seen, for people: counters, histograms, the last minutes
 * and the last deliveries. Pure: it reads no clock and does no I/O, and belongs
 * to the one thread that runs the loop. The relay tells it what happens; the
 * admin endpoint reads the members and calls what is below.
 *
 * Times that are passed in (now_us) are those of the monotonic clock. What is
 * shown to people is the wall clock, which is known by its distance from
 * the other, renewed at each turn of the loop: so one reading of a clock does
 * for both.
 */
#pragma once

#include "base/list.h"
#include "telemetry/histogram.h"
#include "telemetry/recent.h"
#include "telemetry/sink_telemetry.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why lanes looked for news. */
enum wakeup_cause {
        WAKEUP_BY_NOTIFY,  /* a writer rang */
        WAKEUP_BY_POLL,    /* it was time to, because no writer would ring (or with wakeup: poll) */
        WAKEUP_BY_TIMER,   /* the sweep, which looks with or without a ring */
        WAKEUP_BY_CONTROL, /* an operator changed what is paused, parked or scheduled */
};
#define WAKEUP_CAUSES 4

const char *wakeup_cause_name(enum wakeup_cause cause); /* "notify", "poll", "timer", "control" */

struct telemetry {
        int64_t started_us;    /* wall clock */
        int64_t wall_minus_us; /* wall clock minus monotonic clock */
        struct list sinks;     /* sink_telemetry::link */
        struct recent recent;

        bool is_ready;       /* connected, schema known, every sink opened */
        char not_ready[256]; /* why not, in words; empty if it is */

        struct {
                bool is_up;
                char error[256];          /* why not; empty if it is */
                int64_t login_refused_us; /* wall clock; it does not let us in since then; 0: it is
                                             something else */
                char filters_error[256];  /* why filters cannot be asked; empty if they can */
                int64_t filters_since_us; /* wall clock */
                uint64_t reconnects;      /* times that it was lost and came back */
                bool was_up;
                struct histogram poll; /* asked for a page -> it came */
        } source;

        struct {
                int64_t loaded_us; /* wall clock: what is in force was read then */
                bool is_last_reload_ok;
                int64_t last_reload_us; /* wall clock; 0: never asked to */
                char error[1024];       /* of the last reload; empty if it went well */
        } config;

        struct {
                uint64_t marked; /* events, by this process */
                uint64_t failed; /* attempts that were the row's fault */
                uint64_t dead;
                char error[256];          /* why some cannot be marked; empty if all can */
                int64_t failing_since_us; /* wall clock */
        } marks;

        struct {
                uint64_t n;      /* attempts that could not be written to courier.attempt */
                int64_t told_us; /* monotonic clock; 0: never */
                char reason[256];
        } attempts_lost;

        uint64_t wakeups[WAKEUP_CAUSES];
        struct histogram loop_delay; /* how long one turn of the loop kept all others waiting */

        void (*on_refresh)(void *owner, int64_t now_us); /* or NULL */
        void *owner;
};

struct telemetry *telemetry_create(int64_t now_us, int64_t wall_us);
void telemetry_destroy(struct telemetry *telemetry); /* no sink is open any more; NULL is allowed */

/*
 * One more who counts for the sink of that name, and one less. Its series are
 * gone with the last: to replace a sink by another of its name, open the new one
 * first, so that the counters go on.
 */
struct sink_telemetry *telemetry_open_sink(
    struct telemetry *telemetry, const char *name, const char *kind, int64_t now_us);
void telemetry_set_target(struct sink_telemetry *sink, char *target); /* takes it */
void telemetry_close_sink(struct sink_telemetry *sink);               /* NULL is allowed */

/* NULL: there is none. */
struct sink_telemetry *telemetry_find_sink(const struct telemetry *telemetry, const char *name);

/* Before the gauges and states are read: has the relay set them. */
void telemetry_refresh(struct telemetry *telemetry, int64_t now_us);

int64_t telemetry_wall_us(const struct telemetry *telemetry, int64_t now_us);

/* A turn of the loop that began then ends now. */
void telemetry_see_turn(
    struct telemetry *telemetry, int64_t began_us, int64_t now_us, int64_t wall_us);

void telemetry_see_wakeup(struct telemetry *telemetry, enum wakeup_cause cause);
void telemetry_see_source_up(struct telemetry *telemetry);
void telemetry_see_source_down(struct telemetry *telemetry, const char *words);
/* Filters cannot be asked, for this reason; or (NULL) they can. */
void telemetry_see_filters(struct telemetry *telemetry, const char *words, int64_t now_us);
void telemetry_see_marks(
    struct telemetry *telemetry, uint64_t n_marked, uint64_t n_failed, uint64_t n_dead);
/* Some rows cannot be marked, for this reason; or (NULL) all can. */
void telemetry_see_marks_failing(struct telemetry *telemetry, const char *words, int64_t now_us);
/* Whether that is because it does not let us in. */
void telemetry_see_login(struct telemetry *telemetry, bool is_refused, int64_t now_us);
/* True: worth a line in the log, because there was none for this reason in the last minute. */
bool telemetry_see_attempts_lost(
    struct telemetry *telemetry, uint64_t n_attempts, const char *words, int64_t now_us);
void telemetry_see_poll(struct telemetry *telemetry, int64_t took_us);
void telemetry_see_reload(
    struct telemetry *telemetry, const char *error, int64_t now_us);        /* NULL: it went well */
void telemetry_set_ready(struct telemetry *telemetry, const char *why_not); /* NULL: it is */

/* Each entry of `recent` from now on is passed on at once; NULL ends that. */
void telemetry_listen(struct telemetry *telemetry, recent_noted_fn *on_noted, void *owner);
