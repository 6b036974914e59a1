/*
 * Making a lane's progress durable, and drawing the transaction id that
 * completes a frame.
 */
#include "outbox/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRAW_XID, SETTLE };

const struct pg_statement settle_statements[] = {
    [DRAW_XID] = {.name = "draw_xid", .sql = "SELECT pg_current_xact_id()"},
    [SETTLE] = {.name = "settle",
        .n_params = 10,
        .sql = "UPDATE courier.cursor SET from_snapshot = $4::pg_snapshot, from_floor = $5::bigint,"
               " from_xid = $6::xid8, until_snapshot = $7::pg_snapshot, until_floor = $8::bigint,"
               " until_xid = $9::xid8, last_id = $10::bigint, settled_at = now()"
               " WHERE sink = $1 AND lane = $2::integer AND epoch = $3::bigint"},
};
const unsigned n_settle_statements = sizeof settle_statements / sizeof *settle_statements;

/* A frame's numbers as parameters. */
struct frame_values {
        char floor[24];
        char xid[24];
};

static void set_frame_values(
    struct frame_values *numbers, const struct frame *frame, const char **values)
{
        if (frame == NULL)
                return;
        snprintf(numbers->floor, sizeof numbers->floor, "%" PRId64, frame->floor);
        snprintf(numbers->xid, sizeof numbers->xid, "%" PRIu64, frame->xid);
        values[0] = frame->snapshot;
        values[1] = numbers->floor;
        values[2] = numbers->xid;
}

static void on_xid_drawn(void *owner, PGresult *result)
{
        struct lane_store *store = owner;
        uint64_t xid = strtoull(PQgetvalue(result, 0, 0), NULL, 10);

        PQclear(result);
        store->events.on_xid(store->owner, xid);
}

void lane_store_draw_xid(struct lane_store *store)
{
        pg_conn_execute(
            store->outbox->conn, &settle_statements[DRAW_XID], NULL, false, on_xid_drawn, store);
}

static void on_settle_done(void *owner, PGresult *result)
{
        struct lane_store *store = owner;
        bool was_ours = strcmp(PQcmdTuples(result), "1") == 0;
        struct error error;

        PQclear(result);
        if (was_ours) {
                store->events.on_settled(store->owner);
                return;
        }
        error_set(&error, ERROR_DATABASE,
            "the lane of sink %s was taken by another relay, or its cursor was removed",
            store->sink);
        pg_conn_fail(store->outbox->conn, &error);
}

void lane_store_settle(struct lane_store *store, const struct cursor *cursor)
{
        struct frame_values from;
        struct frame_values until;
        char last_id[24];
        const char *values[10] = {store->sink, store->lane, store->epoch};

        set_frame_values(&from, cursor->from, &values[3]);
        set_frame_values(&until, cursor->until, &values[6]);
        snprintf(last_id, sizeof last_id, "%" PRId64, cursor->last_id);
        values[9] = last_id;
        pg_conn_execute(
            store->outbox->conn, &settle_statements[SETTLE], values, false, on_settle_done, store);
}
