/* The tree of the config file into the structs of config.h, by the key tables. */
#pragma once

#include "config/config.h"
#include "config/source.h"

#include <stdbool.h>

/*
 * Fills a zeroed configuration: keys and shapes checked, references filled in, types and ranges
 * checked, defaults set, files read. On failure the source's error is set. What was filled so far
 * is the configuration's in either case.
 */
bool config_parse(const struct source *source, struct config *config);

/* Clears and frees everything that the key tables fill, not the configuration itself. */
void config_clear(struct config *config);
