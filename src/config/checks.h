/* The rules between several keys. Members that follow from other keys are set, too: what the URL of
 * a redis sink holds, or the domain of an email sink's Message-ID. */
#pragma once

#include "config/config.h"
#include "config/source.h"

#include <stdbool.h>

/* On failure the source's error is set. */
bool config_check(const struct source *source, struct config *config);
