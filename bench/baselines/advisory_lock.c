/*
 * An advisory lock instead of row locks: who holds it is the only reader, so it needs no claims.
 * SELECT; deliver; DELETE.
 *
 * What was done for it:
 *   - The lock is taken once, for the session.
 *   - As no other relay reads, the next page need not wait for anything: it is asked for, together
 *     with the DELETE of the page before, when a page has arrived, and is read by the server while
 *     the sink is busy. Both are one transaction.
 *   - The scan begins above the last id read, as with the long transaction.
 *   - synchronous_commit = off: a DELETE that a crash takes back is a repetition.
 */
#include "run.h"

#include <stdio.h>

#define LOCK "4711"

static void prepare(PGconn *db)
{
        db_prepare(
            db, "delete", "DELETE FROM baseline.advisory_lock WHERE id = ANY ($1::bigint[])");
        db_prepare(db, "page",
            "SELECT id, event_id, topic, key, type, payload, headers, created_at"
            " FROM baseline.advisory_lock WHERE id > $1::bigint ORDER BY id LIMIT $2::integer");
}

static void lock(PGconn *db)
{
        PGresult *result;

        db_prepare(db, "lock", "SELECT pg_try_advisory_lock(" LOCK ")");
        db_send(db, "lock", 0, NULL);
        db_sync(db);
        result = db_result(db);
        if (PQgetvalue(result, 0, 0)[0] != 1)
                die("lock", "another session has it");
        PQclear(result);
        db_synced(db);
}

static void ask(PGconn *db, const struct run *run, struct id_list *delivered, int64_t above)
{
        char text[24];
        const char *ids[] = {id_list_text(delivered)};
        const char *bounds[] = {text, run->batch_text};

        snprintf(text, sizeof text, "%lld", (long long)above);
        db_send(db, "delete", 1, ids);
        db_send(db, "page", 2, bounds);
        db_sync(db);
        id_list_clear(delivered);
}

static PGresult *receive(PGconn *db)
{
        PGresult *rows;

        db_skip(db, 1);
        rows = db_result(db);
        db_synced(db);
        return rows;
}

static void delete_last(PGconn *db, struct id_list *delivered)
{
        const char *ids[] = {id_list_text(delivered)};

        db_send(db, "delete", 1, ids);
        db_sync(db);
        db_skip(db, 1);
        db_synced(db);
}

int main(int n_args, char **args)
{
        struct run run;
        struct id_list delivered = {0};
        PGresult *rows;
        PGconn *db;

        run_init(&run, n_args, args);
        db = db_connect(run.dsn);
        prepare(db);
        run_start(&run);
        lock(db);
        ask(db, &run, &delivered, 0);
        while (PQntuples(rows = receive(db)) > 0) {
                struct event last;

                event_read(&last, rows, PQntuples(rows) - 1);
                ask(db, &run, &delivered, last.id);
                run_deliver(&run, rows, &delivered);
                PQclear(rows);
        }
        PQclear(rows);
        delete_last(db, &delivered);
        run_end(&run);
        return 0;
}
