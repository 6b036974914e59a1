/*
 * courier.dead_letter for operators: read rows, redrive them, drop them. The commands use the
 * functions that take a connection. The operators' session (operator_session.h) does not wait for
 * answers: it runs the same statements itself, with the functions that fill their parameters and
 * read their rows.
 *
 * A change works in batches, each in its own transaction: an event is always either a dead letter
 * or parked. A change stops at the last row that was counted before it began, so it does not take
 * up an event that dies again meanwhile.
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
        DEAD_RECEIVER, /* NULL: the sink has none, or the row is the sink's own */
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

/* Dead letters that a redrive leaves in place, as their ids ("17, 18"). */
struct dead_letters_kept {
        struct bytes parked;   /* their event is parked already for that sink */
        struct bytes orphaned; /* their receiver was removed */
};
void dead_letters_kept_deinit(struct dead_letters_kept *kept);

enum dead_change {
        DEAD_REDRIVE, /* to courier.parked, due now, in the lane they died in, behind what waits of
                         their keys; then wakes the relay */
        DEAD_DROP,
};
/* *out_n_changed and *kept (NULL: not wanted) are right after a failure too. */
bool dead_letters_change(struct blocking_conn *conn, enum dead_change change,
    const struct selection *selection, const struct dead_letters_count *count,
    int64_t *out_n_changed, struct dead_letters_kept *kept, struct error *error)
    __attribute__((warn_unused_result));

/* The rest is what the operators' session shares with the functions above. */

/* The statements, each with its number of parameters: $1 to $8 as in selection.h, then as named. */
extern const char dead_newest_sql[];    /* $9 below this id, $10 limit; the id, and a JSON object */
extern const char dead_count_sql[];     /* $9 limit; read by dead_count_take() */
extern const char dead_redrive_sql[];   /* $9 above this id, $10 limit, $11 not above this id; */
extern const char dead_drop_sql[];      /* read by dead_batch_take() */
extern const char control_notify_sql[]; /* after rows were redriven */
enum {
        DEAD_COUNT_N = SELECTION_PARAMETERS + 1,
        DEAD_LIST_N,
        DEAD_BATCH_N,
        DEAD_BATCH_ROWS = 1000,
};

struct dead_parameters {
        struct selection_texts texts;
        char numbers[3][24];
        struct parameter values[DEAD_BATCH_N];
};

/* $9 to $11, where DEAD_NO_NUMBER is NULL. The selection is borrowed with the parameters. */
#define DEAD_NO_NUMBER (-1)
void dead_parameters_fill(struct dead_parameters *parameters, const struct selection *selection,
    int64_t ninth, int64_t tenth, int64_t eleventh);

void dead_count_fill(struct dead_parameters *parameters, const struct selection *selection);
void dead_count_take(struct dead_letters_count *count, const struct rows *rows);

/* How far a change has come. Begins as {0}. */
struct dead_progress {
        int64_t n_seen;
        int64_t n_changed; /* of those; the others were kept */
        int64_t after_id;  /* rows up to here were seen */
        bool is_through;   /* a batch found no row */
};
/* The next batch; false: there is none. */
bool dead_batch_fill(const struct dead_progress *progress, const struct dead_letters_count *count,
    const struct selection *selection, struct dead_parameters *parameters)
    __attribute__((warn_unused_result));
void dead_batch_take(
    struct dead_progress *progress, const struct rows *rows, struct dead_letters_kept *kept);
