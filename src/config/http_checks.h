/* The rules between the keys of an http sink. */
#pragma once

#include "config/config.h"
#include "config/source.h"

#include <stdbool.h>

/* `path` leads to the sink's http block. On failure the source's error is set. */
bool http_check(const struct source *source, const struct http_config *http, const char *path);
