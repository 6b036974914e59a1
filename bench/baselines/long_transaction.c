/*
 * One long transaction: BEGIN; SELECT ... FOR UPDATE SKIP LOCKED; deliver; DELETE; COMMIT.
 *
 * What was done for it:
 *   - Two workers with a connection each, served in turn by this one thread: while the sink has the
 *     batch of one, the server deletes, commits and claims for the other. That is what SKIP LOCKED
 *     is for.
 *   - DELETE, COMMIT, BEGIN and the next SELECT go to the server in one piece.
 *   - The scan begins above the last id claimed: else each claim would walk over all the dead index
 *     entries of those before. (A service would have to begin at 0 again now and then, for those
 *     that commit late; this one need not.)
 *   - synchronous_commit = off: a DELETE that a crash takes back is a repetition.
 */
#include "run.h"

#include <stdio.h>

#define N_WORKERS 2

struct worker {
        PGconn *db;
        struct id_list ids; /* claimed and delivered, not yet deleted */
};

static void worker_open(struct worker *worker, const char *dsn)
{
        worker->db = db_connect(dsn);
        db_prepare(worker->db, "delete",
            "DELETE FROM baseline.long_transaction WHERE id = ANY ($1::bigint[])");
        db_prepare(worker->db, "commit", "COMMIT AND CHAIN"); /* and BEGIN */
        db_prepare(worker->db, "claim",
            "SELECT id, event_id, topic, key, type, payload, headers, created_at"
            " FROM baseline.long_transaction WHERE id > $1::bigint"
            " ORDER BY id LIMIT $2::integer FOR UPDATE SKIP LOCKED");
        db_run(worker->db, "BEGIN");
}

static void ask(struct worker *worker, const struct run *run, int64_t above)
{
        char text[24];
        const char *ids[] = {id_list_text(&worker->ids)};
        const char *bounds[] = {text, run->batch_text};

        snprintf(text, sizeof text, "%lld", (long long)above);
        db_send(worker->db, "delete", 1, ids);
        db_send(worker->db, "commit", 0, NULL);
        db_send(worker->db, "claim", 2, bounds);
        db_sync(worker->db);
        id_list_clear(&worker->ids);
}

static PGresult *receive(struct worker *worker)
{
        PGresult *rows;

        db_skip(worker->db, 2);
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
                ask(&workers[i], &run, claimed);
        }
        for (int i = 0; i < N_WORKERS; i++)
                PQclear(receive(&workers[i]));
        run_end(&run);
        return 0;
}
