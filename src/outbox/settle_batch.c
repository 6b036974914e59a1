/*
 * Making the progress of many lanes durable with one statement: what a thousand
 * receivers, or sixteen sinks, took in the last moment is one write.
 *
 * Each store remembers where its cursor's row is (its ctid). While anybody holds
 * an old snapshot no version of that row can go, and the index leads to all of
 * them: after ten minutes of that a settle took 5 ms instead of 0.1. If the row
 * is somewhere else after all (somebody rewrote the table), it is found by its key.
 */
#include "base/alloc.h"
#include "outbox/cursor_params.h"
#include "outbox/session.h"

#include <stdio.h>
#include <stdlib.h>

/* Two statements for the same: one lane at a time is usual, and costs a third less by itself. */
const struct pg_statement settle_one_statement = {.name = "settle_one",
    .n_params = N_CURSOR_PARAMS,
    .sql = "UPDATE courier.cursor SET from_snapshot = $4::pg_snapshot, from_floor = $5::bigint,"
           "  from_xid = $6::xid8, until_snapshot = $7::pg_snapshot, until_floor = $8::bigint,"
           "  until_xid = $9::xid8, last_id = $10::bigint, settled_at = now()"
           " WHERE ctid = (SELECT coalesce("
           "         (SELECT ctid FROM courier.cursor"
           "          WHERE ctid = $11::tid AND sink = $1 AND lane = $2::integer),"
           "         (SELECT ctid FROM courier.cursor WHERE sink = $1 AND lane = $2::integer)))"
           "   AND epoch = $3::bigint"
           " RETURNING 1, ctid"};

const struct pg_statement settle_batch_statement = {.name = "settle_batch",
    .n_params = N_CURSOR_PARAMS,
    .sql = "UPDATE courier.cursor SET from_snapshot = to_here.from_snapshot::pg_snapshot,"
           "  from_floor = to_here.from_floor, from_xid = to_here.from_xid::xid8,"
           "  until_snapshot = to_here.until_snapshot::pg_snapshot,"
           "  until_floor = to_here.until_floor, until_xid = to_here.until_xid::xid8,"
           "  last_id = to_here.last_id, settled_at = now()"
           " FROM (SELECT given.*, coalesce("
           "         (SELECT ctid FROM courier.cursor WHERE cursor.ctid = given.place"
           "            AND cursor.sink = given.sink AND cursor.lane = given.lane),"
           "         (SELECT ctid FROM courier.cursor"
           "          WHERE cursor.sink = given.sink AND cursor.lane = given.lane)) AS found"
           "       FROM unnest($1::text[], $2::integer[], $3::bigint[], $4::text[], $5::bigint[],"
           "                   $6::text[], $7::text[], $8::bigint[], $9::text[], $10::bigint[],"
           "                   $11::tid[]) WITH ORDINALITY"
           "         AS given (sink, lane, epoch, from_snapshot, from_floor, from_xid,"
           "                   until_snapshot, until_floor, until_xid, last_id, place,"
           "                   number)) AS to_here"
           " WHERE cursor.ctid = to_here.found AND cursor.epoch = to_here.epoch"
           " RETURNING to_here.number, cursor.ctid"};

struct moved {
        struct lane_store *store; /* borrowed */
        struct cursor to;         /* owns its frames */
};

struct settle_batch {
        struct list link; /* outbox::settle_batches */
        struct outbox *outbox;
        struct moved *moved; /* owned */
        size_t n_moved, n_moved_max;
};

static void free_batch(struct settle_batch *batch)
{
        for (size_t i = 0; i < batch->n_moved; i++)
                cursor_deinit(&batch->moved[i].to);
        list_remove(&batch->link);
        free(batch->moved);
        free(batch);
}

void session_drop_settle_batches(struct outbox *outbox)
{
        list_for_each (link, &outbox->settle_batches)
                free_batch(list_owner(link, struct settle_batch, link));
        outbox->settling = NULL;
}

static struct settle_batch *create_batch(struct outbox *outbox)
{
        struct settle_batch *batch = xcalloc(1, sizeof *batch);

        batch->outbox = outbox;
        list_init(&batch->link);
        list_push_back(&outbox->settle_batches, &batch->link);
        return batch;
}

static void add(struct settle_batch *batch, struct lane_store *store, const struct cursor *cursor)
{
        struct moved *moved;

        if (batch->n_moved == batch->n_moved_max) {
                batch->n_moved_max = batch->n_moved_max * 2 + 4;
                batch->moved = xrealloc(batch->moved, batch->n_moved_max * sizeof *batch->moved);
        }
        moved = &batch->moved[batch->n_moved++];
        *moved = (struct moved){.store = store};
        cursor_assign(&moved->to, cursor);
}

static void note_places(const struct settle_batch *batch, const PGresult *result)
{
        for (int row = 0; row < PQntuples(result); row++) {
                size_t number = strtoull(PQgetvalue(result, row, 0), NULL, 10);
                lane_store_note_place(batch->moved[number - 1].store, PQgetvalue(result, row, 1));
        }
}

static void on_batch_settled(void *owner, PGresult *result)
{
        struct settle_batch *batch = owner;
        bool all_ours = (size_t)PQntuples(result) == batch->n_moved;

        note_places(batch, result);
        PQclear(result);
        list_remove(&batch->link);
        for (size_t i = 0; all_ours && i < batch->n_moved; i++)
                batch->moved[i].store->events.on_settled(batch->moved[i].store->owner);
        if (!all_ours)
                session_fail_as_taken(batch->outbox, batch->moved[0].store->sink);
        free_batch(batch);
}

static void send_one(struct settle_batch *batch)
{
        struct cursor_params params;

        cursor_params_init(&params, batch->moved[0].store, &batch->moved[0].to);
        pg_conn_execute(batch->outbox->conn, &settle_one_statement, params.values, false,
            on_batch_settled, batch);
}

static void send_many(struct settle_batch *batch)
{
        struct array_literal columns[N_CURSOR_PARAMS] = {0};
        const char *values[N_CURSOR_PARAMS];

        for (size_t i = 0; i < batch->n_moved; i++) {
                struct cursor_params params;

                cursor_params_init(&params, batch->moved[i].store, &batch->moved[i].to);
                for (int column = 0; column < N_CURSOR_PARAMS; column++)
                        array_add_text(&columns[column], params.values[column]);
        }
        for (int column = 0; column < N_CURSOR_PARAMS; column++)
                values[column] = array_end(&columns[column]);
        pg_conn_execute(
            batch->outbox->conn, &settle_batch_statement, values, false, on_batch_settled, batch);
        for (int column = 0; column < N_CURSOR_PARAMS; column++)
                array_deinit(&columns[column]);
}

static void send_batch(struct settle_batch *batch)
{
        if (batch->n_moved == 1)
                send_one(batch);
        else
                send_many(batch);
}

void outbox_flush(struct outbox *outbox)
{
        struct settle_batch *batch = outbox->settling;

        outbox->settling = NULL;
        if (batch != NULL)
                send_batch(batch);
}

/* One whose answer is to wait for the disk goes by itself. */
void session_settle_cursor(struct lane_store *store, const struct cursor *cursor)
{
        struct settle_batch *batch;

        if (!store->is_durable) {
                if (store->outbox->settling == NULL)
                        store->outbox->settling = create_batch(store->outbox);
                add(store->outbox->settling, store, cursor);
                return;
        }
        batch = create_batch(store->outbox);
        add(batch, store, cursor);
        session_begin_durable(store);
        send_batch(batch);
        session_end_durable(store);
}
