#include "sinks/http/http_trace.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define HEX             "0123456789abcdef"
#define MAX_STATE_BYTES 512

static bool is_hex(const char *text, size_t length)
{
        return strspn(text, HEX) >= length;
}

/* Of zeros only stands for none. */
static bool is_id(const char *text, size_t length)
{
        return is_hex(text, length) && strspn(text, "0") < length;
}

/* 00-TRACE-PARENT-FLAGS; later versions may look otherwise, and nobody sends them yet. */
static bool is_parent(const char *value)
{
        return strlen(value) == 55 && memcmp(value, "00-", 3) == 0 && is_id(value + 3, 32) &&
               value[35] == '-' && is_id(value + 36, 16) && value[52] == '-' &&
               is_hex(value + 53, 2);
}

static bool is_state(const char *value)
{
        size_t length = strlen(value);

        for (size_t i = 0; i < length; i++)
                if (value[i] < ' ' || value[i] > '~')
                        return false;
        return length > 0 && length <= MAX_STATE_BYTES && value[0] != ' ' &&
               value[length - 1] != ' ';
}

struct http_trace http_trace_of(const struct event *event)
{
        struct http_trace trace = {0};

        for (size_t i = 0; i < event->n_headers; i++) {
                const struct event_header *header = &event->headers[i];

                if (strcasecmp(header->name, "traceparent") == 0 && is_parent(header->value))
                        trace.parent = header->value;
                else if (strcasecmp(header->name, "tracestate") == 0 && is_state(header->value))
                        trace.state = header->value;
        }
        if (trace.parent == NULL)
                trace.state = NULL;
        return trace;
}
