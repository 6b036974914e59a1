/* Recurring events as commands see and change them, on a connection that may wait. */
#pragma once

#include "base/error.h"

#include <stdbool.h>

struct blocking_conn;
struct rows;

/* Text for people; times are RFC 3339 in UTC. */
enum schedule_column {
        SCHEDULE_NAME,
        SCHEDULE_TIMING,
        SCHEDULE_STATE, /* active, paused or ended */
        SCHEDULE_NEXT,  /* NULL: it is paused or has ended */
        SCHEDULE_LAST,  /* NULL: it has not ticked yet */
        SCHEDULE_TOPIC,
        SCHEDULE_MISSED,
        SCHEDULE_SKIPPED,    /* NULL: none */
        SCHEDULE_LAST_ERROR, /* NULL: all is well */

        SCHEDULE_JSON = 0, /* the only column as_json */
};

/* What a schedule is made of; the same words as the arguments of courier.schedule(). */
enum schedule_field {
        SCHEDULE_FIELD_NAME,
        SCHEDULE_FIELD_TOPIC,
        SCHEDULE_FIELD_PAYLOAD,
        SCHEDULE_FIELD_EVERY,
        SCHEDULE_FIELD_AT,
        SCHEDULE_FIELD_CRON,
        SCHEDULE_FIELD_TIME_ZONE,
        SCHEDULE_FIELD_DAYS, /* "mon,fri" */
        SCHEDULE_FIELD_STARTING,
        SCHEDULE_FIELD_UNTIL,
        SCHEDULE_FIELD_TIMES,
        SCHEDULE_FIELD_JITTER,
        SCHEDULE_FIELD_MISSED,
        SCHEDULE_FIELD_OVERLAP,
        SCHEDULE_FIELD_KEY,
        SCHEDULE_FIELD_TYPE,
        SCHEDULE_N_FIELDS
};

enum schedule_tick_column { SCHEDULE_TICK, SCHEDULE_TICK_DUE };

/* A line for each sink and receiver of an event. */
enum schedule_history_column {
        SCHEDULE_HISTORY_FOR,
        SCHEDULE_HISTORY_EVENT,
        SCHEDULE_HISTORY_BY_HAND, /* NULL: it was not */
        SCHEDULE_HISTORY_WHERE,
        SCHEDULE_HISTORY_STATE,
        SCHEDULE_HISTORY_AT,
        SCHEDULE_HISTORY_REASON,
};

enum pg_cron_column {
        PG_CRON_ID,
        PG_CRON_NAME, /* NULL: it has none */
        PG_CRON_TIMES,
        PG_CRON_COMMAND,
        PG_CRON_TIME_ZONE,
        PG_CRON_NOTE, /* why it is left out; NULL: it is not */
};

enum schedule_change { SCHEDULE_REMOVE, SCHEDULE_PAUSE, SCHEDULE_RESUME };

/* By name. NULL and *error; else to be freed. */
struct rows *schedule_list(struct blocking_conn *conn, bool as_json, struct error *error)
    __attribute__((warn_unused_result));

/* One of them: names and values, or a document with the last events. Without the right to read
 * payloads and deliveries (that of a relay) these are left out. No row: there is none. */
struct rows *schedule_show(struct blocking_conn *conn, const char *name, const char *n_events,
    bool as_json, struct error *error) __attribute__((warn_unused_result));

/* Its last events. No row, too, without the right. */
struct rows *schedule_history(struct blocking_conn *conn, const char *name, const char *n_events,
    struct error *error) __attribute__((warn_unused_result));

/* Its next ticks, and when their events come. */
struct rows *schedule_next(struct blocking_conn *conn, const char *name, const char *n_ticks,
    bool as_json, struct error *error) __attribute__((warn_unused_result));

/* Makes or replaces one. Values that are NULL are not given. One row: its next tick; NULL: it has
 * ended. */
struct rows *schedule_add(struct blocking_conn *conn, const char *const values[SCHEDULE_N_FIELDS],
    struct error *error) __attribute__((warn_unused_result));

/* The same within a transaction, which goes on if the server refuses the values (*out_is_refused).
 * One row: the SQL that makes it. A schedule of that name with another topic is refused, too. */
struct rows *schedule_import(struct blocking_conn *conn,
    const char *const values[SCHEDULE_N_FIELDS], bool *out_is_refused, struct error *error)
    __attribute__((warn_unused_result));

/* What pg_cron has in its table. */
struct rows *schedule_pg_cron_jobs(struct blocking_conn *conn, struct error *error)
    __attribute__((warn_unused_result));

bool schedule_change(struct blocking_conn *conn, enum schedule_change change, const char *name,
    bool *out_existed, struct error *error) __attribute__((warn_unused_result));

/* Publishes its event. One row: the event_id; NULL: there is no such schedule. */
struct rows *schedule_run(struct blocking_conn *conn, const char *name, struct error *error)
    __attribute__((warn_unused_result));

/* All names, for those that a mistyped one may have meant. */
struct rows *schedule_names(struct blocking_conn *conn, struct error *error)
    __attribute__((warn_unused_result));
