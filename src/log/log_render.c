/* Values are quoted when they need it and control characters are escaped, so that no peer can forge
 * a line or a field. */
#include "log/log_render.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

static const char *const level_names[] = {"debug", "info", "warn", "error"};

const char *log_level_name(enum log_level level)
{
        return level_names[level];
}

void log_time_text(char out_text[LOG_TIME_SIZE], int64_t wall_us)
{
        time_t seconds = wall_us / 1000000;
        struct tm utc;

        gmtime_r(&seconds, &utc);
        snprintf(out_text, LOG_TIME_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d.%06ldZ",
            utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
            (long)(wall_us % 1000000));
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

static void append_logfmt_text(struct bytes *line, const char *text)
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

void log_render_logfmt(struct bytes *line, const char *time, enum log_level level,
    const char *event, const struct log_field *fields)
{
        bytes_printf(line, "ts=%s level=%s event=%s", time, log_level_name(level), event);
        for (const struct log_field *field = fields; field->name != NULL; field++) {
                if (field->kind == FIELD_TEXT && field->text == NULL)
                        continue;
                bytes_printf(line, " %s=", field->name);
                switch (field->kind) {
                case FIELD_TEXT:
                        append_logfmt_text(line, field->text);
                        break;
                case FIELD_INTEGER:
                        bytes_printf(line, "%" PRId64, field->integer);
                        break;
                case FIELD_MILLISECONDS:
                        bytes_printf(line, "%.3f", field->milliseconds);
                        break;
                }
        }
        bytes_append_text(line, "\n");
}

/* Valid JSON whatever a peer said: what is not UTF-8 becomes U+FFFD. */
static void append_json_text(struct bytes *line, const char *text)
{
        const unsigned char *at = (const unsigned char *)text;

        bytes_append_text(line, "\"");
        while (*at != '\0') {
                size_t length = utf8_char_bytes((const char *)at);

                if (*at == '"' || *at == '\\')
                        bytes_printf(line, "\\%c", *at);
                else if (*at < ' ' || *at == 0x7f)
                        bytes_printf(line, "\\u%04x", *at);
                else if (length == 0)
                        bytes_append_text(line, "\xef\xbf\xbd");
                else
                        bytes_append(line, at, length);
                at += length > 0 ? length : 1;
        }
        bytes_append_text(line, "\"");
}

void log_render_json(struct bytes *line, const char *time, enum log_level level, const char *event,
    const struct log_field *fields)
{
        bytes_printf(line, "{\"ts\":\"%s\",\"level\":\"%s\",\"event\":\"%s\"", time,
            log_level_name(level), event);
        for (const struct log_field *field = fields; field->name != NULL; field++) {
                if (field->kind == FIELD_TEXT && field->text == NULL)
                        continue;
                bytes_printf(line, ",\"%s\":", field->name);
                switch (field->kind) {
                case FIELD_TEXT:
                        append_json_text(line, field->text);
                        break;
                case FIELD_INTEGER:
                        bytes_printf(line, "%" PRId64, field->integer);
                        break;
                case FIELD_MILLISECONDS:
                        if (isfinite(field->milliseconds))
                                bytes_printf(line, "%.3f", field->milliseconds);
                        else
                                bytes_append_text(line, "null");
                        break;
                }
        }
        bytes_append_text(line, "}\n");
}
