/*
 * The options of a module: a mapping whose names nobody here knows, so that no schema of libcyaml
 * can describe it. It is read by a walk of its own over the same text.
 */
#pragma once

#include "config/source.h"
#include "pgcourier/option.h"

#include <stdbool.h>

/* `path` is that of the mapping, which need not be there. On failure the source's error is set.
 * Clear the options in either case. */
bool options_fill(const struct source *source, const char *path, struct sink_options *out_options);

/* Secrets first, as any of them may be one. */
void options_clear(struct sink_options *options);
