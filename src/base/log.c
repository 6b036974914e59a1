#include "base/log.h"

#include "base/bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static enum log_level lowest = LEVEL_INFO;

void log_set_level(enum log_level level)
{
        lowest = level;
}

bool log_enabled(enum log_level level)
{
        return level >= lowest;
}

static const char *level_name(enum log_level level)
{
        static const char *const names[] = {"debug", "info", "warn", "error"};
        return names[level];
}

static void append_timestamp(struct bytes *line)
{
        struct timespec now;
        struct tm utc;

        clock_gettime(CLOCK_REALTIME, &now);
        gmtime_r(&now.tv_sec, &utc);
        bytes_printf(line, "ts=%04d-%02d-%02dT%02d:%02d:%02d.%06ldZ", utc.tm_year + 1900,
            utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000);
}

static bool needs_quotes(const char *text)
{
        if (*text == '\0')
                return true;
        for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++)
                if (*at <= ' ' || *at == '"' || *at == '=' || *at == '\\' || *at == 0x7f)
                        return true;
        return false;
}

static void append_text(struct bytes *line, const char *text)
{
        if (!needs_quotes(text)) {
                bytes_append_text(line, text);
                return;
        }
        bytes_append_text(line, "\"");
        for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
                if (*at == '"' || *at == '\\')
                        bytes_printf(line, "\\%c", *at);
                else if (*at == '\n')
                        bytes_append_text(line, "\\n");
                else if (*at < ' ' || *at == 0x7f)
                        bytes_printf(line, "\\x%02x", *at);
                else
                        bytes_append(line, at, 1);
        }
        bytes_append_text(line, "\"");
}

void log_emit(enum log_level level, const char *event, const struct log_field *fields)
{
        static struct bytes line; /* kept between calls: one thread logs */

        bytes_clear(&line);
        append_timestamp(&line);
        bytes_printf(&line, " level=%s event=%s", level_name(level), event);
        for (const struct log_field *field = fields; field->name != NULL; field++) {
                if (field->kind == FIELD_TEXT && field->text == NULL)
                        continue;
                bytes_printf(&line, " %s=", field->name);
                switch (field->kind) {
                case FIELD_TEXT:
                        append_text(&line, field->text);
                        break;
                case FIELD_INTEGER:
                        bytes_printf(&line, "%" PRId64, field->integer);
                        break;
                case FIELD_MILLISECONDS:
                        bytes_printf(&line, "%.3f", field->milliseconds);
                        break;
                }
        }
        bytes_append_text(&line, "\n");

        /* One write per line keeps lines whole when several processes share a terminal. A log that
         * cannot be written has nowhere to say so. */
        ssize_t written = write(STDERR_FILENO, line.data, line.length);
        (void)written;
}
