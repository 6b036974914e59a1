/* Values are quoted when they need it and control characters are escaped, so that no peer can forge a
 * line or a field. */
#include "log/log_render.h"

#include <inttypes.h>

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
                        append_text(line, field->text);
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
