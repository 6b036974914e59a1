/*
 * courier.endpoint for the commands: the receivers of sinks that fan out. The
 * table's triggers tell a running relay.
 */
#pragma once

#include "base/error.h"
#include "pg/blocking_conn.h"

#include <stdbool.h>
#include <stdint.h>

/* What can be said of a new receiver; the rest has defaults. */
enum endpoint_field {
        ENDPOINT_SINK,
        ENDPOINT_NAME,
        ENDPOINT_URL,
        ENDPOINT_DESCRIPTION,
        ENDPOINT_SECRET,
        ENDPOINT_HEADERS, /* a JSON object */
        ENDPOINT_TOPICS,  /* array literals */
        ENDPOINT_TYPES,
        ENDPOINT_FILTER, /* a JSON path */
        ENDPOINT_START,
        ENDPOINT_CONCURRENCY,
        ENDPOINT_RATE,
        ENDPOINT_BURST,
        ENDPOINT_N_FIELDS,
};

/* A value that is NULL is the table's default. One row: the columns, or with as_json an object. */
enum {
        ADDED_ID,
        ADDED_SECRET,
};
struct rows *endpoint_add(struct blocking_conn *conn, const char *const *values, bool as_json,
    struct error *error) __attribute__((warn_unused_result));

/* All of them by sink and name, or those of one sink, or in one state (NULL: all). With as_json:
 * one column with an object. */
enum {
        ENDPOINT_ROW_NAME,
        ENDPOINT_ROW_JSON = ENDPOINT_ROW_NAME,
        ENDPOINT_ROW_SINK,
        ENDPOINT_ROW_STATE,
        ENDPOINT_ROW_FAILING_SINCE,
        ENDPOINT_ROW_PARKED,
        ENDPOINT_ROW_DEAD,
        ENDPOINT_ROW_TOPICS,
        ENDPOINT_ROW_URL, /* without what may be a token in it */
        ENDPOINT_ROW_REASON,
};
struct rows *endpoints_read(struct blocking_conn *conn, const char *sink, const char *state,
    bool as_json, struct error *error) __attribute__((warn_unused_result));

/* Of all receivers of a sink, by id: what endpoint_read() takes, without secrets. */
enum {
        ENDPOINT_TEXT_ID,
        ENDPOINT_TEXT,
};
struct rows *endpoints_read_texts(struct blocking_conn *conn, const char *sink, struct error *error)
    __attribute__((warn_unused_result));

/* One with everything: names and values as text, or one row with one object; no row if there is
 * none. What waits for it is known from endpoint_unread(). */
struct rows *endpoint_show(struct blocking_conn *conn, const char *name, bool with_secrets,
    const char *waiting, struct error *error) __attribute__((warn_unused_result));
struct rows *endpoint_show_json(struct blocking_conn *conn, const char *name, bool with_secrets,
    int64_t n_waiting, bool is_exact, struct error *error) __attribute__((warn_unused_result));

/* A row about itself (id, what endpoint_read() takes, and whether its patterns alone decide what it
 * gets), then at most max_rows of events that its lane has not passed; no row if there is no such
 * endpoint. */
enum {
        UNREAD_ENDPOINT_ID,
        UNREAD_ENDPOINT,
        UNREAD_IS_EXACT,
        UNREAD_TOPIC,
        UNREAD_TYPE,
};
struct rows *endpoint_unread(struct blocking_conn *conn, const char *name, int max_rows,
    struct error *error) __attribute__((warn_unused_result));

/* There is a sink of that name, with endpoints: table, or there will be. */
bool endpoint_note_sink(struct blocking_conn *conn, const char *sink, struct error *error)
    __attribute__((warn_unused_result));

/* One row for each thing that a request to it is made of, its name and its value: "url", "secret"
 * (those that sign, the newest first), "header"; and "event_id", a new one. */
enum {
        ENDPOINT_PART,
        ENDPOINT_PART_NAME, /* of a header */
        ENDPOINT_PART_VALUE,
        ENDPOINT_PART_SINK,
};
struct rows *endpoint_read_parts(struct blocking_conn *conn, const char *name, struct error *error)
    __attribute__((warn_unused_result));

/* How many of its deliveries are parked and how many have died; no row if there is none. */
enum {
        ENDPOINT_COUNT_PARKED,
        ENDPOINT_COUNT_DEAD,
};
struct rows *endpoint_count(struct blocking_conn *conn, const char *name, struct error *error)
    __attribute__((warn_unused_result));

/* The state it had before ("active" …), in a row; no row if there is none. A reason that is NULL
 * leaves the one there is. */
struct rows *endpoint_set_state(struct blocking_conn *conn, const char *name, const char *state,
    const char *reason, struct error *error) __attribute__((warn_unused_result));

bool endpoint_remove(struct blocking_conn *conn, const char *name, bool *out_existed,
    struct error *error) __attribute__((warn_unused_result));

/* A row with the new secret and until when the old ones sign (NULL: no longer). `secret` NULL makes
 * one. */
enum {
        ROTATED_SECRET,
        ROTATED_UNTIL,
};
struct rows *endpoint_rotate_secret(struct blocking_conn *conn, const char *name,
    int64_t overlap_ms, const char *secret, struct error *error)
    __attribute__((warn_unused_result));

/* A list of all names, to find the one that was meant: one column. */
struct rows *endpoint_names(struct blocking_conn *conn, struct error *error)
    __attribute__((warn_unused_result));
