/* A log line as text. */
#pragma once

#include "base/bytes.h"
#include "log/log.h"

#include <stddef.h>

enum { LOG_TIME_SIZE = 80 };

/* "2026-11-20T10:00:00.123456Z" */
void log_time_text(char out_text[LOG_TIME_SIZE], int64_t wall_us);

/* Both append a whole line with its newline. `fields` ends with one whose name is NULL. */
void log_render_logfmt(struct bytes *line, const char *time, enum log_level level,
    const char *event, const struct log_field *fields);
void log_render_json(struct bytes *line, const char *time, enum log_level level, const char *event,
    const struct log_field *fields);
