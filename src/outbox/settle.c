/*
 * Making a lane's progress durable, and drawing the transaction id that
 * completes a frame. With verdicts on deliveries that is settle_verdicts.sql;
 * without any, which is the usual case, a part of settle_batch.c.
 */
#include "base/crash_point.h"
#include "outbox/cursor_params.h"
#include "outbox/session.h"
#include "outbox/verdicts.h"

#include <stdlib.h>
#include <string.h>

extern const char settle_verdicts_sql[]; /* settle_verdicts.sql, embedded at build time */

enum { N_PARAMS = N_CURSOR_PARAMS + N_VERDICT_COLUMNS };
enum { DRAW_XID, SETTLE_VERDICTS, WAIT_FOR_DISK, WAIT_NO_MORE };

const struct pg_statement settle_statements[] = {
    [DRAW_XID] = {.name = "draw_xid", .sql = "SELECT pg_current_xact_id()"},
    [SETTLE_VERDICTS] = {.name = "settle_verdicts",
        .n_params = N_PARAMS,
        .sql = settle_verdicts_sql},
    [WAIT_FOR_DISK] = {.name = "wait_for_disk",
        .sql = "SELECT set_config('synchronous_commit', 'on', false)"},
    [WAIT_NO_MORE] = {.name = "wait_no_more",
        .sql = "SELECT set_config('synchronous_commit', 'off', false)"},
};
const unsigned n_settle_statements = sizeof settle_statements / sizeof *settle_statements;

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

void session_fail_as_taken(struct outbox *outbox, const char *sink)
{
        struct error error;

        error_set(&error, ERROR_DATABASE,
            "the lane of sink %s was taken by another relay, or its cursor was removed", sink);
        pg_conn_fail(outbox->conn, &error);
}

static void on_verdicts_settled(void *owner, PGresult *result)
{
        struct lane_store *store = owner;
        bool was_ours = strcmp(PQgetvalue(result, 0, 0), "1") == 0;
        uint64_t n_missing = strtoull(PQgetvalue(result, 0, 1), NULL, 10);

        lane_store_note_place(store, PQgetvalue(result, 0, 2));
        PQclear(result);
        if (!was_ours) {
                session_fail_as_taken(store->outbox, store->sink);
                return;
        }
        if (n_missing > 0 && store->events.on_missing != NULL)
                store->events.on_missing(store->owner, n_missing);
        store->events.on_settled(store->owner);
}

void session_begin_durable(struct lane_store *store)
{
        if (store->is_durable)
                pg_conn_execute(store->outbox->conn, &settle_statements[WAIT_FOR_DISK], NULL, false,
                    NULL, NULL);
}

void session_end_durable(struct lane_store *store)
{
        if (store->is_durable)
                pg_conn_execute(
                    store->outbox->conn, &settle_statements[WAIT_NO_MORE], NULL, false, NULL, NULL);
}

static void settle_verdicts(struct lane_store *store, const struct settlement *settlement)
{
        struct cursor_params cursor;
        struct verdict_arrays arrays;
        const char *values[N_PARAMS];

        crash_point("before_verdicts");
        cursor_params_init(&cursor, store, &settlement->cursor);
        memcpy(values, cursor.values, sizeof cursor.values);
        verdict_arrays_init(&arrays, settlement, &values[N_CURSOR_PARAMS]);
        pg_conn_execute(store->outbox->conn, &settle_statements[SETTLE_VERDICTS], values, false,
            on_verdicts_settled, store);
        verdict_arrays_deinit(&arrays);
}

void lane_store_settle(struct lane_store *store, const struct settlement *settlement)
{
        if (list_is_empty(settlement->verdicts)) {
                session_settle_cursor(store, &settlement->cursor);
                return;
        }
        session_begin_durable(store);
        settle_verdicts(store, settlement);
        session_end_durable(store);
}
