/*
 * Writes serialised by an advisory lock (serialised_writers.sql), so that the last id seen is a safe
 * cursor: WHERE id > last ORDER BY id. The reader could not have it easier; the writers pay, one
 * transaction at a time.
 *
 * What was done for it:
 *   - The next page is asked for, together with the UPDATE of the cursor behind the page before,
 *     when a page has arrived; the server reads while the sink is busy. Both are one transaction.
 *   - synchronous_commit = off: a cursor that a crash takes back is a repetition.
 */
#include "run.h"

#include <stdio.h>
#include <stdlib.h>

static void prepare(PGconn *db)
{
        db_prepare(
            db, "advance", "UPDATE baseline.serialised_writers_cursor SET last_id = $1::bigint");
        db_prepare(db, "page",
            "SELECT id, event_id, topic, key, type, payload, headers, created_at"
            " FROM baseline.serialised_writers WHERE id > $1::bigint ORDER BY id"
            " LIMIT $2::integer");
        db_prepare(db, "cursor", "SELECT last_id::text FROM baseline.serialised_writers_cursor");
}

static int64_t read_cursor(PGconn *db)
{
        PGresult *row;
        int64_t last_id;

        db_send(db, "cursor", 0, NULL);
        db_sync(db);
        row = db_result(db);
        last_id = strtoll(PQgetvalue(row, 0, 0), NULL, 10);
        PQclear(row);
        db_synced(db);
        return last_id;
}

static void ask(PGconn *db, const struct run *run, int64_t delivered, int64_t above)
{
        char delivered_text[24];
        char above_text[24];
        const char *cursor[] = {delivered_text};
        const char *bounds[] = {above_text, run->batch_text};

        snprintf(delivered_text, sizeof delivered_text, "%lld", (long long)delivered);
        snprintf(above_text, sizeof above_text, "%lld", (long long)above);
        db_send(db, "advance", 1, cursor);
        db_send(db, "page", 2, bounds);
        db_sync(db);
}

static PGresult *receive(PGconn *db)
{
        PGresult *rows;

        db_skip(db, 1);
        rows = db_result(db);
        db_synced(db);
        return rows;
}

int main(int n_args, char **args)
{
        struct run run;
        PGresult *rows;
        PGconn *db;
        int64_t delivered;

        run_init(&run, n_args, args);
        db = db_connect(run.dsn);
        prepare(db);
        run_start(&run);
        delivered = read_cursor(db);
        ask(db, &run, delivered, delivered);
        while (PQntuples(rows = receive(db)) > 0) {
                struct event last;

                event_read(&last, rows, PQntuples(rows) - 1);
                ask(db, &run, delivered, last.id);
                delivered = run_deliver(&run, rows, NULL);
                PQclear(rows);
        }
        PQclear(rows);
        ask(db, &run, delivered, delivered); /* for the last UPDATE */
        PQclear(receive(db));
        run_end(&run);
        return 0;
}
