/*
 * courier.parked for the commands. Rows belong to the relay that owns their
 * lane: here they are read, and marked; the relay does what the marks ask for.
 */
#pragma once

#include "base/error.h"
#include "operator/selection.h"
#include "pg/blocking_conn.h"

#include <stdbool.h>
#include <stdint.h>

/* The columns of a page; with as_json: the first three, and the rest as one JSON object. */
enum {
        PARKED_ROW_ID, /* courier.outbox.id: one delivery of a sink */
        PARKED_ROW_SINK,
        PARKED_ROW_LANE,
        PARKED_ROW_RECEIVER, /* NULL: the sink has none, or the row is the sink's own */
        PARKED_ROW_JSON = PARKED_ROW_RECEIVER,
        PARKED_ROW_TOPIC,
        PARKED_ROW_KEY,
        PARKED_ROW_STATE,
        PARKED_ROW_ATTEMPTS,
        PARKED_ROW_DUE_AT,
        PARKED_ROW_ERROR,
};

/* By sink, lane and id; behind the last row of the page before, if that is not NULL. */
struct rows *parked_rows_read(struct blocking_conn *conn, const struct selection *selection,
    const struct rows *page_before, int max_rows, bool as_json, struct error *error);

/* One row for each key with blocked deliveries that match, the longest first. With as_json: one
 * column with an object. */
enum {
        BLOCKED_SINK,
        BLOCKED_RECEIVER,
        BLOCKED_KEY,
        BLOCKED_WAITING,
        BLOCKED_BEHIND, /* the id of the first of the key; NULL while it is being replaced */
        BLOCKED_ATTEMPTS,
        BLOCKED_DUE_AT,
        BLOCKED_ERROR,
};
struct rows *parked_rows_read_blocked(struct blocking_conn *conn, const struct selection *selection,
    bool as_json, struct error *error);

struct parked_count {
        int64_t n;         /* not above the selection's limit */
        int64_t n_blocked; /* of those */
        char missing[200]; /* those of the selection's ids that are not among them, for people */
};
bool parked_rows_count(struct blocking_conn *conn, const struct selection *selection,
    struct parked_count *out_count, struct error *error) __attribute__((warn_unused_result));

enum parked_mark {
        MARK_SKIP,  /* the relay gives it up */
        MARK_RETRY, /* the relay tries it at once; not those that are blocked, or given up */
};
/* At most as many as were counted; *out_n_marked is right after a failure too. Wakes the relay. */
bool parked_rows_mark(struct blocking_conn *conn, enum parked_mark mark,
    const struct selection *selection, int64_t max_rows, int64_t *out_n_marked, struct error *error)
    __attribute__((warn_unused_result));
