/*
 * Tells how long a receiver has been failing without a single success, and what
 * follows from that. Pure.
 *
 *   WELL    -failure->                          AILING
 *   AILING  -failing for HEALTH_NOTE_AFTER_MS-> NOTED     logged, and noted in the database
 *   NOTED   -failing for disable_after->        GIVEN_UP
 *   AILING  -success-> WELL        NOTED -success-> WELL, logged
 *
 * Time alone changes nothing: a receiver is noted or given up by its next failure.
 */
#pragma once

#include "pgcourier/outcome.h"

#include <stdint.h>

/* Longer than a restart of the receiver, which is not worth an event. */
#define HEALTH_NOTE_AFTER_MS 60000

enum health_state { HEALTH_WELL, HEALTH_AILING, HEALTH_NOTED, HEALTH_GIVEN_UP };

struct health {
        enum health_state state;
        int64_t failing_since_ms; /* unless WELL */
};

enum health_news {
        HEALTH_NO_NEWS,
        HEALTH_FAILING,   /* it has been failing for HEALTH_NOTE_AFTER_MS */
        HEALTH_RECOVERED, /* after HEALTH_FAILING */
        HEALTH_HOPELESS,  /* give it up */
};

/* As it is noted in the database: failing for so long, or (negative) not at all. */
void health_init(struct health *health, int64_t failing_for_ms, int64_t now_ms);

/* An attempt ended with this outcome. `disable_after_ms` 0: never give up because of time. */
enum health_news health_note(
    struct health *health, const struct outcome *outcome, int64_t now_ms, int64_t disable_after_ms);
