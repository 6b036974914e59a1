/*
 * One line per happening on stderr, as logfmt:
 *   ts=2026-11-20T10:00:00.123456Z level=info event=lane_acquired sink=billing backlog=12
 * or the same as one JSON object.
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

enum log_format { LOG_LOGFMT, LOG_JSON };

void log_set_format(enum log_format wanted);

/* What is configured; LEVEL_INFO until set. Ends what was said at run time: */
void log_set_level(enum log_level level);
void log_override_level(enum log_level level);
void log_say_more(void); /* one level */
void log_say_as_configured(void);

const char *log_level_name(enum log_level level);
bool log_level_find(const char *name, enum log_level *out_level); /* false: there is none */

/* From now on warnings and errors that repeat are counted instead (log_fold.h). log_tell_repeats()
 * is to be called every few seconds, and at the end with is_end. */
void log_fold_repeats(void);
void log_tell_repeats(bool is_end);

bool log_enabled(enum log_level level);

/* `fields` ends with one whose name is NULL. */
void log_emit(enum log_level level, const char *event, const struct log_field *fields);
