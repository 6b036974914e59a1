/* All kinds of sink that this program knows. registry.c is the only file that names them. */
#pragma once

#include "pgcourier/sink.h"

/* Ends with NULL. */
extern const struct sink_ops *const sink_kinds[];

/* NULL if there is no such kind. */
const struct sink_ops *sink_kind_find(const char *kind);
