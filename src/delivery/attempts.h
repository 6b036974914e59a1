/*
 * The attempts of a sink's lanes: handed to the sink while there is room for more,
 * and what follows from their outcomes. A receiver's attempts borrow a target,
 * which is the receiver as the sink knows it; when the receiver changes, attempts
 * in flight go on with what it was.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct dispatcher;
struct receiver;
struct list;
struct runner;

/* As many as it may (starts.h). */
void attempts_start(struct runner *runner, int64_t now_ms);

/* Fills in where dead letters were going, which the lane does not know, and reports them. */
void attempts_complete_verdicts(struct runner *runner, const struct list *verdicts);

/* False and *error: the receiver's url is not one that the sink accepts. */
bool attempts_open_target(struct runner *runner, struct error *error);
void attempts_close_targets(struct runner *runner); /* none is in flight */

/*
 * A destination may refuse a login because our credentials have changed. The relay
 * is told (sink_set_events::on_login_refused), and nothing is reported before it
 * has looked for others: then the sink is replaced, or dispatcher_tell_refused()
 * reports what was withheld.
 */
void attempts_retry_login(struct dispatcher *dispatcher);
void attempts_tell_refused(struct dispatcher *dispatcher);
