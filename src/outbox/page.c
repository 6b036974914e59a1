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
#include "outbox/stragglers.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct pg_statement next_id_statement = {.name = "next_id",
    .n_params = 1,
    .sql = "SELECT min(id) FROM courier.outbox WHERE id > $1::bigint"};

/* One page looks at so many ids at most, so that a sink whose topics are rare never runs a long
 * statement. */
#define SCAN_IDS 50000

/* With a filter it depends on the payloads how long that takes: it begins with a few, and then as
 * many as the last ones let expect within this time. */
#define FIRST_SCAN_IDS 1000
#define LEAST_SCAN_IDS 50
#define SCAN_US        250000

/* Behind those of the event. In the first row of an opening page, the frame, ID is its floor; other
 * pages have no frame. What filters were asked about comes last. */
enum page_column {
        COLUMN_IS_DELAYED = N_EVENT_COLUMNS,
        COLUMN_FRAME,
        COLUMN_XID,
};

struct stored_page {
        struct page page;       /* what the receiver holds; first, to be freed from there */
        PGresult *result;       /* owned */
        int first_row, end_row; /* of the events */
        bool are_filters_asked;
        const struct routing *judge; /* what the statement could not say; NULL: it said all */
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

static bool is_opening(const struct lane_store *store)
{
        return store->request.start.until == NULL;
}

static struct frame *until_frame(const struct lane_store *store, const PGresult *result)
{
        uint64_t xid = 0;

        if (!is_opening(store))
                return frame_ref(store->request.start.until);
        if (!PQgetisnull(result, 0, COLUMN_XID))
                xid = (uint64_t)event_row_int64(result, 0, COLUMN_XID);
        return frame_create(
            PQgetvalue(result, 0, COLUMN_FRAME), event_row_int64(result, 0, COLUMN_ID), xid);
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

static void read_asked_filters(struct page *page, const PGresult *result, int row)
{
        /* An integer[]: dimensions, flags, type, length and lower bound, then length and value. */
        enum { HEADER_BYTES = 20, ELEMENT_BYTES = 8 };
        int column = PQnfields(result) - 1;
        int n_bytes = PQgetlength(result, row, column);
        const char *array = PQgetvalue(result, row, column);

        for (int at = HEADER_BYTES; at + ELEMENT_BYTES <= n_bytes; at += ELEMENT_BYTES) {
                uint32_t number;

                memcpy(&number, array + at + 4, sizeof number);
                set_filter(page, be32toh(number) - 1);
        }
}

static void read_event(struct stored_page *stored, int row, size_t n_rows)
{
        struct page *page = &stored->page;
        struct event *event = &page->events[page->n_events];

        event_row_read(stored->result, row, &stored->headers, event);
        if (stored->judge != NULL && !routing_matches(stored->judge, event)) {
                *event = (struct event){0};
                return;
        }
        if (event_row_bool(stored->result, row, COLUMN_IS_DELAYED))
                note_delayed(page, n_rows);
        if (stored->are_filters_asked)
                read_asked_filters(page, stored->result, row);
        else if (page->n_filters > 0)
                set_filter(page, 0); /* the only one, without which it would not be here */
        page->bytes += event->payload_bytes;
        page->n_events++;
}

static void read_events(struct stored_page *stored)
{
        size_t n_rows = (size_t)(stored->end_row - stored->first_row);

        stored->page.n_events = 0;
        stored->page.bytes = 0;
        stored->page.events = xcalloc(n_rows + 1, sizeof *stored->page.events);
        for (int row = stored->first_row; row < stored->end_row; row++)
                read_event(stored, row, n_rows);
}

/* A full page, or one cut before a large event, ends with its last event; any other has seen
 * everything that it was to look at. */
static int64_t upto(const struct lane_store *store, const PGresult *result, int n_events, int end)
{
        int64_t floor;

        if (n_events > 0 &&
            (end < PQntuples(result) || (uint32_t)n_events == store->request.max_events))
                return event_row_int64(result, end - 1, COLUMN_ID);
        if (!is_opening(store))
                return store->upto;
        floor = event_row_int64(result, 0, COLUMN_ID);
        return store->upto < floor ? store->upto : floor;
}

static size_t payload_bytes(const PGresult *result, int row)
{
        return (size_t)(PQgetlength(result, row, COLUMN_PAYLOAD) +
                        PQgetlength(result, row, COLUMN_DATA)); /* one of them is NULL: 0 */
}

/* Takes the result. Its events are read later: n_events and bytes say how much there is at most. */
static struct page *page_from_result(const struct lane_store *store, PGresult *result)
{
        struct stored_page *stored = xcalloc(1, sizeof *stored);
        struct page *page = &stored->page;
        int n_rows = PQntuples(result);
        int row = is_opening(store);

        stored->result = result;
        stored->first_row = row;
        stored->are_filters_asked = store->route.values[ROUTE_ASKED_FILTERS] != NULL;
        if (store->request.n_routings == 1 && !store->route.is_exact)
                stored->judge = store->request.routings[0];
        page->release = release;
        page->asked_us = store->asked_us;
        page->arrived_us = store->answered_us;
        page->start = (struct cursor){.from = frame_ref(store->request.start.from),
            .until = until_frame(store, result),
            .last_id = store->request.start.last_id};
        begin_filters(page, &store->route, (size_t)n_rows);
        for (; row < n_rows && !is_left_out(result, row); row++)
                page->bytes += payload_bytes(result, row);
        stored->end_row = row;
        page->n_events = (size_t)(row - stored->first_row);
        page->upto = upto(store, result, row - stored->first_row, row);
        return page;
}

static bool is_filtering(const struct lane_store *store)
{
        return store->route.values[ROUTE_FILTERS] != NULL;
}

static void adapt_scan(struct lane_store *store)
{
        int64_t took_us = store->answered_us - store->asked_us;

        if (!is_filtering(store))
                return;
        if (took_us > SCAN_US && store->scan_ids > LEAST_SCAN_IDS)
                store->scan_ids /= 2;
        else if (took_us < SCAN_US / 4 && store->scan_ids < SCAN_IDS)
                store->scan_ids *= 2;
}

static void give_page(struct lane_store *store)
{
        struct page *page = store->page;

        store->page = NULL;
        if (is_opening(store))
                session_note_looked(store->outbox, page);
        if (store->events.on_page_end != NULL)
                store->events.on_page_end(store->owner, page);
        read_events((struct stored_page *)(void *)page);
        store->events.on_page(store->owner, page);
}

/* Where many ids in a row are not there (their rows were removed, or a sequence was moved), the next
 * page begins behind them: what is in the difference and not removed is visible now. */
static void on_next_id(void *owner, PGresult *result)
{
        struct lane_store *store = owner;
        struct page *page = store->page;
        int64_t floor = page->start.until->floor;
        int64_t next = floor + 1;

        if (!PQgetisnull(result, 0, 0))
                next = event_row_int64(result, 0, 0);
        PQclear(result);
        page->upto = next <= floor ? next - 1 : floor;
        give_page(store);
}

static void look_for_next_id(struct lane_store *store)
{
        char upto[24];
        const char *const values[] = {upto};

        snprintf(upto, sizeof upto, "%" PRId64, store->page->upto);
        pg_conn_execute(store->outbox->conn, &next_id_statement, values, true, on_next_id, store);
}

static void send_request(struct lane_store *store);

static void on_page_read(void *owner, PGresult *result)
{
        struct lane_store *store = owner;
        int first = is_opening(store);
        bool is_empty = PQntuples(result) == first;

        store->answered_us = clock_monotonic_us();
        adapt_scan(store);
        if (!is_empty && is_left_out(result, first)) {
                /* A large event comes next: it comes alone, whatever its size. A difference that
                 * was opened by this answer is forgotten and opened again. */
                PQclear(result);
                store->request.max_events = 1;
                store->request.max_event_bytes = INT64_MAX;
                send_request(store);
                return;
        }
        store->page = page_from_result(store, result);
        if (is_empty && !page_ends_difference(store->page))
                look_for_next_id(store);
        else
                give_page(store);
}

/* Parameters as text, in the storage of the caller. */
struct page_values {
        const char *values[N_PAGE_PARAMS];
        char numbers[N_PAGE_PARAMS][24];
        struct array_literal stragglers;
};

static void set_number(struct page_values *params, enum page_param param, int64_t number)
{
        snprintf(params->numbers[param], sizeof params->numbers[param], "%" PRId64, number);
        params->values[param] = params->numbers[param];
}

/* What is looked at besides new rows. */
static void choose_stragglers(
    struct page_values *params, struct page_shape *shape, const struct frame *from)
{
        shape->looks_for_hidden = !stragglers_list(from, &params->stragglers);
        shape->has_stragglers = shape->looks_for_hidden || params->stragglers.bytes.length > 0;
        params->values[PAGE_STRAGGLERS] = array_end(&params->stragglers);
}

/* No page looks at more ids than this. */
static int64_t last_to_look_at(const struct lane_store *store, int64_t above)
{
        int64_t upto = above + (is_filtering(store) ? store->scan_ids : SCAN_IDS);

        if (!is_opening(store) && upto > store->request.start.until->floor)
                upto = store->request.start.until->floor;
        return upto;
}

static void execute(
    struct lane_store *store, const struct page_statement *form, const struct page_values *params)
{
        const char *values[N_PAGE_PARAMS];

        for (int i = 0; i < form->text.n_params; i++)
                values[i] = params->values[form->text.params[i]];
        store->asked_us = clock_monotonic_us();
        pg_conn_execute(store->outbox->conn, &form->statement, values, true, on_page_read, store);
}

static void send_request(struct lane_store *store)
{
        const struct page_request *request = &store->request;
        const struct frame *from = request->start.from;
        struct page_shape shape = page_shape_of(&store->route);
        struct page_values params = {0};
        int64_t above = request->start.last_id > from->floor ? request->start.last_id : from->floor;

        shape.is_opening = is_opening(store);
        choose_stragglers(&params, &shape, from);
        store->upto = last_to_look_at(store, above);
        frame_marks_note(&store->outbox->marks, from);
        if (shape.has_stragglers)
                set_number(&params, PAGE_STRAGGLER_FLOOR,
                    frame_marks_floor(&store->outbox->marks, stragglers_oldest(from)));
        params.values[PAGE_FROM_SNAPSHOT] = from->snapshot;
        set_number(&params, PAGE_FROM_FLOOR, from->floor);
        set_number(&params, PAGE_FROM_XID, (int64_t)from->xid);
        if (!shape.is_opening)
                params.values[PAGE_UNTIL_SNAPSHOT] = request->start.until->snapshot;
        set_number(&params, PAGE_LAST_ID, request->start.last_id);
        set_number(&params, PAGE_ABOVE, above);
        set_number(&params, PAGE_UPTO, store->upto);
        set_number(&params, PAGE_MAX_EVENTS, request->max_events);
        set_number(&params, PAGE_MAX_EVENT_BYTES, (int64_t)request->max_event_bytes);
        memcpy(&params.values[PAGE_ROUTE], store->route.values, sizeof store->route.values);
        execute(store, page_statements_get(&store->outbox->pages, store->outbox->conn, &shape),
            &params);
        array_deinit(&params.stragglers);
}

/* One that waited for what comes behind it, when the session was lost. */
void lane_store_forget_page(struct lane_store *store)
{
        if (store->page != NULL)
                store->page->release(store->page);
        store->page = NULL;
}

void lane_store_read(struct lane_store *store, const struct page_request *request)
{
        lane_store_forget_page(store);
        cursor_assign(&store->request.start, &request->start);
        store->request.max_events = request->max_events;
        store->request.max_event_bytes = request->max_event_bytes;
        store->request.routings = request->routings;
        store->request.n_routings = request->n_routings;
        route_params_deinit(&store->route);
        route_params_init(&store->route, request->routings, request->n_routings);
        if (store->scan_ids == 0)
                store->scan_ids = FIRST_SCAN_IDS;
        if (request->start.until == NULL)
                session_note_looking(store->outbox);
        send_request(store);
}
