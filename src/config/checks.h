/* What no single row can say: rules between several keys, and members that are taken from others. */
#pragma once

#include "config/config.h"
#include "config/source.h"

#include <stdbool.h>

/* On failure the source's error is set. */
bool config_check(const struct source *source, struct config *config);
