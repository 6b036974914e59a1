/*
 * page.sql as the statement that one page needs: without what it does not ask
 * for, and with parameters by number. So the cost of a condition that a sink does
 * not set, or of stragglers that cannot be, is nothing at all.
 */
#pragma once

#include "outbox/routing.h"
#include "pg/pg_conn.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What page.sql calls $from_floor and so on; then the parameters of the routing. */
enum page_param {
        PAGE_FROM_SNAPSHOT,
        PAGE_FROM_FLOOR,
        PAGE_UNTIL_SNAPSHOT,
        PAGE_STRAGGLERS,
        PAGE_STRAGGLER_FLOOR,
        PAGE_LAST_ID,
        PAGE_ABOVE,
        PAGE_UPTO,
        PAGE_MAX_EVENTS,
        PAGE_MAX_EVENT_BYTES,
        PAGE_SINK,
        PAGE_N_SHARDS,
        PAGE_SHARDS,
        PAGE_ROUTE, /* the first of N_ROUTE_PARAMS */
        N_PAGE_PARAMS = PAGE_ROUTE + N_ROUTE_PARAMS,
};

/* How the rows of the difference are told from those behind it. */
enum page_rows {
        PAGE_ROWS_NEW,            /* those that it looks at are above the floor of from_snapshot */
        PAGE_ROWS_DEFINED,        /* by asking the snapshot about each of them */
        PAGE_ROWS_AND_STRAGGLERS, /* the same; and what was in progress for long is named */
};

/*
 * The ids are divided into cells, and a page looks at ids of one cell. A statement that names its
 * cell by constants is planned for the one or two partitions that can hold these ids; PostgreSQL
 * locks and opens only them. Without, it would lock all partitions at each look.
 */
static inline int64_t page_cell(int64_t above)
{
        return above >> 18;
}

/* The last id of the cell. */
static inline int64_t page_cell_end(int64_t cell)
{
        return (cell + 1) << 18;
}

struct page_shape {
        bool is_opening; /* else it goes on in a difference that is open */
        enum page_rows rows;
        int64_t cell;        /* that of its ids; -1: the statement does not name it */
        bool tells_shards;   /* which shard each event is of */
        bool chooses_shards; /* it has the events of some of them */
        bool leaves_out;     /* what former shards had behind them */
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

/*
 * The forms of page.sql that this program has needed so far. Each is prepared when a session needs
 * it for the first time.
 */
struct page_statement {
        struct page_shape shape;
        struct page_text text;
        char name[24];
        struct pg_statement statement; /* made of these */
        uint64_t session;              /* the last one in which it was prepared */
};

struct page_statements {
        struct page_statement **forms; /* owned */
        size_t n_forms;
        uint64_t session; /* the one at hand: 1 is the first */
        int64_t cell;     /* the last one that a page was read in: only its statements name it, so
                           * that lanes at different places do not prepare them in turns */
};

void page_statements_deinit(struct page_statements *pages);

/* Nothing is prepared in the session that begins now. */
void page_statements_begin_session(struct page_statements *pages);

/* Of this shape, and prepared. It names the cell only if no page was read in a later one. */
const struct page_statement *page_statements_get(
    struct page_statements *pages, struct pg_conn *conn, const struct page_shape *wanted);
