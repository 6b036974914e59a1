/* courier.pause for operators. The table's trigger tells a running relay. */
#pragma once

#include "base/error.h"
#include "pg/blocking_conn.h"

#include <stdbool.h>

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

/* The statements of pauses_add() and pauses_remove() for the operators' session, which does not wait
 * for answers. $1 sink, $2 reason or NULL: whether it was paused already; $1 sink: a row for each
 * pause that was removed. */
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
