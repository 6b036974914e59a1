#include "sinks/format/event_json.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/utf8.h"

#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Bytes that are not UTF-8 cannot come from PostgreSQL; if they do, the line stays valid. */
#define REPLACEMENT_CHARACTER "\xef\xbf\xbd"

static bool needs_escape(char byte)
{
        return (unsigned char)byte < ' ' || byte == '"' || byte == '\\';
}

void event_json_append_escaped(struct bytes *out, char byte)
{
        if (byte == '"' || byte == '\\') {
                bytes_append_text(out, "\\");
                bytes_append(out, &byte, 1);
        } else if (byte == '\n') {
                bytes_append_text(out, "\\n");
        } else if (byte == '\t') {
                bytes_append_text(out, "\\t");
        } else {
                bytes_printf(out, "\\u%04x", (unsigned char)byte);
        }
}

void event_json_append_text(struct bytes *out, const char *text)
{
        bytes_append_text(out, "\"");
        while (*text != '\0') {
                size_t run = 0;
                size_t length = 1;
                while (text[run] != '\0' && !needs_escape(text[run])) {
                        length = utf8_char_bytes(text + run);
                        if (length == 0)
                                break;
                        run += length;
                }
                bytes_append(out, text, run);
                text += run;
                if (length == 0) {
                        bytes_append_text(out, REPLACEMENT_CHARACTER);
                        text++;
                } else if (*text != '\0') {
                        event_json_append_escaped(out, *text++);
                }
        }
        bytes_append_text(out, "\"");
}

void event_json_append_base64(struct bytes *out, const void *data, size_t length)
{
        bytes_append_text(out, "\"");
        if (length > 0) {
                unsigned char *encoded = xcalloc(length / 3 + 2, 4);
                int n_bytes = EVP_EncodeBlock(encoded, data, (int)length);
                bytes_append(out, encoded, (size_t)n_bytes);
                free(encoded);
        }
        bytes_append_text(out, "\"");
}

void event_time_format(char text[EVENT_TIME_SIZE], int64_t wall_us)
{
        int64_t second = wall_us / 1000000 - (wall_us % 1000000 < 0);
        const time_t seconds = (time_t)second;
        struct tm utc = {0};

        gmtime_r(&seconds, &utc);
        snprintf(text, EVENT_TIME_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", utc.tm_year + 1900,
            utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
            (int)(wall_us - second * 1000000));
}
