/*
 * The relay's side of pgcourier/sink.h: calls into a sink go through these
 * wrappers, which assert the contract's rules in every build. And what the
 * program's own kinds share.
 */
#pragma once

#include "base/error.h"
#include "pgcourier/sink.h"

/* Opens an instance; on failure returns NULL and sets *error, also for a kind that breaks the
 * contract by that. */
struct sink *sink_open(
    const struct sink_ops *ops, const struct sink_settings *settings, struct error *error);

/* attempt->event, number and on_finished are set by the caller, who owns the attempt and keeps it
 * in place until on_finished. */
void sink_deliver(struct sink *sink, struct attempt *attempt);
void sink_flush(struct sink *sink);
void sink_cancel(struct sink *sink);
void sink_probe(struct sink *sink, sink_probed_fn *on_probed, void *owner);
void sink_close(struct sink *sink, sink_closed_fn *on_closed, void *owner);

/* For a kind's probe(): its answer, in a later turn of the loop. Copies the outcome. */
void sink_probed_later(
    struct sink *sink, sink_probed_fn *on_probed, void *owner, const struct outcome *outcome);

/* Puts the sink's name and `where` before an error that only says what is wrong. Returns false. */
bool sink_blame(const char *name, const char *where, struct error *error);

/* For a kind's close(): calls destroy(), which frees the sink and closes its handles, in a later
 * turn of the loop, since the caller may still use what the sink owns; then, when the handles
 * are gone, on_closed(). */
typedef void sink_destroy_fn(struct sink *sink);
void sink_close_later(
    struct sink *sink, sink_destroy_fn *destroy, sink_closed_fn *on_closed, void *owner);
