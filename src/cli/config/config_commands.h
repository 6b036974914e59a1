/* The parts of `pgcourier config`. */
#pragma once

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>

json_t *config_schema(void);

/* Every key with the value in force and where it comes from, on standard output. */
bool config_show(const char *path, bool as_json, struct error *error);
