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
#include "outbox/session.h"

#include <stdio.h>
#include <stdlib.h>

enum {
        COLUMN_SINK,
        COLUMN_LANE,
        COLUMN_EPOCH,
        COLUMN_PLACE,
        COLUMN_FROM_SNAPSHOT,
        COLUMN_FROM_FLOOR,
        COLUMN_FROM_XID,
        COLUMN_UNTIL_SNAPSHOT,
        COLUMN_UNTIL_FLOOR,
        COLUMN_UNTIL_XID,
        COLUMN_LAST_ID,
        N_COLUMNS,
};

const struct pg_statement settle_batch_statement = {.name = "settle_batch",
    .n_params = N_COLUMNS,
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
           "       FROM unnest($1::text[], $2::integer[], $3::bigint[], $4::tid[], $5::text[],"
           "                   $6::bigint[], $7::text[], $8::text[], $9::bigint[], $10::text[],"
           "                   $11::bigint[]) WITH ORDINALITY"
           "         AS given (sink, lane, epoch, place, from_snapshot, from_floor, from_xid,"
           "                   until_snapshot, until_floor, until_xid, last_id, number)) AS to_here"
           " WHERE cursor.ctid = to_here.found AND cursor.epoch = to_here.epoch"
           " RETURNING to_here.number, cursor.ctid"};

struct settle_batch {
        struct list link; /* outbox::settle_batches */
        struct outbox *outbox;
        struct array_literal columns[N_COLUMNS];
        struct lane_store **stores; /* owned list of borrowed stores */
        size_t n_stores, n_stores_max;
};

static void free_batch(struct settle_batch *batch)
{
        for (int i = 0; i < N_COLUMNS; i++)
                array_deinit(&batch->columns[i]);
        list_remove(&batch->link);
        free(batch->stores);
        free(batch);
}

void session_drop_settle_batches(struct outbox *outbox)
{
        list_for_each (link, &outbox->settle_batches)
                free_batch(list_owner(link, struct settle_batch, link));
        outbox->settling = NULL;
}

static void add_xid(struct array_literal *column, uint64_t xid)
{
        char text[24];

        snprintf(text, sizeof text, "%llu", (unsigned long long)xid);
        array_add_text(column, text);
}

/* `first` is that of three columns. */
static void add_frame(struct array_literal *first, const struct frame *frame)
{
        if (frame == NULL) {
                for (int i = 0; i < 3; i++)
                        array_add_text(&first[i], NULL);
                return;
        }
        array_add_text(&first[0], frame->snapshot);
        array_add_int(&first[1], frame->floor);
        add_xid(&first[2], frame->xid);
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
        if (batch->n_stores == batch->n_stores_max) {
                batch->n_stores_max = batch->n_stores_max * 2 + 16;
                batch->stores =
                    xrealloc(batch->stores, batch->n_stores_max * sizeof(struct lane_store *));
        }
        batch->stores[batch->n_stores++] = store;
        array_add_text(&batch->columns[COLUMN_SINK], store->sink);
        array_add_int(&batch->columns[COLUMN_LANE], strtoll(store->lane, NULL, 10));
        array_add_int(&batch->columns[COLUMN_EPOCH], strtoll(store->epoch, NULL, 10));
        array_add_text(&batch->columns[COLUMN_PLACE], store->place);
        add_frame(&batch->columns[COLUMN_FROM_SNAPSHOT], cursor->from);
        add_frame(&batch->columns[COLUMN_UNTIL_SNAPSHOT], cursor->until);
        array_add_int(&batch->columns[COLUMN_LAST_ID], cursor->last_id);
}

static void note_places(const struct settle_batch *batch, const PGresult *result)
{
        for (int row = 0; row < PQntuples(result); row++) {
                size_t number = strtoull(PQgetvalue(result, row, 0), NULL, 10);
                lane_store_note_place(batch->stores[number - 1], PQgetvalue(result, row, 1));
        }
}

static void on_batch_settled(void *owner, PGresult *result)
{
        struct settle_batch *batch = owner;
        bool all_ours = (size_t)PQntuples(result) == batch->n_stores;

        note_places(batch, result);
        PQclear(result);
        list_remove(&batch->link);
        if (all_ours)
                for (size_t i = 0; i < batch->n_stores; i++)
                        batch->stores[i]->events.on_settled(batch->stores[i]->owner);
        else
                session_fail_as_taken(batch->outbox, batch->stores[0]->sink);
        free_batch(batch);
}

static void send_batch(struct settle_batch *batch)
{
        const char *values[N_COLUMNS];

        for (int i = 0; i < N_COLUMNS; i++)
                values[i] = array_end(&batch->columns[i]);
        pg_conn_execute(
            batch->outbox->conn, &settle_batch_statement, values, false, on_batch_settled, batch);
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
