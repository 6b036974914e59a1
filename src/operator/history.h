/*
 * Events of the outbox for the commands: those that a lane has passed, sent again by copies that
 * are parked until their turn (replay) or by moving its cursor back (rewind); which of them filters
 * are true of; and one event on its way through a lane (follow).
 */
#pragma once

#include "base/error.h"
#include "outbox/filter_queue.h"
#include "pg/blocking_conn.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One of the three. */
struct log_position {
        int64_t id;       /* 0: none */
        const char *time; /* as text, in UTC unless it says otherwise; NULL: none; borrowed */
        int64_t ago_ms;   /* -1: none */
};

/* Which events of the outbox, of those that the lane has passed. */
struct history_range {
        const char *sink;
        int32_t lane;
        struct log_position from;
        struct log_position to; /* none: what the lane has passed now */
        const char *topic;      /* a pattern; NULL: any */
        const char *key;        /* NULL: any */
        /* From history_fix(). */
        char from_time[48], to_time[48]; /* "" for none */
        int64_t upto;
};

/* Makes times of "ago", and takes the last id there is: what is published from now on is not
 * history. ERROR_EMPTY if no relay has run the lane. */
bool history_fix(struct blocking_conn *conn, struct history_range *range, struct error *error)
    __attribute__((warn_unused_result));

/* At most max_rows of them with an id above after_id, in order; no filter is asked
 * (filters_ask()). */
enum history_column { HISTORY_ID, HISTORY_TOPIC, HISTORY_TYPE, HISTORY_HEADERS };
struct rows *history_read(struct blocking_conn *conn, const struct history_range *range,
    int64_t after_id, int max_rows, struct error *error) __attribute__((warn_unused_result));

/* Parks copies of these events (an array literal of ids), due one every interval_us from now on,
 * and wakes the relay. One that is parked for the lane already is left alone. */
bool history_replay(struct blocking_conn *conn, const struct history_range *range, const char *ids,
    int64_t interval_us, int64_t *out_n_parked, struct error *error)
    __attribute__((warn_unused_result));

/* How many replayed events are due and not delivered; no more than `limit` are counted. */
bool history_count_due(struct blocking_conn *conn, const struct history_range *range, int limit,
    int64_t *out_n_due, struct error *error) __attribute__((warn_unused_result));

/* The first id at or after the moment; 0: there is none. */
bool history_find(struct blocking_conn *conn, const struct log_position *moment, int64_t *out_id,
    struct error *error) __attribute__((warn_unused_result));

enum { HISTORY_ALL_LANES = -1 };

/* How many events (ids of all topics, at most) the lanes would deliver again from that id on. */
bool history_count_rewind(struct blocking_conn *conn, const char *sink, int lane, int64_t id,
    int64_t *out_n_events, struct error *error) __attribute__((warn_unused_result));

/* Moves the cursors of lanes that have no owner back to that id: within the transaction that
 * cursors_hold() began, which it commits. Lanes that have not come so far stay. */
bool history_rewind(struct blocking_conn *conn, const char *sink, int lane, int64_t id,
    int64_t *out_n_lanes, struct error *error) __attribute__((warn_unused_result));

/* A filter has the time that the relay gives it in its last try (filter_queue.h): a command judges
 * no event that a relay would leave unjudged, and does not keep the server busy without end. */
#define FILTERS_LIMIT_MS (FILTER_QUEUE_LIMIT_MS << (FILTER_QUEUE_TRIES - 1))

/* Which of these events all of these filters are true of: a row for each, its id, in order. Both
 * are array literals: of ids, which are in order, and of jsonpath. *out_rows is to be freed; it is
 * NULL if they took longer than FILTERS_LIMIT_MS for all the events together (longer for large
 * payloads, see filter_queue.h). After false a transaction may be open. */
bool filters_ask(struct blocking_conn *conn, const char *ids, const char *filters,
    struct rows **out_rows, struct error *error) __attribute__((warn_unused_result));

/*
 * One event's way, read from the database alone: a lane whose durable cursor has passed it has
 * delivered it, unless it is parked or dead. The database knows when the lane settles, some 20 ms
 * after the delivery itself.
 */
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

/* The tap that made the last event of that topic, if it is one of the last 1000 of all: one row
 * with its name and its table, or none. */
struct rows *follow_find_tap(struct blocking_conn *conn, const char *topic, struct error *error)
    __attribute__((warn_unused_result));

/* The way of one event through all lanes as one JSON object; no row if nothing of it is left, or if
 * `event` is neither its number nor its id. */
struct rows *event_trace(struct blocking_conn *conn, const char *event, const char *n_deliveries,
    struct error *error) __attribute__((warn_unused_result));
extern const char trace_sql[]; /* $1 event  $2 so many deliveries at most */

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
