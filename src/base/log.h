/*
 * One line per happening on stderr, as logfmt:
 *   ts=2026-11-20T10:00:00.123456Z level=info event=lane_acquired sink=billing backlog=12
 * Event names are stable; values are quoted when they need it and control characters are escaped,
 * so a line can never be forged by what a peer said. Payloads and secrets are never passed in.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum log_level { LEVEL_DEBUG, LEVEL_INFO, LEVEL_WARN, LEVEL_ERROR };

struct log_field {
        const char *name;
        enum { FIELD_TEXT, FIELD_INTEGER, FIELD_MILLISECONDS } kind;
        union {
                const char *text; /* NULL leaves the field out */
                int64_t integer;
                double milliseconds; /* printed with three decimals */
        };
};

#define kv_text(field_name, value)                                                                 \
        ((struct log_field){.name = (field_name), .kind = FIELD_TEXT, .text = (value)})
#define kv_int(field_name, value)                                                                  \
        ((struct log_field){                                                                       \
            .name = (field_name), .kind = FIELD_INTEGER, .integer = (int64_t)(value)})
#define kv_ms(field_name, value)                                                                   \
        ((struct log_field){                                                                       \
            .name = (field_name), .kind = FIELD_MILLISECONDS, .milliseconds = (double)(value)})

#define log_at(level, event, ...)                                                                  \
        do {                                                                                       \
                if (log_enabled(level))                                                            \
                        log_emit(level, event,                                                     \
                            (const struct log_field[]){__VA_ARGS__ __VA_OPT__(, ){.name = NULL}}); \
        } while (0)

#define log_debug(event, ...) log_at(LEVEL_DEBUG, event __VA_OPT__(, ) __VA_ARGS__)
#define log_info(event, ...)  log_at(LEVEL_INFO, event __VA_OPT__(, ) __VA_ARGS__)
#define log_warn(event, ...)  log_at(LEVEL_WARN, event __VA_OPT__(, ) __VA_ARGS__)
#define log_error(event, ...) log_at(LEVEL_ERROR, event __VA_OPT__(, ) __VA_ARGS__)

void log_set_level(enum log_level level); /* LEVEL_INFO until set */
bool log_enabled(enum log_level level);

/* `fields` ends with one whose name is NULL. */
void log_emit(enum log_level level, const char *event, const struct log_field *fields);
