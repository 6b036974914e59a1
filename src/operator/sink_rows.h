/*
 * What the database keeps of a sink, for operators: its cursors and its pauses.
 *
 * courier.cursor says how far each lane has come. A cursor that stays behind holds the log:
 * retention keeps every event that some cursor has not passed, so unused cursors can be removed.
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
        CURSOR_ROW_RECEIVER, /* NULL: the sink has none, or the lane is the sink's own */
        CURSOR_ROW_SHARD,    /* "2 of 4": of the sink's shards; NULL: it has one */
        CURSOR_ROW_REACHED,  /* the id up to which the lane has come */
        CURSOR_ROW_BEHIND,   /* ids drawn since, of all topics: at most so many events wait */
        CURSOR_ROW_SETTLED_AT,
        CURSOR_ROW_OWNER,     /* "pid 4711 (pgcourier)", or NULL */
        CURSOR_ROW_IN_CONFIG, /* "yes", "ORPHAN", or NULL if no sinks were given */
        CURSOR_ROW_IS_ORPHAN, /* a boolean */
};

/* All cursors by sink and lane, or those of one sink (NULL: all). `sinks` is an array literal of
 * the names in a configuration; NULL: there is none to hold them against. */
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

/* courier.pause: its trigger tells a running relay. */
enum {
        PAUSE_SINK,
        PAUSE_JSON = PAUSE_SINK,
        PAUSE_BY,
        PAUSE_PAUSED_AT,
        PAUSE_REASON,
};

/* All of them, or those of one sink (NULL: all). With as_json: one column with an object. */
struct rows *pauses_read(
    struct blocking_conn *conn, const char *sink, bool as_json, struct error *error);

/* The statements of pauses_add() and pauses_remove() for the operators' session, which does not
 * wait for answers. $1 sink, $2 reason or NULL: whether it was paused already; $1 sink: a row for
 * each pause that was removed. */
extern const char pause_add_sql[];
extern const char pause_remove_sql[];

/* By the operator. A sink that is paused already gets the reason if it is not NULL, and
 * *out_was_paused is true. */
bool pauses_add(struct blocking_conn *conn, const char *sink, const char *reason,
    bool *out_was_paused, struct error *error) __attribute__((warn_unused_result));

/* Removes the sink's pauses, an operator's and the relay's, and returns them; none is no error. */
struct rows *pauses_remove(struct blocking_conn *conn, const char *sink, struct error *error);

/* Whether a relay has ever owned a lane of it here, or it is paused. */
bool pauses_knows_sink(struct blocking_conn *conn, const char *sink, bool *out_known,
    struct error *error) __attribute__((warn_unused_result));

/* ERROR_USAGE if it cannot be one; NULL can. `name` is what the reason is called: "--reason". */
bool pause_check_reason(const char *reason, const char *name, struct error *error)
    __attribute__((warn_unused_result));
