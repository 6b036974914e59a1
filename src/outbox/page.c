/*
 * Reading one page: the statement in page.sql, and its rows as events. The
 * events point into the result, which lives as long as the page.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "outbox/event_row.h"
#include "outbox/routing.h"
#include "outbox/session.h"
#include "pg/pg_error.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct pg_statement next_id_statement = {.name = "next_id",
    .n_params = 1,
    .sql = "SELECT min(id) FROM courier.outbox WHERE id > $1::bigint"};

/* One page looks at so many ids at most, so that a sink whose topics are rare never runs a long
 * statement. After a failure, perhaps for lack of time, the next page looks at half as many. */
#define SCAN_IDS   50000
#define MAX_HALVED 10

/* After the columns of the event. The first row of an opening page is the frame, with its floor as
 * ID; other pages have no frame. */
enum page_column {
        COLUMN_IS_DELAYED = N_EVENT_COLUMNS,
        COLUMN_FRAME,
        COLUMN_XID,
        N_OPENING_COLUMNS, /* the last may be the event's shard */
        N_OTHER_COLUMNS = COLUMN_FRAME,
};

struct stored_page {
        struct page page;            /* what the receiver holds; first, to be freed from there */
        PGresult *result;            /* owned */
        int first_row, end_row;      /* of the events */
        int shard_column;            /* 0: there is none */
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
        free(page->is_unjudged);
        free(page->shards);
        free(stored);
}

static bool is_opening(const struct lane_store *store)
{
        return store->request.start.until == NULL;
}

/* No id was drawn since the frame before, there is no event, and the page reaches the floor. */
static bool is_nothing_new(const struct lane_store *store, int64_t floor, int n_rows)
{
        return n_rows == 1 && floor <= store->request.start.from->floor && floor <= store->upto;
}

static struct frame *until_frame(const struct lane_store *store, const PGresult *result)
{
        int64_t floor;

        if (!is_opening(store))
                return frame_ref(store->request.start.until);
        floor = event_row_int64(result, 0, COLUMN_ID);
        if (is_nothing_new(store, floor, PQntuples(result)))
                return frame_ref(store->request.start.from);
        return frame_create(PQgetvalue(result, 0, COLUMN_FRAME), floor,
            (uint64_t)event_row_int64(result, 0, COLUMN_XID));
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
        if (page->shards != NULL)
                page->shards[page->n_events] =
                    (uint16_t)event_row_int32(stored->result, row, stored->shard_column);
        page->bytes += event->payload_bytes;
        page->n_events++;
}

static void read_events(struct stored_page *stored)
{
        size_t n_rows = (size_t)(stored->end_row - stored->first_row);

        stored->page.n_events = 0;
        stored->page.bytes = 0;
        stored->page.events = xcalloc(n_rows + 1, sizeof *stored->page.events);
        if (stored->shard_column != 0)
                stored->page.shards = xcalloc(n_rows + 1, sizeof *stored->page.shards);
        for (int row = stored->first_row; row < stored->end_row; row++)
                read_event(stored, row, n_rows);
}

/* A full page, and a page that was cut before a large event, ends with its last event; any other
 * covers all ids that it was to look at. */
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
        stored->judge = store->judge;
        if (store->tells_shards)
                stored->shard_column = is_opening(store) ? N_OPENING_COLUMNS : N_OTHER_COLUMNS;
        page->release = release;
        page->asked_us = store->asked_us;
        page->arrived_us = store->answered_us;
        page->start = (struct cursor){.from = frame_ref(store->request.start.from),
            .until = until_frame(store, result),
            .last_id = store->request.start.last_id};
        for (; row < n_rows && !is_left_out(result, row); row++)
                page->bytes += payload_bytes(result, row);
        stored->end_row = row;
        page->n_events = (size_t)(row - stored->first_row);
        page->upto = upto(store, result, row - stored->first_row, row);
        return page;
}

static void give_page(struct lane_store *store)
{
        struct page *page = store->page;

        store->page = NULL;
        if (store->n_halved > 0)
                store->n_halved--;
        if (is_opening(store))
                session_note_polled(store->outbox, page);
        if (store->events.on_page_end != NULL)
                store->events.on_page_end(store->owner, page);
        read_events((struct stored_page *)(void *)page);
        store->events.on_page(store->owner, page);
}

/* The statement was this lane's alone: the session goes on, and the lane asks again later, for
 * less. */
static void on_page_failed(void *owner, PGresult *result)
{
        struct lane_store *store = owner;
        struct error error;

        pg_error_set_refused(&error, result);
        PQclear(result);
        lane_store_forget_page(store);
        if (store->n_halved < MAX_HALVED)
                store->n_halved++;
        if (is_opening(store))
                session_note_polled(store->outbox, NULL);
        store->events.on_page_failed(store->owner, &error);
}

/* After a long gap in the ids (rows were removed, or the sequence was moved) the next page begins
 * behind the gap: every row of the difference that was not removed is visible now. */
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
        pg_conn_try(store->outbox->conn, &next_id_statement, values, true, on_next_id,
            on_page_failed, store);
}

static void send_request(struct lane_store *store);

static void on_page_read(void *owner, PGresult *result)
{
        struct lane_store *store = owner;
        int first = is_opening(store);
        bool is_empty = PQntuples(result) == first;

        store->answered_us = clock_monotonic_us();
        if (!is_empty && is_left_out(result, first)) {
                /* The next event is large: it is asked for alone, whatever its size. A difference
                 * that this answer opened is forgotten and opened again. */
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

/* No page looks at more ids than this. */
static int64_t last_to_look_at(const struct lane_store *store, int64_t above)
{
        int64_t upto = above + (SCAN_IDS >> store->n_halved);

        if (upto > page_cell_end(page_cell(above)))
                upto = page_cell_end(page_cell(above));
        if (!is_opening(store) && upto > store->request.start.until->floor)
                upto = store->request.start.until->floor;
        return upto;
}

/* The id above which rows are looked at one by one: that of a mark, and stragglers below it are
 * named. If these are too many to list, all rows from the oldest one on are looked at. */
static int64_t choose_rows(
    const struct lane_store *store, struct page_values *params, struct page_shape *shape)
{
        const struct frame_marks *marks = &store->outbox->marks;
        const struct frame *from = store->request.start.from;
        struct frame_mark mark = frame_marks_near(marks, from);
        struct frame_mark oldest = frame_marks_below(marks, stragglers_oldest(from));
        int64_t above = store->request.start.last_id;
        bool are_listed = true;

        if (mark.floor > above) {
                are_listed = stragglers_list(from, mark.xid, &params->stragglers);
                if (are_listed)
                        above = mark.floor;
                else if (oldest.floor > above)
                        above = oldest.floor;
        }
        shape->rows = above < from->floor ? PAGE_ROWS_DEFINED : PAGE_ROWS_NEW;
        if (are_listed && params->stragglers.bytes.length > 0) {
                shape->rows = PAGE_ROWS_AND_STRAGGLERS;
                params->values[PAGE_STRAGGLERS] = array_end(&params->stragglers);
                set_number(params, PAGE_STRAGGLER_FLOOR, oldest.floor);
        }
        return above;
}

static void execute(
    struct lane_store *store, const struct page_statement *form, const struct page_values *params)
{
        const char *values[N_PAGE_PARAMS];

        for (int i = 0; i < form->text.n_params; i++)
                values[i] = params->values[form->text.params[i]];
        store->asked_us = clock_monotonic_us();
        pg_conn_try(store->outbox->conn, &form->statement, values, true, on_page_read,
            on_page_failed, store);
}

static void send_request(struct lane_store *store)
{
        const struct page_request *request = &store->request;
        const struct frame *from = request->start.from;
        struct page_shape shape = page_shape_of(&store->route);
        struct page_values params = {0};
        int64_t above;

        frame_marks_note(&store->outbox->marks, from);
        shape.is_opening = is_opening(store);
        shape.tells_shards = store->tells_shards;
        shape.chooses_shards = store->shards != NULL;
        shape.leaves_out = store->newest_end != NULL && frame_is_older(from, store->newest_end);
        above = choose_rows(store, &params, &shape);
        shape.cell = page_cell(above);
        store->upto = last_to_look_at(store, above);
        params.values[PAGE_FROM_SNAPSHOT] = from->snapshot;
        set_number(&params, PAGE_FROM_FLOOR, from->floor);
        if (!shape.is_opening)
                params.values[PAGE_UNTIL_SNAPSHOT] = request->start.until->snapshot;
        set_number(&params, PAGE_LAST_ID, request->start.last_id);
        set_number(&params, PAGE_ABOVE, above);
        set_number(&params, PAGE_UPTO, store->upto);
        set_number(&params, PAGE_MAX_EVENTS, request->max_events);
        set_number(&params, PAGE_MAX_EVENT_BYTES, (int64_t)request->max_event_bytes);
        params.values[PAGE_SINK] = store->sink;
        params.values[PAGE_N_SHARDS] = store->n_shards;
        params.values[PAGE_SHARDS] = store->shards;
        memcpy(&params.values[PAGE_ROUTE], store->route.values, sizeof store->route.values);
        execute(store, page_statements_get(&store->outbox->pages, store->outbox->conn, &shape),
            &params);
        array_deinit(&params.stragglers);
}

void lane_store_route(
    struct lane_store *store, const struct routing *const *routings, size_t n_routings)
{
        routing_params_deinit(&store->route);
        routing_params_init(&store->route, routings, n_routings);
        store->judge = n_routings == 1 && !store->route.is_exact ? routings[0] : NULL;
}

void lane_store_choose(struct lane_store *store, uint32_t n_shards, const char *shards)
{
        store->tells_shards = true;
        snprintf(store->n_shards, sizeof store->n_shards, "%" PRIu32, n_shards);
        free(store->shards);
        store->shards = shards != NULL ? xstrdup(shards) : NULL;
}

void lane_store_leave_out(struct lane_store *store, const char *newest_end)
{
        frame_unref(store->newest_end);
        store->newest_end = newest_end != NULL ? frame_create(newest_end, 0, 0) : NULL;
}

void lane_store_read(struct lane_store *store, const struct page_request *request)
{
        lane_store_forget_page(store);
        cursor_assign(&store->request.start, &request->start);
        store->request.max_events = (request->max_events - 1) >> store->n_halved;
        store->request.max_events++;
        store->request.max_event_bytes = request->max_event_bytes;
        if (request->start.until == NULL)
                session_note_polling(store->outbox);
        send_request(store);
}
