/* W3C Trace Context: which of an event's headers may be passed on as such. Pure. */
#pragma once

#include "pgcourier/event.h"

#include <stdbool.h>

struct trace {
        const char *parent; /* traceparent; NULL: none that is valid */
        const char *state;  /* tracestate; NULL: none, or none that belongs to a valid parent */
};

/* Borrowed from the event. */
struct trace trace_of(const struct event *event);

/* In upper or lower case. */
bool trace_is_header(const char *name);
