/* An event as one line of JSON. */
#pragma once

#include <pgcourier/event.h>

/* Grows as needed; no NUL at its end. */
struct text {
        char *data;
        size_t length;
        size_t capacity;
};

/* Ends the process where there is no memory: what is not finished is delivered again. */
void text_append(struct text *text, const void *data, size_t length);

/* {"id": …, "topic": …, "key": …, "type": …, "created": …, "headers": {…}, "payload": …} and a
 * newline; instead of `payload`, `data_hex` of what is no JSON. */
void event_line_append(struct text *text, const struct event *event);
