/*
 * The deliveries of the last moments, for people to look at: the newest hundred
 * that were noted, of all sinks.
 *
 * Not each is noted, because copying one costs more than delivering it to
 * Redis: at most twenty deliveries that worked in each second, the first of
 * it, and a hundred that did not. Below these rates nothing is left out; the
 * counters count all.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECENT_MAX          100
#define RECENT_GOOD_PER_S   20
#define RECENT_FAILED_PER_S 100

/* How an attempt, or a delivery without one, ended. */
enum telemetry_outcome {
        TELEMETRY_DELIVERED,
        TELEMETRY_RETRY,     /* it failed, and is tried again */
        TELEMETRY_DEAD,      /* given up: a dead letter */
        TELEMETRY_DROPPED,   /* the attempt was broken off, or its end came too late to count (a
                              * shutdown, a lost connection to PostgreSQL): the event comes again */
        TELEMETRY_SINK_DOWN, /* the destination is not there: costs the event nothing */
};
#define TELEMETRY_OUTCOMES 5

/* "delivered", "retry", "dead", "dropped", "sink_down" */
const char *telemetry_outcome_name(enum telemetry_outcome outcome);

/* Texts are cut to fit, at whole characters; control characters are escaped. */
struct recent_delivery {
        int64_t at_us; /* wall clock */
        char sink[64];
        char endpoint[104]; /* of its receivers; empty: it has one destination */
        int64_t id;
        char event_id[37];
        char topic[128];
        bool has_key;
        char key[128];
        uint32_t attempt;
        enum telemetry_outcome outcome;
        char words[256];    /* what went wrong; else empty */
        int64_t latency_us; /* created -> now */
};

typedef void recent_noted_fn(void *owner, const struct recent_delivery *delivery);

struct recent {
        struct recent_delivery entries[RECENT_MAX];
        uint64_t n_noted;    /* ever; the newest is entries[(n_noted - 1) % RECENT_MAX] */
        uint64_t n_left_out; /* ever */
        int64_t second;      /* monotonic: these were noted in it */
        unsigned n_good, n_failed;

        recent_noted_fn *on_noted; /* or NULL */
        void *owner;
};

/* May one be noted now? If so it counts, and recent_note() has to follow. */
bool recent_admits(struct recent *recent, bool is_good, int64_t now_us);

/* Where to write it; complete it, then call recent_noted(). */
struct recent_delivery *recent_next(struct recent *recent);
void recent_noted(struct recent *recent);

/* How many there are, and the i-th, 0 being the newest. */
unsigned recent_count(const struct recent *recent);
const struct recent_delivery *recent_get(const struct recent *recent, unsigned i);
