/*
 * A row of a binary result as an event.
 */
#pragma once

#include "pgcourier/event.h"

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

/* Owns what the headers of a page's events point at; zero-initialised. */
struct event_headers {
        struct header_block *blocks;
};

/* Sets event->headers from jsonb in PostgreSQL's binary format. A value that is not a string is
 * given as its JSON text; a name or value with a NUL character is left out. */
void event_headers_read(
    struct event_headers *headers, const char *jsonb, size_t length, struct event *event);
void event_headers_deinit(struct event_headers *headers);

/* The columns that page.sql and parked.sql have in common come first, in this order. */
enum event_column {
        COLUMN_ID,
        COLUMN_EVENT_ID,
        COLUMN_TOPIC,
        COLUMN_KEY,
        COLUMN_TYPE,
        COLUMN_PAYLOAD,
        COLUMN_DATA,
        COLUMN_HEADERS,
        COLUMN_CREATED_AT,
        COLUMN_SOURCE,
        N_EVENT_COLUMNS,
};

/* The event points into the result and into `headers`; is_redriven is left alone. */
void event_row_read(
    const PGresult *result, int row, struct event_headers *headers, struct event *event);

/* One column of it. A boolean is false where the column is NULL. */
int64_t event_row_int64(const PGresult *result, int row, int column);
int32_t event_row_int32(const PGresult *result, int row, int column);
bool event_row_bool(const PGresult *result, int row, int column);
