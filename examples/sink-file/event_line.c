#include "event_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void text_append(struct text *text, const void *data, size_t length)
{
        if (length > text->capacity - text->length) {
                size_t capacity = 2 * text->capacity + length + 1024;
                text->data = realloc(text->data, capacity);
                if (text->data == NULL)
                        abort();
                text->capacity = capacity;
        }
        memcpy(text->data + text->length, data, length);
        text->length += length;
}

static void append(struct text *text, const char *words)
{
        text_append(text, words, strlen(words));
}

/* Texts of events are UTF-8 without NUL. */
static void append_string(struct text *text, const char *value)
{
        char escaped[8];

        append(text, "\"");
        for (; *value != '\0'; value++) {
                unsigned char byte = (unsigned char)*value;
                if (byte == '"' || byte == '\\')
                        snprintf(escaped, sizeof escaped, "\\%c", byte);
                else if (byte < ' ')
                        snprintf(escaped, sizeof escaped, "\\u%04x", byte);
                else
                        snprintf(escaped, sizeof escaped, "%c", byte);
                append(text, escaped);
        }
        append(text, "\"");
}

static void append_member(struct text *text, const char *name, const char *value)
{
        append(text, name);
        if (value != NULL)
                append_string(text, value);
        else
                append(text, "null");
}

static void append_time(struct text *text, int64_t us)
{
        time_t seconds = (time_t)(us / 1000000);
        struct tm parts;
        char day[40];
        char whole[56];

        gmtime_r(&seconds, &parts);
        strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
        snprintf(whole, sizeof whole, "%s.%06dZ", day, (int)(us % 1000000));
        append_member(text, ", \"created\": ", whole);
}

static void append_headers(struct text *text, const struct event *event)
{
        append(text, ", \"headers\": {");
        for (size_t i = 0; i < event->n_headers; i++) {
                if (i > 0)
                        append(text, ", ");
                append_string(text, event->headers[i].name);
                append_member(text, ": ", event->headers[i].value);
        }
        append(text, "}");
}

/* JSON has line ends only between its words, where a blank does as well. */
static void append_payload(struct text *text, const struct event *event)
{
        size_t start;

        append(text, ", \"payload\": ");
        start = text->length;
        text_append(text, event->payload, event->payload_bytes);
        for (size_t i = start; i < text->length; i++)
                if (text->data[i] == '\n' || text->data[i] == '\r')
                        text->data[i] = ' ';
}

static void append_data(struct text *text, const struct event *event)
{
        const unsigned char *bytes = event->payload;
        char digits[3];

        append(text, ", \"data_hex\": \"");
        for (size_t i = 0; i < event->payload_bytes; i++) {
                snprintf(digits, sizeof digits, "%02x", bytes[i]);
                append(text, digits);
        }
        append(text, "\"");
}

void event_line_append(struct text *text, const struct event *event)
{
        append_member(text, "{\"id\": ", event->event_id);
        append_member(text, ", \"topic\": ", event->topic);
        append_member(text, ", \"key\": ", event->key);
        append_member(text, ", \"type\": ", event->type);
        append_time(text, event->created_us);
        append_headers(text, event);
        if (event->is_json)
                append_payload(text, event);
        else
                append_data(text, event);
        append(text, "}\n");
}
