/*
 * page.sql as the statement that one page needs: without what it does not ask
 * for, and with parameters by number. So the cost of a condition that a sink does
 * not set, or of stragglers that cannot be, is nothing at all.
 */
#pragma once

#include "outbox/routing_params.h"

#include <stdbool.h>
#include <stdint.h>

/* What page.sql calls $from_floor and so on; then the parameters of the routing. */
enum page_param {
        PAGE_FROM_SNAPSHOT,
        PAGE_FROM_FLOOR,
        PAGE_FROM_XID,
        PAGE_UNTIL_SNAPSHOT,
        PAGE_STRAGGLERS,
        PAGE_STRAGGLER_FLOOR,
        PAGE_LAST_ID,
        PAGE_ABOVE,
        PAGE_UPTO,
        PAGE_MAX_EVENTS,
        PAGE_MAX_EVENT_BYTES,
        PAGE_ROUTE, /* the first of N_ROUTE_PARAMS */
        N_PAGE_PARAMS = PAGE_ROUTE + N_ROUTE_PARAMS,
};

/* How the rows of the difference are told from those behind it. */
enum page_rows {
        PAGE_ROWS_NEW,            /* nothing was in progress at from_snapshot */
        PAGE_ROWS_AND_STRAGGLERS, /* it was, and is named */
        PAGE_ROWS_DEFINED,        /* by asking the snapshot about each of them */
};

struct page_shape {
        bool is_opening; /* else it goes on in a difference that is open */
        enum page_rows rows;
        bool is_any_topic;
        uint32_t conditions; /* bit n: there is a value for route parameter n */
};

struct page_text {
        char *sql;                             /* owned */
        enum page_param params[N_PAGE_PARAMS]; /* $1 is the first */
        int n_params;
};

void page_text_render(struct page_text *text, const struct page_shape *shape);
void page_text_deinit(struct page_text *text);

/* Of a page that is read with these. */
struct page_shape page_shape_of(const struct routing_params *route);
bool page_shapes_are_equal(const struct page_shape *a, const struct page_shape *b);
