/*
 * A sink with many receivers: one runner for each row of courier.receiver in a shard that is ours,
 * made, changed and dropped while the relay runs. They share the reading of the log (reading.h) and
 * the writing of their progress.
 */
#pragma once

#include <stdbool.h>

struct dispatcher;
struct receiver_table;
struct runner;

struct fanout {
        struct dispatcher *dispatcher; /* borrowed */
        struct receiver_table *table;  /* owned */
        bool is_current;               /* the receivers have been read since shards were taken */
};

struct fanout *fanout_create(struct dispatcher *dispatcher);
void fanout_destroy(struct fanout *fanout); /* its runners are gone */

/* A shard is ours, or the session is lost. */
void fanout_owned(struct fanout *fanout);
void fanout_session_down(struct fanout *fanout);

/* The receivers may have been changed by hand. */
void fanout_control(struct fanout *fanout);

/* Before a runner is pumped: claims its lane, if its shard is ours and that is not. False: its
 * receiver is gone and nothing is under way, so it was destroyed. */
bool fanout_prepare(struct fanout *fanout, struct runner *runner);

/* After the runners have been pumped: writes how far the log has been read for any receiver. */
void fanout_serve(struct fanout *fanout);

/* Nothing that is answered is asked of the database, except by the runners. */
bool fanout_is_idle(const struct fanout *fanout);

bool fanout_is_caught_up(const struct fanout *fanout);
