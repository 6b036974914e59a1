/* What the log says about reloads. */
#pragma once

#include "relay/reload.h"
#include "relay/reload_plan.h"

/* Nothing has changed; `path` is the file that was loaded. */
void reload_log_failure(const struct error *error, const char *path);

/* It is decided what becomes of each sink. */
void reload_log_sinks(
    const struct reload_plan *plan, const struct config *old, const struct config *new);

void reload_log_success(const struct reload_result *result, int64_t took_us);
