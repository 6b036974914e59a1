/*
 * A lease: UPDATE ... SET leased_until ... WHERE id IN (SELECT ... FOR UPDATE SKIP LOCKED)
 * RETURNING; deliver; DELETE.
 *
 * What was done for it:
 *   - Two workers with a connection each, served in turn by this one thread: while the sink has the
 *     batch of one, the server deletes and claims for the other.
 *   - The DELETE and the next claim go to the server in one piece, and are one transaction.
 *   - The scan begins above the last id claimed, as with the long transaction. When it has found
 *     nothing more, it begins anew: with what was committed late, and leases that ran out.
 *   - leased_until is not indexed and the table's pages are filled by half (lease.sql): the UPDATE
 *     writes no index.
 *   - The claim joins by ctid, which spares a walk through the index for each row: a row's place
 *     cannot change between its being locked and its being updated.
 *   - synchronous_commit = off: a lease or a DELETE that a crash takes back is a repetition.
 */
#include "run.h"

#include <stdio.h>

#define N_WORKERS 2

struct worker {
        PGconn *db;
        struct id_list ids; /* leased and delivered, not yet deleted */
};

static void worker_open(struct worker *worker, const char *dsn)
{
        worker->db = db_connect(dsn);
        db_prepare(
            worker->db, "delete", "DELETE FROM baseline.lease WHERE id = ANY ($1::bigint[])");
        db_prepare(worker->db, "claim",
            "UPDATE baseline.lease SET leased_until = now() + interval '1 minute'"
            " WHERE ctid = ANY (ARRAY("
            "SELECT ctid FROM baseline.lease WHERE id > $1::bigint AND leased_until < now()"
            " ORDER BY id LIMIT $2::integer FOR UPDATE SKIP LOCKED))"
            " RETURNING id, event_id, topic, key, type, payload, headers, created_at");
}

static void ask(struct worker *worker, const struct run *run, int64_t above)
{
        char text[24];
        const char *ids[] = {id_list_text(&worker->ids)};
        const char *bounds[] = {text, run->batch_text};

        snprintf(text, sizeof text, "%lld", (long long)above);
        db_send(worker->db, "delete", 1, ids);
        db_send(worker->db, "claim", 2, bounds);
        db_sync(worker->db);
        id_list_clear(&worker->ids);
}

static PGresult *receive(struct worker *worker)
{
        PGresult *rows;

        db_skip(worker->db, 1);
        rows = db_result(worker->db);
        db_synced(worker->db);
        return rows;
}

int main(int n_args, char **args)
{
        struct run run;
        struct worker workers[N_WORKERS] = {0};
        int64_t claimed = 0;

        run_init(&run, n_args, args);
        for (int i = 0; i < N_WORKERS; i++)
                worker_open(&workers[i], run.dsn);
        run_start(&run);
        for (int i = 0; i < N_WORKERS; i++)
                ask(&workers[i], &run, 0);
        for (int i = 0, n_without = 0; n_without < N_WORKERS; i = (i + 1) % N_WORKERS) {
                PGresult *rows = receive(&workers[i]);
                int64_t last = run_deliver(&run, rows, &workers[i].ids);

                n_without = PQntuples(rows) > 0 ? 0 : n_without + 1;
                claimed = last > claimed ? last : claimed;
                PQclear(rows);
                if (n_without == N_WORKERS && run_goes_on(&run))
                        n_without = claimed = 0;
                ask(&workers[i], &run, claimed);
        }
        for (int i = 0; i < N_WORKERS; i++)
                PQclear(receive(&workers[i]));
        run_end(&run);
        return 0;
}
