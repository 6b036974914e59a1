/*
 * Taking a lane: its advisory lock is tried, its epoch raised. From then on the lane is this
 * session's, until it ends. The relays have agreed on the shards of the sink before (agreement.c).
 *
 *   try lock -no such lane-> gone
 *            -held-> owned elsewhere
 *            -granted-> raise epoch -the lock is of a lane that is no more-> unlock -> gone
 *                                   -> look at what is parked -> owned
 *
 * A lane may be given back before the session ends, to the same session or to another one. The
 * cursor of a receiver is made when its lane is claimed.
 */
#include "base/alloc.h"
#include "log/log.h"
#include "outbox/schema.h"
#include "outbox/session.h"
#include "pg/pg_error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        TRY_LOCK,
        FIND_CURSOR,
        MAKE_CURSOR,
        NOTE_SINK,
        RAISE_EPOCH,
        IS_GONE,
        READ_PARKED_KEYS,
        UNLOCK,
};

const struct pg_statement claim_statements[] = {
    /* And whether what is noted of the sink is what we would note. */
    [TRY_LOCK] = {.name = "try_lock",
        .n_params = 4,
        .sql = "SELECT pg_try_advisory_lock(" LOCK_CLASS ", lock_id),"
               " known.settings = $4::jsonb AND known.fans_out = $3::boolean, lock_id"
               " FROM courier.cursor LEFT JOIN courier.sink AS known ON known.name = cursor.sink"
               " WHERE cursor.sink = $1 AND lane = $2::integer"},
    /* The same for a lane that another one's lock covers. */
    [FIND_CURSOR] = {.name = "find_cursor",
        .n_params = 2,
        .sql = "SELECT true FROM courier.cursor WHERE sink = $1 AND lane = $2::integer"},
    /* The floor was read long ago. */
    [MAKE_CURSOR] = {.name = "make_cursor",
        .n_params = 5,
        .sql = "INSERT INTO courier.cursor"
               " (sink, lane, system_identifier, from_snapshot, from_floor, from_xid)"
               " SELECT $1, $2::integer, system_identifier, $3::pg_snapshot, $4::bigint,"
               " coalesce($5::xid8, pg_current_xact_id())"
               " FROM pg_control_system() ON CONFLICT DO NOTHING"},
    [NOTE_SINK] = {.name = "note_sink",
        .n_params = 5,
        .sql = "SELECT courier.note_sink($1, $2::boolean, $3::jsonb, $4::text[], $5::text[])"},
    [RAISE_EPOCH] = {.name = "raise_epoch",
        .n_params = 5,
        /* Nothing, if the database came from another cluster: then the cursors that came along
         * name it, or an event that we can see is from the future. Nor if the sink was divided
         * anew before the lock was granted; afterwards it cannot be. */
        .sql =
            "UPDATE courier.cursor SET epoch = epoch + 1, is_owner_lane = $3::boolean"
            " WHERE sink = $1 AND lane = $2::integer"
            " AND ($4::integer IS NULL OR lock_id = $4::integer"
            " AND $5::integer = (SELECT shards FROM courier.sink WHERE name = $1))"
            " AND NOT EXISTS (SELECT FROM courier.cursor AS any_lane, pg_control_system() AS here"
            " WHERE any_lane.system_identifier <> here.system_identifier)"
            " AND NOT EXISTS (SELECT FROM courier.outbox"
            " WHERE txid >= pg_snapshot_xmax(pg_current_snapshot()))"
            " RETURNING epoch, from_snapshot, from_floor, from_xid,"
            " until_snapshot, until_floor, until_xid, last_id, ctid"},
    [IS_GONE] = {.name = "is_gone",
        .n_params = 4,
        .sql = "SELECT NOT EXISTS (SELECT FROM courier.cursor JOIN courier.sink ON name = sink"
               " WHERE sink = $1 AND lane = $2::integer AND lock_id = $3::integer"
               " AND shards = $4::integer)"},
    [READ_PARKED_KEYS] = {.name = "read_parked_keys",
        .n_params = 2,
        .sql = "SELECT key, count(*),"
               " (array_agg(state = 'retry' AND NOT skip ORDER BY position))[1]"
               " FROM courier.parked"
               " WHERE sink = $1 AND lane = $2::integer AND state <> 'delayed' GROUP BY key"},
    [UNLOCK] = {.name = "unlock",
        .n_params = 1,
        .sql = "SELECT pg_advisory_unlock(" LOCK_CLASS ", $1::integer),"
               " pg_notify('courier_members', '')"},
};
const unsigned n_claim_statements = sizeof claim_statements / sizeof *claim_statements;

static void try_lock(struct lane_store *store);

static void execute(
    struct lane_store *store, int statement, const char *const *values, pg_result_fn *on_result)
{
        pg_conn_execute(
            store->outbox->conn, &claim_statements[statement], values, false, on_result, store);
}

static void refuse_foreign_cursor(struct lane_store *store)
{
        struct error error;

        error_set(&error, ERROR_SCHEMA,
            "the outbox and its cursors were written in another PostgreSQL cluster (and then "
            "restored from a dump or upgraded by pg_upgrade), so their transaction ids may not be "
            "valid here; "
            "stop all relays and run: pgcourier rebase");
        session_refuse(store->outbox, &error);
}

static struct frame *read_frame(const PGresult *result, int column)
{
        if (PQgetisnull(result, 0, column))
                return NULL;
        return frame_create(PQgetvalue(result, 0, column),
            strtoll(PQgetvalue(result, 0, column + 1), NULL, 10),
            strtoull(PQgetvalue(result, 0, column + 2), NULL, 10));
}

static void on_parked_keys_read(void *owner, PGresult *result)
{
        struct lane_store *store = owner;
        int n_rows = PQntuples(result);
        struct parked_keys parked = {.keys = xcalloc((size_t)n_rows + 1, sizeof *parked.keys)};

        for (int row = 0; row < n_rows; row++) {
                uint64_t n = strtoull(PQgetvalue(result, row, 1), NULL, 10);

                parked.n_rows += n;
                if (!PQgetisnull(result, row, 0))
                        parked.keys[parked.n_keys++] =
                            (struct parked_key){.key = PQgetvalue(result, row, 0),
                                .n_rows = n,
                                .is_waiting = PQgetvalue(result, row, 2)[0] == 't'};
        }
        store->events.on_owned(store->owner, &store->claimed, &parked);
        cursor_deinit(&store->claimed);
        free(parked.keys);
        PQclear(result);
}

static void on_gone_unlocked(void *owner, PGresult *result)
{
        struct lane_store *store = owner;

        PQclear(result);
        store->events.on_gone(store->owner);
}

static void on_gone_known(void *owner, PGresult *result)
{
        struct lane_store *store = owner;
        const char *const lock[] = {store->lock_id};
        bool is_gone = PQgetvalue(result, 0, 0)[0] == 't';

        PQclear(result);
        if (is_gone)
                execute(store, UNLOCK, lock, on_gone_unlocked);
        else
                refuse_foreign_cursor(store);
}

/* Its cursor is another cluster's; or the sink was divided anew. */
static void ask_why_not_raised(struct lane_store *store)
{
        const char *const values[] = {store->sink, store->lane, store->lock_id, store->n_shards};

        if (store->is_covered)
                refuse_foreign_cursor(store);
        else
                execute(store, IS_GONE, values, on_gone_known);
}

static void on_epoch_raised(void *owner, PGresult *result)
{
        struct lane_store *store = owner;
        const char *const lane[] = {store->sink, store->lane};

        if (PQntuples(result) == 0) {
                PQclear(result);
                ask_why_not_raised(store);
                return;
        }
        snprintf(store->epoch, sizeof store->epoch, "%s", PQgetvalue(result, 0, 0));
        cursor_deinit(&store->claimed); /* of a session that was lost between the two answers */
        store->claimed = (struct cursor){.from = read_frame(result, 1),
            .until = read_frame(result, 4),
            .last_id = strtoll(PQgetvalue(result, 0, 7), NULL, 10)};
        lane_store_note_place(store, PQgetvalue(result, 0, 8));
        PQclear(result);
        execute(store, READ_PARKED_KEYS, lane, on_parked_keys_read);
}

static void on_cursor_made(void *owner, PGresult *result)
{
        PQclear(result);
        try_lock(owner);
}

static void make_cursor(
    struct lane_store *store, const char *snapshot, const char *floor, const char *xid)
{
        const char *const values[] = {store->sink, store->lane, snapshot, floor, xid};

        execute(store, MAKE_CURSOR, values, on_cursor_made);
}

static void on_sink_noted(void *owner, PGresult *result)
{
        (void)owner;
        PQclear(result);
}

static void note_sink(struct lane_store *store, const PGresult *result)
{
        const char *const values[] = {store->sink, store->is_owner_lane ? "true" : "false",
            store->settings, store->topics, store->types};
        bool are_ours = !PQgetisnull(result, 0, 1) && PQgetvalue(result, 0, 1)[0] == 't';

        if (store->settings != NULL && !are_ours) /* its answer comes before that of the claim */
                execute(store, NOTE_SINK, values, on_sink_noted);
}

static void raise_epoch(struct lane_store *store)
{
        const char *const values[] = {store->sink, store->lane,
            store->is_owner_lane ? "true" : "false", store->is_covered ? NULL : store->lock_id,
            store->n_shards};

        session_begin_durable(store);
        execute(store, RAISE_EPOCH, values, on_epoch_raised);
        session_end_durable(store);
}

static void on_lock_tried(void *owner, PGresult *result)
{
        struct lane_store *store = owner;
        bool exists = PQntuples(result) == 1;
        bool granted = exists && PQgetvalue(result, 0, 0)[0] == 't';

        if (exists && !store->is_covered)
                snprintf(store->lock_id, sizeof store->lock_id, "%s", PQgetvalue(result, 0, 2));
        if (granted && !store->is_covered)
                note_sink(store, result);
        PQclear(result);
        if (granted)
                raise_epoch(store);
        else if (exists)
                store->events.on_owned_elsewhere(store->owner);
        else if (!store->is_covered)
                store->events.on_gone(store->owner);
        else if (store->start_snapshot != NULL)
                make_cursor(store, store->start_snapshot, store->start_floor, NULL);
        else /* a snapshot that sees nothing, and the first transaction id there is */
                make_cursor(store, "1:1:", "0", "3");
}

static void try_lock(struct lane_store *store)
{
        const char *const lane[] = {
            store->sink, store->lane, store->is_owner_lane ? "true" : "false", store->settings};

        execute(store, store->is_covered ? FIND_CURSOR : TRY_LOCK, lane, on_lock_tried);
}

void lane_store_claim(struct lane_store *store)
{
        try_lock(store);
}

static void on_unlocked(void *owner, PGresult *result)
{
        struct lane_store *store = owner;

        PQclear(result);
        store->events.on_released(store->owner);
}

void lane_store_release(struct lane_store *store)
{
        const char *const lock[] = {store->lock_id};

        outbox_flush(store->outbox); /* what was gathered goes first */
        execute(store, UNLOCK, lock, on_unlocked);
}
