/*
 * Reading one page: the statement in page.sql, and its rows as events. The
 * events point into the result, which lives as long as the page.
 */
#include "base/alloc.h"
#include "outbox/event_row.h"
#include "outbox/headers.h"
#include "outbox/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

extern const char page_sql[]; /* page.sql, embedded at build time */

const struct pg_statement page_statement = {.name = "page", .sql = page_sql, .n_params = 10};

/* One page looks at so many ids at most, so that a sink whose topics are rare never runs a long
 * statement. */
#define SCAN_IDS "50000"

/* Behind those of the event. In the first row, the frame, ID is its floor. */
enum page_column {
        COLUMN_IS_DELAYED = N_EVENT_COLUMNS,
        COLUMN_FRAME,
        COLUMN_UPTO,
};

struct stored_page {
        struct page page; /* what the receiver holds; first, so that it can be freed from there */
        PGresult *result; /* owned */
        struct event_headers headers;
};

/* The statement leaves out a payload that is larger than was asked for. */
static bool is_left_out(const PGresult *result, int row)
{
        return PQgetisnull(result, row, COLUMN_PAYLOAD) && PQgetisnull(result, row, COLUMN_DATA);
}

/* `is_delayed` is there only if it says something: few pages have any. */
static void note_delayed(struct page *page, size_t n_rows)
{
        if (page->is_delayed == NULL)
                page->is_delayed = xcalloc(n_rows, sizeof *page->is_delayed);
        page->is_delayed[page->n_events] = true;
}

static void release(struct page *page)
{
        struct stored_page *stored = (struct stored_page *)(void *)page;

        PQclear(stored->result);
        event_headers_deinit(&stored->headers);
        cursor_deinit(&page->start);
        free(page->events);
        free(page->is_delayed);
        free(stored);
}

static struct frame *until_frame(const struct lane_store *store, const PGresult *result)
{
        if (store->request.start.until != NULL)
                return frame_ref(store->request.start.until);
        return frame_create(
            PQgetvalue(result, 0, COLUMN_FRAME), event_row_int64(result, 0, COLUMN_ID), 0);
}

/* Takes the result. The first row is the frame. */
static struct page *page_from_result(const struct lane_store *store, PGresult *result)
{
        struct stored_page *stored = xcalloc(1, sizeof *stored);
        struct page *page = &stored->page;
        int n_rows = PQntuples(result);
        int row = 1;

        stored->result = result;
        page->release = release;
        page->start = (struct cursor){.from = frame_ref(store->request.start.from),
            .until = until_frame(store, result),
            .last_id = store->request.start.last_id};
        page->events = xcalloc((size_t)n_rows, sizeof *page->events);
        for (; row < n_rows && !is_left_out(result, row); row++) {
                event_row_read(result, row, &stored->headers, &page->events[page->n_events]);
                if (event_row_bool(result, row, COLUMN_IS_DELAYED))
                        note_delayed(page, (size_t)n_rows);
                page->bytes += page->events[page->n_events].payload_bytes;
                page->n_events++;
        }
        /* A full page, or one cut before a large event, ends with its last event; any other has
         * seen everything up to the bound that the statement set itself. */
        if (page->n_events > 0 && (row < n_rows || page->n_events == store->request.max_events))
                page->upto = page->events[page->n_events - 1].id;
        else
                page->upto = event_row_int64(result, 0, COLUMN_UPTO);
        return page;
}

static void send_request(struct lane_store *store);

static void on_page_read(void *owner, PGresult *result)
{
        struct lane_store *store = owner;

        if (PQntuples(result) > 1 && is_left_out(result, 1)) {
                /* A large event comes next: it comes alone, whatever its size. A difference that
                 * was opened by this answer is forgotten and opened again. */
                PQclear(result);
                store->request.max_events = 1;
                store->request.max_event_bytes = INT64_MAX;
                send_request(store);
                return;
        }
        store->events.on_page(store->owner, page_from_result(store, result));
}

static void send_request(struct lane_store *store)
{
        const struct page_request *request = &store->request;
        const struct frame *from = request->start.from;
        const struct frame *until = request->start.until;
        char from_floor[24], from_xid[24], until_floor[24], last_id[24], max_events[24];
        char max_event_bytes[24];
        const char *const values[10] = {from->snapshot, from_floor, from_xid,
            until != NULL ? until->snapshot : NULL, until != NULL ? until_floor : NULL, last_id,
            store->topics.bytes.data, max_events, max_event_bytes, SCAN_IDS};

        snprintf(from_floor, sizeof from_floor, "%" PRId64, from->floor);
        snprintf(from_xid, sizeof from_xid, "%" PRIu64, from->xid);
        if (until != NULL)
                snprintf(until_floor, sizeof until_floor, "%" PRId64, until->floor);
        snprintf(last_id, sizeof last_id, "%" PRId64, request->start.last_id);
        snprintf(max_events, sizeof max_events, "%" PRIu32, request->max_events);
        snprintf(max_event_bytes, sizeof max_event_bytes, "%" PRIu64, request->max_event_bytes);
        pg_conn_execute(store->outbox->conn, &page_statement, values, true, on_page_read, store);
}

void lane_store_read(struct lane_store *store, const struct page_request *request)
{
        cursor_assign(&store->request.start, &request->start);
        store->request.max_events = request->max_events;
        store->request.max_event_bytes = request->max_event_bytes;
        send_request(store);
}
