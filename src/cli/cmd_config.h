/* The key tables as a JSON Schema, for editors. */
#pragma once

#include <jansson.h>

/*
 * What `pgcourier config schema` prints; a new reference. A schema knows less than the key tables:
 * what a text must look like, ranges of durations and rules between keys are `pgcourier check`'s.
 * What it refuses is always wrong; and any value may be a reference, ${VAR}, of which it knows
 * nothing.
 */
json_t *config_schema(void);
