/*
 * Reads the config file into the tree of source.h, in one pass over libyaml's events. libyaml's own
 * documents would do, but for anchors and tags, which they drop and which must be refused. So is
 * everything else that no config file needs and that could exhaust us or be read in two ways:
 * aliases, several documents, keys that are not plain words, NUL characters, absurd sizes.
 */
#pragma once

#include "config/source.h"

#include <stdbool.h>
#include <stddef.h>

/* Opens a file, which is read, or a text that was read from there before, which is copied. On
 * failure *error is set: ERROR_CONFIG, or ERROR_PERMISSION if the file may not be read. Close the
 * source in either case. */
bool source_open(struct source *source, const char *path, struct error *error);
bool source_open_text(
    struct source *source, const char *path, const char *text, size_t length, struct error *error);
