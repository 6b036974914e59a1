/*
 * Reading one page: the statement in page.sql, and its rows as events. The
 * events point into the result, which lives as long as the page.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "outbox/event_row.h"
#include "outbox/headers.h"
#include "outbox/routing.h"
#include "outbox/session.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char page_sql[]; /* page.sql, embedded at build time */

const struct pg_statement page_statement = {
    .name = "page", .sql = page_sql, .n_params = 9 + N_ROUTE_PARAMS};

/* One page looks at so many ids at most, so that a sink whose topics are rare never runs a long
 * statement. */
#define SCAN_IDS 50000

/* With a filter it depends on the payloads how long that takes: it begins with a few, and then as
 * many as the last ones let expect within this time. */
#define FIRST_SCAN_IDS 1000
#define LEAST_SCAN_IDS 50
#define SCAN_US        250000

/* Behind those of the event. In the first row, the frame, ID is its floor. */
enum page_column {
        COLUMN_IS_DELAYED = N_EVENT_COLUMNS,
        COLUMN_FRAME,
        COLUMN_UPTO,
        COLUMN_FILTERS,
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
        for (size_t i = 0; i < page->n_filters; i++)
                free(page->filters[i]);
        free(page->filters);
        free(page->filter_bits);
        free(stored);
}

static struct frame *until_frame(const struct lane_store *store, const PGresult *result)
{
        if (store->request.start.until != NULL)
                return frame_ref(store->request.start.until);
        return frame_create(
            PQgetvalue(result, 0, COLUMN_FRAME), event_row_int64(result, 0, COLUMN_ID), 0);
}

/* The page has room for n_rows events. */
static void begin_filters(struct page *page, const struct route_params *route, size_t n_rows)
{
        if (route->n_filters == 0)
                return;
        page->n_filters = route->n_filters;
        page->filters = xcalloc(route->n_filters, sizeof *page->filters);
        for (size_t i = 0; i < route->n_filters; i++)
                page->filters[i] = xstrdup(route->filters[i]);
        page->filter_bits = xcalloc(n_rows, (route->n_filters + 7) / 8);
}

static void set_filter(struct page *page, size_t filter)
{
        size_t row_bytes = (page->n_filters + 7) / 8;

        page->filter_bits[page->n_events * row_bytes + filter / 8] |= (uint8_t)(1U << filter % 8);
}

/* A filter that was not asked about is the only one, without which the event would not be here. */
static void read_filters(struct page *page, const PGresult *result, int row)
{
        /* An integer[]: dimensions, flags, type, length and lower bound, then length and value. */
        enum { HEADER_BYTES = 20, ELEMENT_BYTES = 8 };
        int n_bytes = PQgetlength(result, row, COLUMN_FILTERS);
        const char *array = PQgetvalue(result, row, COLUMN_FILTERS);

        if (page->n_filters == 0)
                return;
        if (PQgetisnull(result, row, COLUMN_FILTERS)) {
                set_filter(page, 0);
                return;
        }
        for (int at = HEADER_BYTES; at + ELEMENT_BYTES <= n_bytes; at += ELEMENT_BYTES) {
                uint32_t number;

                memcpy(&number, array + at + 4, sizeof number);
                set_filter(page, be32toh(number) - 1);
        }
}

/* Where the statement could not say everything, the rest is said here. */
static bool is_wanted(const struct lane_store *store, const struct event *event)
{
        return store->request.n_routings != 1 || store->route.is_exact ||
               routing_matches(store->request.routings[0], event);
}

static void read_event(
    const struct lane_store *store, struct stored_page *stored, int row, size_t n_rows)
{
        struct page *page = &stored->page;
        struct event *event = &page->events[page->n_events];

        event_row_read(stored->result, row, &stored->headers, event);
        if (!is_wanted(store, event)) {
                *event = (struct event){0};
                return;
        }
        if (event_row_bool(stored->result, row, COLUMN_IS_DELAYED))
                note_delayed(page, n_rows);
        read_filters(page, stored->result, row);
        page->bytes += event->payload_bytes;
        page->n_events++;
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
        begin_filters(page, &store->route, (size_t)n_rows);
        for (; row < n_rows && !is_left_out(result, row); row++)
                read_event(store, stored, row, (size_t)n_rows);
        /* A full page, or one cut before a large event, ends with its last event; any other has
         * seen everything up to the bound that the statement set itself. */
        if (row > 1 && (row < n_rows || (uint32_t)row > store->request.max_events))
                page->upto = event_row_int64(result, row - 1, COLUMN_ID);
        else
                page->upto = event_row_int64(result, 0, COLUMN_UPTO);
        return page;
}

static bool is_filtering(const struct lane_store *store)
{
        return store->route.values[ROUTE_FILTERS] != NULL;
}

static void adapt_scan(struct lane_store *store)
{
        int64_t took_us = clock_monotonic_us() - store->asked_us;

        if (!is_filtering(store))
                return;
        if (took_us > SCAN_US && store->scan_ids > LEAST_SCAN_IDS)
                store->scan_ids /= 2;
        else if (took_us < SCAN_US / 4 && store->scan_ids < SCAN_IDS)
                store->scan_ids *= 2;
}

static void send_request(struct lane_store *store);

static void on_page_read(void *owner, PGresult *result)
{
        struct lane_store *store = owner;

        adapt_scan(store);
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
        char max_event_bytes[24], scan_ids[24];
        const char *values[9 + N_ROUTE_PARAMS] = {from->snapshot, from_floor, from_xid,
            until != NULL ? until->snapshot : NULL, until != NULL ? until_floor : NULL, last_id,
            max_events, max_event_bytes, scan_ids};

        snprintf(from_floor, sizeof from_floor, "%" PRId64, from->floor);
        snprintf(from_xid, sizeof from_xid, "%" PRIu64, from->xid);
        if (until != NULL)
                snprintf(until_floor, sizeof until_floor, "%" PRId64, until->floor);
        snprintf(last_id, sizeof last_id, "%" PRId64, request->start.last_id);
        snprintf(max_events, sizeof max_events, "%" PRIu32, request->max_events);
        snprintf(max_event_bytes, sizeof max_event_bytes, "%" PRIu64, request->max_event_bytes);
        snprintf(scan_ids, sizeof scan_ids, "%" PRIu32,
            is_filtering(store) ? store->scan_ids : (uint32_t)SCAN_IDS);
        memcpy(&values[9], store->route.values, sizeof store->route.values);
        store->asked_us = clock_monotonic_us();
        pg_conn_execute(store->outbox->conn, &page_statement, values, true, on_page_read, store);
}

void lane_store_read(struct lane_store *store, const struct page_request *request)
{
        cursor_assign(&store->request.start, &request->start);
        store->request.max_events = request->max_events;
        store->request.max_event_bytes = request->max_event_bytes;
        store->request.routings = request->routings;
        store->request.n_routings = request->n_routings;
        route_params_deinit(&store->route);
        route_params_init(&store->route, request->routings, request->n_routings);
        if (store->scan_ids == 0)
                store->scan_ids = FIRST_SCAN_IDS;
        send_request(store);
}
