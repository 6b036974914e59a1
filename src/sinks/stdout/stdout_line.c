#include "sinks/stdout/stdout_line.h"

#include "sinks/format/event_json.h"

#include <string.h>

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

static void append_time(struct bytes *out, int64_t wall_us)
{
        char text[EVENT_TIME_SIZE];

        event_time_format(text, wall_us);
        append_member(out, "time", text);
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
                        event_json_append_escaped(out, byte);
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

void stdout_line_append(struct bytes *out, const struct event *event, bool with_content)
{
        bytes_append_text(out, "{\"id\": ");
        event_json_append_text(out, event->event_id);
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
