/* The headers column of a page's events: JSON objects as names and values. */
#pragma once

#include "pgcourier/event.h"

/* Owns what the headers of a page's events point at; zero-initialised. */
struct event_headers {
        struct header_block *blocks;
};

/* Sets event->headers from jsonb in PostgreSQL's binary format. A value that is not a string is
 * given as its JSON text; a name or value with a NUL character is left out. */
void event_headers_read(
    struct event_headers *headers, const char *jsonb, size_t length, struct event *event);
void event_headers_deinit(struct event_headers *headers);
