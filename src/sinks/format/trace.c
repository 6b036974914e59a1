#include "sinks/format/trace.h"

#include <stddef.h>
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

/* 00-TRACE-PARENT-FLAGS; later versions may look otherwise, and are not in use yet. */
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

static bool is_parent_header(const char *name)
{
        return strcasecmp(name, "traceparent") == 0;
}

static bool is_state_header(const char *name)
{
        return strcasecmp(name, "tracestate") == 0;
}

struct trace trace_of(const struct event *event)
{
        struct trace trace = {0};

        for (size_t i = 0; i < event->n_headers; i++) {
                const struct event_header *header = &event->headers[i];

                if (is_parent_header(header->name) && is_parent(header->value))
                        trace.parent = header->value;
                else if (is_state_header(header->name) && is_state(header->value))
                        trace.state = header->value;
        }
        if (trace.parent == NULL)
                trace.state = NULL;
        return trace;
}

bool trace_is_header(const char *name)
{
        return is_parent_header(name) || is_state_header(name);
}
