/* One object for each line. It is valid JSON whatever a peer said: what is no UTF-8 becomes U+FFFD. */
#include "log/log_render.h"

#include <inttypes.h>
#include <math.h>

/* The bytes of the character that begins here; 0: none does. */
static size_t character_length(const unsigned char *at)
{
        size_t length = *at < 0x80                   ? 1
                        : *at >= 0xc2 && *at <= 0xdf ? 2
                        : *at >= 0xe0 && *at <= 0xef ? 3
                        : *at >= 0xf0 && *at <= 0xf4 ? 4
                                                     : 0;

        for (size_t i = 1; i < length; i++)
                if ((at[i] & 0xc0) != 0x80)
                        return 0;
        /* Overlong, surrogates, and beyond the last character. */
        if ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] > 0x9f) ||
            (*at == 0xf0 && at[1] < 0x90) || (*at == 0xf4 && at[1] > 0x8f))
                return 0;
        return length;
}

static void append_text(struct bytes *line, const char *text)
{
        const unsigned char *at = (const unsigned char *)text;

        bytes_append_text(line, "\"");
        while (*at != '\0') {
                size_t length = character_length(at);

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
                        append_text(line, field->text);
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
