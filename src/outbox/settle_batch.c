/*
 * Making the progress of many lanes durable with one statement: what a thousand
 * receivers, or sixteen sinks, took in the last moment is one write.
 */
#include "base/alloc.h"
#include "outbox/session.h"

#include <stdio.h>
#include <stdlib.h>

enum {
        COLUMN_SINK,
        COLUMN_LANE,
        COLUMN_EPOCH,
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
    .sql = "WITH moved AS ("
           "  UPDATE courier.cursor SET from_snapshot = to_here.from_snapshot::pg_snapshot,"
           "    from_floor = to_here.from_floor, from_xid = to_here.from_xid::xid8,"
           "    until_snapshot = to_here.until_snapshot::pg_snapshot,"
           "    until_floor = to_here.until_floor, until_xid = to_here.until_xid::xid8,"
           "    last_id = to_here.last_id, settled_at = now()"
           "  FROM unnest($1::text[], $2::integer[], $3::bigint[], $4::text[], $5::bigint[],"
           "              $6::text[], $7::text[], $8::bigint[], $9::text[], $10::bigint[])"
           "       AS to_here (sink, lane, epoch, from_snapshot, from_floor, from_xid,"
           "                   until_snapshot, until_floor, until_xid, last_id)"
           "  WHERE cursor.sink = to_here.sink AND cursor.lane = to_here.lane"
           "    AND cursor.epoch = to_here.epoch"
           "  RETURNING 1)"
           " SELECT count(*) = cardinality($2::integer[]) FROM moved"};

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

void session_gather_settle(struct lane_store *store, const struct cursor *cursor)
{
        struct outbox *outbox = store->outbox;
        struct settle_batch *batch = outbox->settling;

        if (batch == NULL)
                batch = outbox->settling = create_batch(outbox);
        if (batch->n_stores == batch->n_stores_max) {
                batch->n_stores_max = batch->n_stores_max * 2 + 16;
                batch->stores =
                    xrealloc(batch->stores, batch->n_stores_max * sizeof(struct lane_store *));
        }
        batch->stores[batch->n_stores++] = store;
        array_add_text(&batch->columns[COLUMN_SINK], store->sink);
        array_add_int(&batch->columns[COLUMN_LANE], strtoll(store->lane, NULL, 10));
        array_add_int(&batch->columns[COLUMN_EPOCH], strtoll(store->epoch, NULL, 10));
        add_frame(&batch->columns[COLUMN_FROM_SNAPSHOT], cursor->from);
        add_frame(&batch->columns[COLUMN_UNTIL_SNAPSHOT], cursor->until);
        array_add_int(&batch->columns[COLUMN_LAST_ID], cursor->last_id);
}

/* The session may end with one of the answers, and the batch with it. */
static void on_batch_settled(void *owner, PGresult *result)
{
        struct settle_batch *batch = owner;
        bool all_ours = PQgetvalue(result, 0, 0)[0] == 't';

        PQclear(result);
        list_remove(&batch->link);
        if (all_ours)
                for (size_t i = 0; i < batch->n_stores; i++)
                        batch->stores[i]->events.on_settled(batch->stores[i]->owner);
        else
                session_fail_as_taken(batch->outbox, batch->stores[0]->sink);
        free_batch(batch);
}

void outbox_flush(struct outbox *outbox)
{
        struct settle_batch *batch = outbox->settling;
        const char *values[N_COLUMNS];

        if (batch == NULL)
                return;
        outbox->settling = NULL;
        for (int i = 0; i < N_COLUMNS; i++)
                values[i] = array_end(&batch->columns[i]);
        pg_conn_execute(
            outbox->conn, &settle_batch_statement, values, false, on_batch_settled, batch);
}
