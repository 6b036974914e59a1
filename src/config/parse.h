/* The tree of the config file into the structs of config.h, by the key tables. */
#pragma once

#include "config/config_keys.h"
#include "config/source.h"

#include <stdbool.h>

/*
 * Fills `target`, the zeroed struct of this block, from `node` (NULL: the block is not in the file):
 * keys and shapes checked, references filled in, types and ranges checked, defaults set, files read.
 * On failure the source's error is set. What was filled so far is `target`'s in either case.
 */
bool block_parse(const struct source *source, const struct config_block *block,
    const struct node *node, void *target, const char *path);

/* Clears and frees everything that the rows of this block own in `target`, not `target` itself. */
void block_clear(const struct config_block *block, void *target);
