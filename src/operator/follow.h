/*
 * One event's way, from the database alone: a lane whose durable cursor has
 * passed it has delivered it, unless it is parked or dead. That is known when
 * the lane settles, some 20 ms after the delivery itself.
 */
#pragma once

#include "base/error.h"
#include "pg/blocking_conn.h"

#include <stdbool.h>
#include <stdint.h>

struct followed {
        char id[24];
        char xid[24];
        char event_id[40];
        char committed_at[48]; /* by the server's clock, when the commit had returned */
};

/* Publishes in a transaction of its own. `payload` is JSON; the last three may be NULL. The role
 * must be allowed both to publish and to read. */
bool follow_publish(struct blocking_conn *conn, const char *topic, const char *payload,
    const char *key, const char *type, const char *headers, struct followed *out_followed,
    struct error *error) __attribute__((warn_unused_result));

/* What became of it in one lane: one row. */
enum follow_column {
        FOLLOW_MS,         /* since the commit */
        FOLLOW_HAS_CURSOR, /* a relay has run the lane */
        FOLLOW_IS_PASSED,  /* and it has come so far */
        FOLLOW_IS_OWNED,   /* a relay owns it now */
        FOLLOW_PAUSED_BY,  /* "operator", "relay" or NULL */
        FOLLOW_PAUSED_WHY,
        FOLLOW_PARKED_STATE, /* NULL: it is not parked */
        FOLLOW_PARKED_ATTEMPTS,
        FOLLOW_PARKED_DUE, /* HH:MM:SS UTC */
        FOLLOW_PARKED_ERROR,
        FOLLOW_DEAD_ID, /* NULL: it is not dead */
        FOLLOW_DEAD_REASON,
        FOLLOW_DEAD_ERROR,
};
struct rows *follow_look(struct blocking_conn *conn, const struct followed *followed,
    const char *sink, int32_t lane, struct error *error) __attribute__((warn_unused_result));
