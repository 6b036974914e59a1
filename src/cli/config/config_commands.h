/* The parts of `pgcourier config`. */
#pragma once

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>

json_t *config_schema(void);

/* Tables in Markdown, on standard output. */
void config_docs_print(void);

/* Every key with the value in force and where it comes from, on standard output. */
bool config_show(const char *path, bool as_json, struct error *error);
