/*
 * What operators do, as statements: the commands run them on a connection that
 * waits for its answers (dead_letters.c, pause_rows.c), the relay on the one that
 * its admin endpoint uses (operator_session.c).
 */
#pragma once

/* $1 sink, $2 reason or NULL; whether it was paused already. */
extern const char pause_add_sql[];
/* $1 sink; one row for each pause that was removed. */
extern const char pause_remove_sql[];

/* What is meant: $1 to $8 as selection_fill() says. Then: */

/* $9 limit; the number, the last id, and those of the ids that are not among them. */
extern const char dead_count_sql[];
/* One batch: $9 above this id, $10 limit, $11 not above this id. Of each row that was taken its id,
 * whether it is gone, and (redrive) whether its receiver is still there. */
#define DEAD_BATCH_ROWS 1000
extern const char dead_redrive_sql[];
extern const char dead_drop_sql[];
/* Some of them, the newest first: $9 below this id, $10 limit; the id, and a JSON object. */
extern const char dead_newest_sql[];

/* After rows were redriven. */
extern const char control_notify_sql[];
