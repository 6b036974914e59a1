#include "sinks/format/event_json.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/utf8.h"
#include "pgcourier/event.h"
#include "sinks/format/event_time.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that are not UTF-8 cannot come from PostgreSQL; if they do, the line stays valid. */
#define REPLACEMENT_CHARACTER "\xef\xbf\xbd"

static bool needs_escape(char byte)
{
        return (unsigned char)byte < ' ' || byte == '"' || byte == '\\';
}

/* A control character, quote or backslash as it stands within a string. */
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
                        append_escaped(out, *text++);
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

static void append_member(struct bytes *out, const char *name, const char *value_or_null)
{
        bytes_append_text(out, ", \"");
        bytes_append_text(out, name);
        bytes_append_text(out, "\": ");
        if (value_or_null != NULL)
                event_json_append_text(out, value_or_null);
        else
                bytes_append_text(out, "null");
}

static void append_headers(struct bytes *out, const struct event *event)
{
        bytes_append_text(out, ", \"headers\": {");
        for (size_t i = 0; i < event->n_headers; i++) {
                if (i > 0)
                        bytes_append_text(out, ", ");
                event_json_append_text(out, event->headers[i].name);
                bytes_append_text(out, ": ");
                event_json_append_text(out, event->headers[i].value);
        }
        bytes_append_text(out, "}");
}

/* Drops blanks outside strings. Inside there are no line ends in valid JSON; if there are, they are
 * escaped, because an event is one line in any case. */
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
        bytes_append_text(out, ", \"data_base64\": ");
        event_json_append_base64(out, event->payload, event->payload_bytes);
}

void event_json_append_line(
    struct bytes *out, const struct event *event, struct event_time *time, bool with_content)
{
        bytes_append_text(out, "{\"id\": ");
        event_json_append_text(out, event->event_id);
        append_member(out, "topic", event->topic);
        append_member(out, "key", event->key);
        append_member(out, "type", event->type);
        append_member(out, "time", event_time_text(time, event->created_us));
        if (event->is_redriven)
                bytes_append_text(out, ", \"redriven\": true");
        if (with_content) {
                append_headers(out, event);
                append_payload(out, event);
        }
        bytes_append_text(out, "}\n");
}
