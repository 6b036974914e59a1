/*
 * Claiming parked deliveries: the statement in parked.sql, and its rows. They
 * point into the result, which lives as long as the batch. And which lanes of a
 * sink have something to claim: one look for all of them.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "outbox/event_row.h"
#include "outbox/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the .sql files beside this one, embedded at build time. */
extern const char parked_sql[];
extern const char read_due_lanes_sql[];

const struct pg_statement parked_statement = {.name = "parked", .sql = parked_sql, .n_params = 7};
const struct pg_statement due_lanes_statement = {
    .name = "read_due_lanes", .sql = read_due_lanes_sql, .n_params = 1};

/* The states of a parked delivery and the reasons of a dead letter, as their tables' constraints
 * list them. */
const char *parked_state_name(enum parked_state state)
{
        switch (state) {
        case PARKED_RETRY:
                return "retry";
        case PARKED_BLOCKED:
                return "blocked";
        case PARKED_DELAYED:
                return "delayed";
        }
        abort();
}

const char *dead_reason_name(enum dead_reason reason)
{
        switch (reason) {
        case DEAD_REJECTED:
                return "rejected";
        case DEAD_ATTEMPTS:
                return "attempts";
        case DEAD_AGE:
                return "age";
        case DEAD_TOO_LARGE:
                return "too_large";
        case DEAD_UNJUDGED:
                return "unjudged";
        case DEAD_SKIPPED:
                return "skipped";
        }
        abort();
}

/* Behind those of the event. In the last row ID is next_due_ms, and nothing else is there. */
enum parked_column {
        COLUMN_STATE = N_EVENT_COLUMNS,
        COLUMN_ATTEMPTS,
        COLUMN_RETRIED_MS,
        COLUMN_SKIP,
        COLUMN_IS_REDRIVEN,
};

struct stored_batch {
        struct parked_batch batch; /* what the receiver holds; first, to be freed from there */
        PGresult *result;          /* owned */
        struct event_headers headers;
};

static enum parked_state read_state(const PGresult *result, int row)
{
        const char *name = PQgetvalue(result, row, COLUMN_STATE);
        enum parked_state state = PARKED_RETRY;

        /* The table's constraint lets no other through. */
        while (state < PARKED_DELAYED && strcmp(name, parked_state_name(state)) != 0)
                state++;
        return state;
}

static void read_row(struct stored_batch *stored, int row, struct parked_row *parked)
{
        const PGresult *result = stored->result;

        event_row_read(result, row, &stored->headers, &parked->event);
        parked->event.is_redriven = event_row_bool(result, row, COLUMN_IS_REDRIVEN);
        parked->state = read_state(result, row);
        parked->n_attempts = (uint32_t)event_row_int32(result, row, COLUMN_ATTEMPTS);
        parked->retried_ms = event_row_int64(result, row, COLUMN_RETRIED_MS);
        parked->is_skipped = event_row_bool(result, row, COLUMN_SKIP);
}

static void release(struct parked_batch *batch)
{
        struct stored_batch *stored = (struct stored_batch *)(void *)batch;

        PQclear(stored->result);
        event_headers_deinit(&stored->headers);
        free(batch->rows);
        free(stored);
}

static void on_parked_read(void *owner, PGresult *result)
{
        struct lane_store *store = owner;
        struct stored_batch *stored = xcalloc(1, sizeof *stored);
        struct parked_batch *batch = &stored->batch;
        int last = PQntuples(result) - 1;

        stored->result = result;
        batch->release = release;
        batch->arrived_us = clock_monotonic_us();
        batch->n_rows = (size_t)last;
        batch->rows = xcalloc(batch->n_rows + 1, sizeof *batch->rows);
        for (int row = 0; row < last; row++) {
                read_row(stored, row, &batch->rows[row]);
                batch->bytes += batch->rows[row].event.payload_bytes;
        }
        batch->next_due_ms = event_row_int64(result, last, COLUMN_ID);
        store->events.on_parked(store->owner, batch);
}

void lane_store_read_parked(struct lane_store *store, const struct parked_request *request)
{
        struct array_literal keys = {0};
        struct array_literal claimed = {0};
        char max_rows[24], max_rows_of_key[24], max_bytes[24];
        size_t rows_of_key = request->n_keys > 0 ? request->max_rows / request->n_keys : 1;
        uint64_t bytes = request->max_bytes < INT64_MAX ? request->max_bytes : INT64_MAX;

        for (size_t i = 0; i < request->n_keys; i++)
                array_add_text(&keys, request->keys[i]);
        for (size_t i = 0; i < request->n_claimed; i++)
                array_add_int(&claimed, request->claimed[i]);
        snprintf(max_rows, sizeof max_rows, "%" PRIu32, request->max_rows);
        snprintf(max_rows_of_key, sizeof max_rows_of_key, "%zu", rows_of_key > 0 ? rows_of_key : 1);
        snprintf(max_bytes, sizeof max_bytes, "%" PRIu64, bytes);
        pg_conn_execute(store->outbox->conn, &parked_statement,
            (const char *const[]){store->sink, store->lane, array_end(&keys), array_end(&claimed),
                max_rows, max_rows_of_key, max_bytes},
            true, on_parked_read, store);
        array_deinit(&keys);
        array_deinit(&claimed);
}

static void on_due_read(void *owner, PGresult *result)
{
        struct lane_store *store = owner;
        size_t n = (size_t)PQntuples(result);
        struct due_lane *lanes = xcalloc(n + 1, sizeof *lanes);

        for (size_t i = 0; i < n; i++)
                lanes[i] = (struct due_lane){
                    .lane = (int32_t)strtol(PQgetvalue(result, (int)i, 0), NULL, 10),
                    .due_ms = strtoll(PQgetvalue(result, (int)i, 1), NULL, 10)};
        store->events.on_due(store->owner, lanes, n);
        free(lanes);
        PQclear(result);
}

void lane_store_read_due(struct lane_store *store)
{
        pg_conn_execute(
            store->outbox->conn, &due_lanes_statement, &store->sink, false, on_due_read, store);
}
