/*
 * How long a receiver has been failing without a single success, and what
 * follows from that. Pure.
 *
 *   WELL    -failure->                          AILING
 *   AILING  -failing for HEALTH_NOTE_AFTER_MS-> NOTED     it is told, and kept in the database
 *   NOTED   -failing for disable_after->        GIVEN_UP
 *   AILING  -success-> WELL        NOTED -success-> WELL, and it is told
 *
 * Time alone decides nothing: it takes another failure to be told or given up.
 */
#pragma once

#include "pgcourier/outcome.h"

#include <stdint.h>

/* A restart of the receiver is not worth an event. */
#define HEALTH_NOTE_AFTER_MS 60000

enum health_state { HEALTH_WELL, HEALTH_AILING, HEALTH_NOTED, HEALTH_GIVEN_UP };

struct health {
        enum health_state state;
        int64_t failing_since_ms; /* unless WELL */
};

enum health_news {
        HEALTH_NO_NEWS,
        HEALTH_FAILING,   /* it has been failing for a while */
        HEALTH_RECOVERED, /* after that was told */
        HEALTH_HOPELESS,  /* it is to be given up */
};

/* As the database knows it: failing for so long, or (negative) not. */
void health_init(struct health *health, int64_t failing_for_ms, int64_t now_ms);

/* An attempt ended so. `disable_after_ms` 0: never give up because of time. */
enum health_news health_note(
    struct health *health, const struct outcome *outcome, int64_t now_ms, int64_t disable_after_ms);
