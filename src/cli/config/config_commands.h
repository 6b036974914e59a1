/* The parts of `pgcourier config`. */
#pragma once

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>

json_t *config_schema(void);

struct config_block;

/* Something in it is required, so the block is. */
bool config_block_is_required(const struct config_block *block);

/* Every key with the value in force and where it comes from, on standard output. */
bool config_show(const char *path, bool as_json, struct error *error);
