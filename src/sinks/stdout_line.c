#include "sinks/stdout_line.h"

#include "base/alloc.h"
#include "sinks/utf8.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Bytes that are not UTF-8 cannot come from PostgreSQL; if they do, the line stays valid. */
#define REPLACEMENT_CHARACTER "\xef\xbf\xbd"

static bool needs_escape(char byte)
{
        return (unsigned char)byte < ' ' || byte == '"' || byte == '\\';
}

static void append_escaped(struct bytes *out, char byte)
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

static void append_string(struct bytes *out, const char *text)
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
                        append_escaped(out, *text++);
                }
        }
        bytes_append_text(out, "\"");
}

static void append_member(struct bytes *out, const char *name, const char *value_or_null)
{
        bytes_append_text(out, ", \"");
        bytes_append_text(out, name);
        bytes_append_text(out, "\": ");
        if (value_or_null != NULL)
                append_string(out, value_or_null);
        else
                bytes_append_text(out, "null");
}

static void append_time(struct bytes *out, int64_t wall_us)
{
        int64_t second = wall_us / 1000000 - (wall_us % 1000000 < 0);
        const time_t seconds = (time_t)second;
        struct tm utc = {0};
        char text[64];

        gmtime_r(&seconds, &utc);
        snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", utc.tm_year + 1900,
            utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
            (int)(wall_us - second * 1000000));
        append_member(out, "time", text);
}

static void append_headers(struct bytes *out, const struct event *event)
{
        bytes_append_text(out, ", \"headers\": {");
        for (size_t i = 0; i < event->n_headers; i++) {
                if (i > 0)
                        bytes_append_text(out, ", ");
                append_string(out, event->headers[i].name);
                bytes_append_text(out, ": ");
                append_string(out, event->headers[i].value);
        }
        bytes_append_text(out, "}");
}

/* Drops blanks outside strings. Inside there are no line ends in valid JSON; should there be, they
 * are escaped, because the promise of one line goes before all. */
static void append_compacted(struct bytes *out, const char *json, size_t length)
{
        bool in_string = false;
        bool is_escaped = false;

        for (size_t i = 0; i < length; i++) {
                char byte = json[i];
                if (in_string && (unsigned char)byte < ' ')
                        append_escaped(out, byte);
                else if (in_string || (unsigned char)byte > ' ')
                        bytes_append(out, &byte, 1);
                if (byte == '"' && !is_escaped)
                        in_string = !in_string;
                is_escaped = in_string && byte == '\\' && !is_escaped;
        }
}

static bool is_one_line(const char *json, size_t length)
{
        return memchr(json, '\n', length) == NULL && memchr(json, '\r', length) == NULL;
}

static void append_payload(struct bytes *out, const struct event *event)
{
        if (event->is_json) {
                bytes_append_text(out, ", \"payload\": ");
                if (is_one_line(event->payload, event->payload_bytes))
                        bytes_append(out, event->payload, event->payload_bytes);
                else
                        append_compacted(out, event->payload, event->payload_bytes);
                return;
        }
        bytes_append_text(out, ", \"data_base64\": \"");
        if (event->payload_bytes > 0) {
                unsigned char *encoded = xcalloc(event->payload_bytes / 3 + 2, 4);
                int length = EVP_EncodeBlock(encoded, event->payload, (int)event->payload_bytes);
                bytes_append(out, encoded, (size_t)length);
                free(encoded);
        }
        bytes_append_text(out, "\"");
}

void stdout_line_append(struct bytes *out, const struct event *event, bool with_content)
{
        bytes_append_text(out, "{\"id\": ");
        append_string(out, event->event_id);
        append_member(out, "topic", event->topic);
        append_member(out, "key", event->key);
        append_member(out, "type", event->type);
        append_time(out, event->created_us);
        if (event->is_redriven)
                bytes_append_text(out, ", \"redriven\": true");
        if (with_content) {
                append_headers(out, event);
                append_payload(out, event);
        }
        bytes_append_text(out, "}\n");
}
