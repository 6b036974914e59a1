/*
 * courier.receiver for the commands: the receivers of sinks that fan out. The
 * table's triggers tell a running relay.
 */
#pragma once

#include "base/error.h"
#include "pg/blocking_conn.h"

#include <stdbool.h>
#include <stdint.h>

/* What can be said of a new receiver; the rest has defaults. */
enum receiver_field {
        RECEIVER_SINK,
        RECEIVER_NAME,
        RECEIVER_URL,
        RECEIVER_DESCRIPTION,
        RECEIVER_SECRET,
        RECEIVER_HEADERS, /* a JSON object */
        RECEIVER_TOPICS,  /* array literals */
        RECEIVER_TYPES,
        RECEIVER_FILTER, /* a JSON path */
        RECEIVER_START,
        RECEIVER_CONCURRENCY,
        RECEIVER_RATE,
        RECEIVER_BURST,
        RECEIVER_N_FIELDS,
};

/* A value that is NULL is the table's default. One row: the columns, or with as_json an object. */
enum {
        ADDED_ID,
        ADDED_SECRET,
};
struct rows *receiver_add(struct blocking_conn *conn, const char *const *values, bool as_json,
    struct error *error) __attribute__((warn_unused_result));

/* All of them by sink and name, or those of one sink, or in one state (NULL: all). With as_json:
 * one column with an object. */
enum {
        RECEIVER_ROW_NAME,
        RECEIVER_ROW_JSON = RECEIVER_ROW_NAME,
        RECEIVER_ROW_SINK,
        RECEIVER_ROW_STATE,
        RECEIVER_ROW_FAILING_SINCE,
        RECEIVER_ROW_PARKED,
        RECEIVER_ROW_DEAD,
        RECEIVER_ROW_TOPICS,
        RECEIVER_ROW_URL, /* without what may be a token in it */
        RECEIVER_ROW_REASON,
};
struct rows *receivers_read(struct blocking_conn *conn, const char *sink, const char *state,
    bool as_json, struct error *error) __attribute__((warn_unused_result));

/* Of all receivers of a sink, by id: what receiver_read() takes, without secrets. */
enum {
        RECEIVER_TEXT_ID,
        RECEIVER_TEXT,
};
struct rows *receivers_read_texts(struct blocking_conn *conn, const char *sink, struct error *error)
    __attribute__((warn_unused_result));

/* One with everything: names and values as text, or one row with one object; no row if there is
 * none. What waits for it is known from receiver_unread(). */
struct rows *receiver_show(struct blocking_conn *conn, const char *name, bool with_secrets,
    const char *waiting, struct error *error) __attribute__((warn_unused_result));
struct rows *receiver_show_json(struct blocking_conn *conn, const char *name, bool with_secrets,
    int64_t n_waiting, bool is_exact, struct error *error) __attribute__((warn_unused_result));

/* A row about itself (id, what receiver_read() takes, and whether its patterns alone decide what it
 * gets), then at most max_rows of events that its lane has not passed; no row if there is no such
 * receiver. */
enum {
        UNREAD_RECEIVER_ID,
        UNREAD_RECEIVER,
        UNREAD_IS_EXACT,
        UNREAD_TOPIC,
        UNREAD_TYPE,
};
struct rows *receiver_unread(struct blocking_conn *conn, const char *name, int max_rows,
    struct error *error) __attribute__((warn_unused_result));

/* There is a sink of that name, with receivers: table, or there will be. */
bool receiver_note_sink(struct blocking_conn *conn, const char *sink, struct error *error)
    __attribute__((warn_unused_result));

/* One row for each thing that a request to it is made of, its name and its value: "url", "secret"
 * (those that sign, the newest first), "header"; and "event_id", a new one. */
enum {
        RECEIVER_PART,
        RECEIVER_PART_NAME, /* of a header */
        RECEIVER_PART_VALUE,
        RECEIVER_PART_SINK,
};
struct rows *receiver_read_parts(struct blocking_conn *conn, const char *name, struct error *error)
    __attribute__((warn_unused_result));

/* How many of its deliveries are parked and how many have died; no row if there is none. */
enum {
        RECEIVER_COUNT_PARKED,
        RECEIVER_COUNT_DEAD,
};
struct rows *receiver_count(struct blocking_conn *conn, const char *name, struct error *error)
    __attribute__((warn_unused_result));

/* The state it had before ("active" …), in a row; no row if there is none. A reason that is NULL
 * leaves the one there is. */
struct rows *receiver_set_state(struct blocking_conn *conn, const char *name, const char *state,
    const char *reason, struct error *error) __attribute__((warn_unused_result));

bool receiver_remove(struct blocking_conn *conn, const char *name, bool *out_existed,
    struct error *error) __attribute__((warn_unused_result));

/* A row with the new secret and until when the old ones sign (NULL: no longer). `secret` NULL makes
 * one. */
enum {
        ROTATED_SECRET,
        ROTATED_UNTIL,
};
struct rows *receiver_rotate_secret(struct blocking_conn *conn, const char *name,
    int64_t overlap_ms, const char *secret, struct error *error)
    __attribute__((warn_unused_result));

/* A list of all names, to find the one that was meant: one column. */
struct rows *receiver_names(struct blocking_conn *conn, struct error *error)
    __attribute__((warn_unused_result));
