/* The key tables at work: raw texts into the structs of config.h, and those structs given back. */
#pragma once

#include "config/config_keys.h"
#include "config/raw.h"
#include "config/source.h"

#include <stdbool.h>

/*
 * Fills `target`, a zeroed struct of this block, from `slots` (NULL: the block
 * is not in the file): references filled in, types and ranges checked, defaults
 * set, files read. On failure the source's error is set, and what was filled so
 * far is `target`'s.
 */
bool block_fill(const struct source *source, const struct config_block *block,
    const struct raw_slot *slots, void *target, const char *path);

/* Clears and frees everything that the rows of this block own in `target`, not `target` itself. */
void block_clear(const struct config_block *block, void *target);

/* What is written for a value, with its references filled in; release it with secret_free(). NULL:
 * the source's error is set. */
char *fill_resolve(const struct source *source, const char *path, const char *written);
