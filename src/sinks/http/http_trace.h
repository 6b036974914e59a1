/* W3C Trace Context: which of an event's headers may be passed on as such. */
#pragma once

#include "pgcourier/event.h"

struct http_trace {
        const char *parent; /* traceparent; NULL: none that is valid */
        const char *state;  /* tracestate; NULL: none, or none that belongs to a valid parent */
};

/* Borrowed from the event. */
struct http_trace http_trace_of(const struct event *event);
