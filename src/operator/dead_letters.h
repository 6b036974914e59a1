/*
 * courier.dead_letter for the commands: read, move back, remove.
 *
 * What changes rows works in batches, each a transaction of its own: whatever
 * happens in between, a row is in one table or the other. It never goes past
 * the last row that was counted before it began, so a redriven event that dies
 * again at once is not taken a second time.
 */
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "operator/selection.h"
#include "pg/blocking_conn.h"

#include <stdbool.h>
#include <stdint.h>

/* The columns of a page; with as_json: DEAD_ID, and the rest as one JSON object behind it. */
enum {
        DEAD_ID,
        DEAD_SINK,
        DEAD_JSON = DEAD_SINK,
        DEAD_ENDPOINT, /* NULL: the sink has none, or the row is the sink's own */
        DEAD_TOPIC,
        DEAD_KEY,
        DEAD_REASON,
        DEAD_ATTEMPTS,
        DEAD_DIED_AT,
        DEAD_ERROR,
};

/* At most max_rows with an id above after_id, in order. */
struct rows *dead_letters_read(struct blocking_conn *conn, const struct selection *selection,
    int64_t after_id, int max_rows, bool as_json, struct error *error);

/* One with everything: names and values as text, or (as_json) one row with one object. */
struct rows *dead_letter_show(
    struct blocking_conn *conn, const char *id, bool as_json, struct error *error);

struct dead_letters_count {
        int64_t n;         /* not above the selection's limit */
        int64_t last_id;   /* of those */
        char missing[200]; /* those of the selection's ids that are not among them, for people */
};
bool dead_letters_count(struct blocking_conn *conn, const struct selection *selection,
    struct dead_letters_count *out_count, struct error *error) __attribute__((warn_unused_result));

/* Dead letters that were to be redriven and stay, as their ids ("17, 18"). */
struct dead_letters_kept {
        struct bytes parked;   /* their event is parked already for that sink */
        struct bytes orphaned; /* their endpoint was removed */
};
void dead_letters_kept_deinit(struct dead_letters_kept *kept);

/* To courier.parked, due now, in the lane they died in, behind what waits of their keys; then wakes
 * the relay. Both results are right after a failure too. */
bool dead_letters_redrive(struct blocking_conn *conn, const struct selection *selection,
    const struct dead_letters_count *count, int64_t *out_n_redriven, struct dead_letters_kept *kept,
    struct error *error) __attribute__((warn_unused_result));

bool dead_letters_drop(struct blocking_conn *conn, const struct selection *selection,
    const struct dead_letters_count *count, int64_t *out_n_dropped, struct error *error)
    __attribute__((warn_unused_result));
