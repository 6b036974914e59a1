/* All kinds of sink: those of this program, which registry.c alone names, and modules. */
#pragma once

#include "config/config.h"
#include "pgcourier/sink.h"

/* Ends with NULL. */
extern const struct sink_ops *const sink_kinds[];

/* Of the program's own; NULL if there is no such kind. */
const struct sink_ops *sink_kind_find(const char *kind);

/* The kind of a configured sink, loaded from the folder of modules if it is one. On failure returns
 * NULL and sets *error. */
const struct sink_ops *sink_kind_load(
    const char *folder, const struct sink_config *config, struct error *error);

/* For each sink of the file: `run` does this first. */
bool sink_kinds_load(const struct config *config, struct error *error);

/* The same once it is loaded. */
const struct sink_ops *sink_kind_of(const struct sink_config *config);

/* How many threads of libuv's pool an instance may keep busy; the kind is loaded. */
unsigned sink_kind_threads(const struct sink_config *config);
