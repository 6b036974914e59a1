/*
 * courier.cursor for the commands: how far each lane has come, which session owns it, and the removal
 * of unused cursors. A cursor that stays behind holds the log: retention keeps every event that some
 * cursor has not passed.
 */
#pragma once

#include "base/error.h"
#include "pg/blocking_conn.h"

#include <stdbool.h>
#include <stdint.h>

/* Text for people; as_json: one column with an object. */
enum cursor_column {
        CURSOR_ROW_SINK,
        CURSOR_ROW_JSON = CURSOR_ROW_SINK,
        CURSOR_ROW_LANE,
        CURSOR_ROW_ENDPOINT, /* NULL: the sink has none, or the lane is the sink's own */
        CURSOR_ROW_REACHED,  /* the id up to which the lane has come */
        CURSOR_ROW_BEHIND,   /* ids drawn since, of all topics: at most so many events wait */
        CURSOR_ROW_SETTLED_AT,
        CURSOR_ROW_OWNER,     /* "pid 4711 (pgcourier)", or NULL */
        CURSOR_ROW_IN_CONFIG, /* "yes", "ORPHAN", or NULL if no sinks were given */
        CURSOR_ROW_IS_ORPHAN, /* a boolean */
};

/* All cursors by sink and lane, or those of one sink (NULL: all). `sinks` is an array literal of the
 * names in a configuration; NULL: there is none to hold them against. */
struct rows *cursors_read(struct blocking_conn *conn, const char *sink, const char *sinks,
    bool as_json, struct error *error);

/* What there is of a sink, or of one lane of it. */
struct cursor_belongings {
        int64_t n_cursors;
        int64_t n_owned;
        int64_t n_parked;
        int64_t n_dead;
        int64_t n_pauses; /* of the sink */
};

enum { CURSOR_ALL_LANES = -1 };

/*
 * Begins a transaction in which no relay can take these lanes, and counts. The caller goes on with
 * cursors_drop(), or closes the connection, which takes everything back.
 */
bool cursors_hold(struct blocking_conn *conn, const char *sink, int lane,
    struct cursor_belongings *out_belongings, struct error *error)
    __attribute__((warn_unused_result));

/* Removes the cursors, and what is parked for them, and commits. */
bool cursors_drop(struct blocking_conn *conn, const char *sink, int lane, struct error *error)
    __attribute__((warn_unused_result));
