/*
 * Making the progress of lanes durable.
 *
 * A settlement without verdicts, the usual case, moves a cursor. Those of all lanes are gathered
 * and go out as one statement: what a thousand receivers, or sixteen sinks, took in the last moment
 * is one write. A settlement with verdicts on deliveries is a statement by itself,
 * settle_verdicts.sql.
 *
 * Each store remembers where its cursor's row is (its ctid), and looks through that page up to
 * there. While a session holds an old snapshot no version of the row can go, and the index leads to
 * all of them: after ten minutes of that a settle took 5 ms instead of 0.1. To look at the row's
 * place alone would do, but then PostgreSQL removes nothing: it prunes a page that is more than
 * half full when a scan comes to it. If the row is elsewhere after all (the table was rewritten),
 * it is found by its key.
 */
#include "base/alloc.h"
#include "base/crash_point.h"
#include "outbox/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a cursor is to be put, as parameters in this order; what belongs to no open difference is
 * NULL. */
enum cursor_param {
        CURSOR_SINK,
        CURSOR_LANE,
        CURSOR_EPOCH,
        CURSOR_FROM_SNAPSHOT,
        CURSOR_FROM_FLOOR,
        CURSOR_FROM_XID,
        CURSOR_UNTIL_SNAPSHOT,
        CURSOR_UNTIL_FLOOR,
        CURSOR_UNTIL_XID,
        CURSOR_LAST_ID,
        CURSOR_PLACE, /* where its row is: see above */
        CURSOR_PAGE,  /* where the row's page begins */
        CURSOR_PACE,  /* struct lane_pace, or NULL */
        N_CURSOR_PARAMS,
};

/* Behind them, in each of these statements: attempts to be written along (attempt_log.h). The
 * numbers of the parameters are spelt out, because SQL knows no other way. */
#define NOTE_ATTEMPTS                                                                              \
        "CASE WHEN $14::text[] IS NOT NULL THEN courier.note_attempts($14::text[],"                \
        " $15::integer[], $16::text[], $17::integer[], $18::smallint[], $19::text[],"              \
        " $20::integer[], $21::bigint[], $22::bigint[], $23::bigint[], $24::text[], $25::text[],"  \
        " $26::text[]) END"

/* No settle came for so long: they are written by themselves. */
#define ATTEMPTS_DUE_MS 1000

struct cursor_params {
        const char *values[N_CURSOR_PARAMS]; /* borrowed from the store, the cursor and `numbers` */
        char numbers[5][24];
};

/* Of its snapshot, floor and xid; two numbers. */
static void set_frame(const char **values, char (*numbers)[24], const struct frame *frame)
{
        if (frame == NULL)
                return;
        snprintf(numbers[0], sizeof numbers[0], "%" PRId64, frame->floor);
        snprintf(numbers[1], sizeof numbers[1], "%" PRIu64, frame->xid);
        values[0] = frame->snapshot;
        values[1] = numbers[0];
        values[2] = numbers[1];
}

/* The params borrow from the store, the cursor and themselves: they must stay where they are. */
static void cursor_params_init(
    struct cursor_params *params, const struct lane_store *store, const struct cursor *cursor)
{
        *params = (struct cursor_params){.values = {[CURSOR_SINK] = store->sink,
                                             [CURSOR_LANE] = store->lane,
                                             [CURSOR_EPOCH] = store->epoch,
                                             [CURSOR_LAST_ID] = params->numbers[4],
                                             [CURSOR_PLACE] = store->place,
                                             [CURSOR_PAGE] = store->place_page}};
        set_frame(&params->values[CURSOR_FROM_SNAPSHOT], &params->numbers[0], cursor->from);
        set_frame(&params->values[CURSOR_UNTIL_SNAPSHOT], &params->numbers[2], cursor->until);
        snprintf(params->numbers[4], sizeof params->numbers[4], "%" PRId64, cursor->last_id);
        if (*store->pace != '\0')
                params->values[CURSOR_PACE] = store->pace;
}

/* A settlement's verdicts as one array for each column: parameters of settle_verdicts.sql, from $27
 * on. */
enum column {
        COLUMN_ID,
        COLUMN_KIND,
        COLUMN_IS_PARKED,
        COLUMN_ATTEMPTS,
        COLUMN_RETRIED_MS,
        COLUMN_WORDS,
        COLUMN_HAS_FAILED,
        COLUMN_STATE,
        COLUMN_DUE_IN_MS,
        COLUMN_GOES_LAST,
        COLUMN_REASON,
        COLUMN_TARGET,
        N_VERDICT_COLUMNS,
};

struct verdict_arrays {
        struct array_literal columns[N_VERDICT_COLUMNS];
};

static const char *const kinds[] = {
    [VERDICT_DELIVERED] = "delivered", [VERDICT_PARK] = "park", [VERDICT_DEAD] = "dead"};

static void add_verdict(
    struct array_literal *columns, const struct verdict *verdict, int64_t now_ms)
{
        bool parks = verdict->kind == VERDICT_PARK;
        bool is_dead = verdict->kind == VERDICT_DEAD;
        bool is_timed = parks && verdict->state != PARKED_DELAYED && verdict->due_ms > now_ms;

        array_add_int(&columns[COLUMN_ID], verdict->event->id);
        array_add_text(&columns[COLUMN_KIND], kinds[verdict->kind]);
        array_add_bool(&columns[COLUMN_IS_PARKED], verdict->is_parked);
        array_add_int(&columns[COLUMN_ATTEMPTS], verdict->n_attempts);
        array_add_int(&columns[COLUMN_RETRIED_MS], verdict->retried_ms);
        array_add_text(&columns[COLUMN_WORDS], verdict->words);
        array_add_bool(&columns[COLUMN_HAS_FAILED], verdict->has_failed);
        array_add_text(&columns[COLUMN_STATE], parks ? parked_state_name(verdict->state) : NULL);
        array_add_int(&columns[COLUMN_DUE_IN_MS], is_timed ? verdict->due_ms - now_ms : 0);
        array_add_bool(&columns[COLUMN_GOES_LAST], parks && verdict->goes_last);
        array_add_text(&columns[COLUMN_REASON], is_dead ? dead_reason_name(verdict->reason) : NULL);
        array_add_text(&columns[COLUMN_TARGET], is_dead ? verdict->target : NULL);
}

/* Sets values[0 .. N_VERDICT_COLUMNS), which are borrowed from the arrays. */
static void verdict_arrays_init(
    struct verdict_arrays *arrays, const struct settlement *settlement, const char **values)
{
        *arrays = (struct verdict_arrays){0};
        list_for_each (link, settlement->verdicts)
                add_verdict(
                    arrays->columns, list_owner(link, struct verdict, link), settlement->now_ms);
        for (int i = 0; i < N_VERDICT_COLUMNS; i++)
                values[i] = array_end(&arrays->columns[i]);
}

static void verdict_arrays_deinit(struct verdict_arrays *arrays)
{
        for (int i = 0; i < N_VERDICT_COLUMNS; i++)
                array_deinit(&arrays->columns[i]);
}

extern const char settle_verdicts_sql[]; /* settle_verdicts.sql, embedded at build time */

enum { SETTLE_VERDICTS, WAIT_FOR_DISK, WAIT_NO_MORE, WRITE_ATTEMPTS };

const struct pg_statement settle_statements[] = {
    [SETTLE_VERDICTS] = {.name = "settle_verdicts",
        .n_params = N_CURSOR_PARAMS + N_PACK_COLUMNS + N_VERDICT_COLUMNS,
        .sql = settle_verdicts_sql},
    [WAIT_FOR_DISK] = {.name = "wait_for_disk",
        .sql = "SELECT set_config('synchronous_commit', 'on', false)"},
    [WAIT_NO_MORE] = {.name = "wait_no_more",
        .sql = "SELECT set_config('synchronous_commit', 'off', false)"},
    [WRITE_ATTEMPTS] = {.name = "write_attempts",
        .n_params = N_PACK_COLUMNS,
        .sql = "SELECT courier.note_attempts($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,"
               " $12, $13)"},
};
const unsigned n_settle_statements = sizeof settle_statements / sizeof *settle_statements;

/* Two statements for the same: one lane at a time is usual, and costs a third less by itself. */
const struct pg_statement settle_one_statement = {.name = "settle_one",
    .n_params = N_CURSOR_PARAMS + N_PACK_COLUMNS,
    .sql = "UPDATE courier.cursor SET from_snapshot = $4::pg_snapshot, from_floor = $5::bigint,"
           "  from_xid = $6::xid8, until_snapshot = $7::pg_snapshot, until_floor = $8::bigint,"
           "  until_xid = $9::xid8, last_id = $10::bigint, settled_at = now(),"
           "  pace = coalesce($13::courier.pace, pace)"
           " WHERE ctid = (SELECT coalesce("
           "         (SELECT ctid FROM courier.cursor"
           "          WHERE ctid >= $12::tid AND ctid <= $11::tid"
           "            AND sink = $1 AND lane = $2::integer),"
           "         (SELECT ctid FROM courier.cursor WHERE sink = $1 AND lane = $2::integer)))"
           "   AND epoch = $3::bigint"
           " RETURNING 1, ctid, " NOTE_ATTEMPTS};

const struct pg_statement settle_batch_statement = {.name = "settle_batch",
    .n_params = N_CURSOR_PARAMS + N_PACK_COLUMNS,
    .sql = "UPDATE courier.cursor SET from_snapshot = to_here.from_snapshot::pg_snapshot,"
           "  from_floor = to_here.from_floor, from_xid = to_here.from_xid::xid8,"
           "  until_snapshot = to_here.until_snapshot::pg_snapshot,"
           "  until_floor = to_here.until_floor, until_xid = to_here.until_xid::xid8,"
           "  last_id = to_here.last_id, settled_at = now(),"
           "  pace = coalesce(to_here.pace::courier.pace, cursor.pace)"
           " FROM (SELECT given.*, coalesce("
           "         (SELECT ctid FROM courier.cursor"
           "          WHERE cursor.ctid >= given.page AND cursor.ctid <= given.place"
           "            AND cursor.sink = given.sink AND cursor.lane = given.lane),"
           "         (SELECT ctid FROM courier.cursor"
           "          WHERE cursor.sink = given.sink AND cursor.lane = given.lane)) AS found"
           "       FROM unnest($1::text[], $2::integer[], $3::bigint[], $4::text[], $5::bigint[],"
           "                   $6::text[], $7::text[], $8::bigint[], $9::text[], $10::bigint[],"
           "                   $11::tid[], $12::tid[], $13::text[]) WITH ORDINALITY"
           "         AS given (sink, lane, epoch, from_snapshot, from_floor, from_xid,"
           "                   until_snapshot, until_floor, until_xid, last_id, place,"
           "                   page, pace, number)) AS to_here"
           " WHERE cursor.ctid = to_here.found AND cursor.epoch = to_here.epoch"
           " RETURNING to_here.number, cursor.ctid,"
           "  CASE WHEN to_here.number = 1 THEN " NOTE_ATTEMPTS " END"};

void lane_store_note_pace(struct lane_store *store, const struct lane_pace *pace)
{
        snprintf(store->pace, sizeof store->pace, "(%" PRId64 ",%.3g,%" PRId32 ",%" PRId32 ")",
            pace->delivered_us, pace->rate, pace->p50_us, pace->p99_us);
}

void lane_store_note_attempt(struct lane_store *store, const struct attempt_record *record)
{
        struct outbox *outbox = store->outbox;

        if (!attempt_log_add(outbox->attempts, &store->pack_open, record)) {
                if (outbox->events.on_attempts_lost != NULL)
                        outbox->events.on_attempts_lost(
                            outbox->owner, 1, "too many came while none could be written");
                return;
        }
        if (!timer_is_armed(outbox->attempts_due))
                timer_arm(outbox->attempts_due, ATTEMPTS_DUE_MS);
}

/* The statement that was just executed takes them along. */
static void attempts_taken(struct outbox *outbox)
{
        attempt_log_clear(outbox->attempts);
        timer_disarm(outbox->attempts_due);
}

static void hear_of_attempts(
    struct outbox *outbox, uint64_t n_attempts, const PGresult *result, int column)
{
        for (int row = 0; row < PQntuples(result); row++)
                if (!PQgetisnull(result, row, column) && outbox->events.on_attempts_lost != NULL)
                        outbox->events.on_attempts_lost(
                            outbox->owner, n_attempts, PQgetvalue(result, row, column));
}

static void on_attempts_written(void *owner, PGresult *result)
{
        struct outbox *outbox = owner;

        hear_of_attempts(outbox, outbox->n_attempts_alone, result, 0);
        PQclear(result);
}

void session_write_attempts(struct outbox *outbox)
{
        const char *values[N_PACK_COLUMNS];
        size_t n_attempts;

        if (!pg_conn_is_ready(outbox->conn))
                return; /* the next session writes them */
        n_attempts = attempt_log_take(outbox->attempts, values);
        if (n_attempts == 0)
                return;
        outbox->n_attempts_alone = n_attempts;
        pg_conn_execute(outbox->conn, &settle_statements[WRITE_ATTEMPTS], values, false,
            on_attempts_written, outbox);
        attempts_taken(outbox);
}

enum cursor_room lane_store_note_place(struct lane_store *store, const char *place)
{
        unsigned old_page = 0, old_number = 0, page = 0, number = 0;
        bool was_known = sscanf(store->place, "(%u,%u)", &old_page, &old_number) == 2;

        sscanf(place, "(%u,%u)", &page, &number);
        snprintf(store->place, sizeof store->place, "%s", place);
        snprintf(store->place_page, sizeof store->place_page, "(%u,0)", page);
        if (!was_known)
                return ROOM_UNKNOWN;
        if (page != old_page)
                return ROOM_FULL;
        return number < old_number ? ROOM_REGAINED : ROOM_UNKNOWN;
}

static void fail_as_taken(struct outbox *outbox, const char *sink)
{
        struct error error;

        error_set(&error, ERROR_DATABASE,
            "the lane of sink %s was taken by another relay, or its cursor was removed", sink);
        pg_conn_fail(outbox->conn, &error);
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

struct moved {
        struct lane_store *store; /* borrowed */
        struct cursor to;         /* owns its frames */
        enum cursor_room room;    /* from the answer */
};

struct settle_batch {
        struct list link; /* outbox::settle_batches */
        struct outbox *outbox;
        struct moved *moved; /* owned */
        size_t n_moved, n_moved_max;
        size_t n_attempts; /* that it takes along */
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

static void add_moved(
    struct settle_batch *batch, struct lane_store *store, const struct cursor *cursor)
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
                struct moved *moved = &batch->moved[number - 1];
                moved->room = lane_store_note_place(moved->store, PQgetvalue(result, row, 1));
        }
}

static void on_batch_settled(void *owner, PGresult *result)
{
        struct settle_batch *batch = owner;
        bool all_ours = (size_t)PQntuples(result) == batch->n_moved;

        note_places(batch, result);
        hear_of_attempts(batch->outbox, batch->n_attempts, result, 2);
        PQclear(result);
        list_remove(&batch->link);
        for (size_t i = 0; all_ours && i < batch->n_moved; i++)
                batch->moved[i].store->events.on_settled(
                    batch->moved[i].store->owner, batch->moved[i].room);
        if (!all_ours)
                fail_as_taken(batch->outbox, batch->moved[0].store->sink);
        free_batch(batch);
}

/* `values`: of the cursors; there is room behind them. */
static void execute_batch(
    struct settle_batch *batch, const struct pg_statement *statement, const char **values)
{
        struct outbox *outbox = batch->outbox;

        batch->n_attempts = attempt_log_take(outbox->attempts, &values[N_CURSOR_PARAMS]);
        pg_conn_execute(outbox->conn, statement, values, false, on_batch_settled, batch);
        attempts_taken(outbox);
}

static void send_one(struct settle_batch *batch)
{
        struct cursor_params params;
        const char *values[N_CURSOR_PARAMS + N_PACK_COLUMNS];

        cursor_params_init(&params, batch->moved[0].store, &batch->moved[0].to);
        memcpy(values, params.values, sizeof params.values);
        execute_batch(batch, &settle_one_statement, values);
}

static void send_many(struct settle_batch *batch)
{
        struct array_literal columns[N_CURSOR_PARAMS] = {0};
        const char *values[N_CURSOR_PARAMS + N_PACK_COLUMNS];

        for (size_t i = 0; i < batch->n_moved; i++) {
                struct cursor_params params;

                cursor_params_init(&params, batch->moved[i].store, &batch->moved[i].to);
                for (int column = 0; column < N_CURSOR_PARAMS; column++)
                        array_add_text(&columns[column], params.values[column]);
        }
        for (int column = 0; column < N_CURSOR_PARAMS; column++)
                values[column] = array_end(&columns[column]);
        execute_batch(batch, &settle_batch_statement, values);
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
        if (attempt_log_is_full(outbox->attempts))
                session_write_attempts(outbox);
}

/* One whose answer is to wait for the disk goes by itself. */
static void settle_cursor(struct lane_store *store, const struct cursor *cursor)
{
        struct settle_batch *batch;

        if (!store->is_durable) {
                if (store->outbox->settling == NULL)
                        store->outbox->settling = create_batch(store->outbox);
                add_moved(store->outbox->settling, store, cursor);
                return;
        }
        batch = create_batch(store->outbox);
        add_moved(batch, store, cursor);
        session_begin_durable(store);
        send_batch(batch);
        session_end_durable(store);
}

static void on_verdicts_settled(void *owner, PGresult *result)
{
        struct lane_store *store = owner;
        bool was_ours = strcmp(PQgetvalue(result, 0, 0), "1") == 0;
        uint64_t n_missing = strtoull(PQgetvalue(result, 0, 1), NULL, 10);
        enum cursor_room room = lane_store_note_place(store, PQgetvalue(result, 0, 2));

        hear_of_attempts(store->outbox, store->n_attempts, result, 3);
        PQclear(result);
        if (!was_ours) {
                fail_as_taken(store->outbox, store->sink);
                return;
        }
        if (n_missing > 0 && store->events.on_missing != NULL)
                store->events.on_missing(store->owner, n_missing);
        store->events.on_settled(store->owner, room);
}

static void settle_verdicts(struct lane_store *store, const struct settlement *settlement)
{
        struct cursor_params cursor;
        struct verdict_arrays arrays;
        const char *values[N_CURSOR_PARAMS + N_PACK_COLUMNS + N_VERDICT_COLUMNS];
        struct outbox *outbox = store->outbox;

        crash_point("before_verdicts");
        cursor_params_init(&cursor, store, &settlement->cursor);
        memcpy(values, cursor.values, sizeof cursor.values);
        store->n_attempts = attempt_log_take(outbox->attempts, &values[N_CURSOR_PARAMS]);
        verdict_arrays_init(&arrays, settlement, &values[N_CURSOR_PARAMS + N_PACK_COLUMNS]);
        pg_conn_execute(outbox->conn, &settle_statements[SETTLE_VERDICTS], values, false,
            on_verdicts_settled, store);
        attempts_taken(outbox);
        verdict_arrays_deinit(&arrays);
}

void lane_store_settle(struct lane_store *store, const struct settlement *settlement)
{
        if (list_is_empty(settlement->verdicts)) {
                settle_cursor(store, &settlement->cursor);
                return;
        }
        session_begin_durable(store);
        settle_verdicts(store, settlement);
        session_end_durable(store);
}
