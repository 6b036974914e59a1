/*
 * A cursor of transaction ids with an offset for each partition, the recipe that is widely copied:
 *
 *   WHERE (txid, id) > the offset AND txid < pg_snapshot_xmin(pg_current_snapshot())
 *   ORDER BY txid, id
 *
 * What was done for it:
 *   - A partition is a topic, and each has a reader with a connection of its own, all served in turn
 *     by this one thread.
 *   - A reader remembers where it is: it asks for its next page, together with the UPDATE of its
 *     offset behind the page before, when a page has arrived; the server reads while the sink is
 *     busy. Both are one transaction.
 *   - An index on (topic, txid, id), which answers without a sort.
 *   - synchronous_commit = off: an offset that a crash takes back is a repetition.
 *
 * (It stops while any transaction of the cluster is open, and may put an effect before its cause;
 * neither shows in a drain.)
 */
#include "run.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define N_PARTITIONS 2

static const char *const topics[N_PARTITIONS] = {"orders.created", "orders.paid"};

struct position {
        char txid[24];
        char id[24];
};

struct reader {
        PGconn *db;
        const char *topic;
        struct position asked;     /* the page under way begins behind it */
        struct position delivered; /* behind the last page that the sink has acknowledged */
};

static void read_offset(struct reader *reader)
{
        const char *values[] = {reader->topic};
        PGresult *row;

        db_prepare(reader->db, "offset",
            "INSERT INTO baseline.xid_cursor_offset (partition) VALUES ($1)"
            " ON CONFLICT (partition) DO UPDATE SET id = xid_cursor_offset.id"
            " RETURNING txid::text, id::text");
        db_send(reader->db, "offset", 1, values);
        db_sync(reader->db);
        row = db_result(reader->db);
        snprintf(reader->asked.txid, sizeof reader->asked.txid, "%s", PQgetvalue(row, 0, 0));
        snprintf(reader->asked.id, sizeof reader->asked.id, "%s", PQgetvalue(row, 0, 1));
        reader->delivered = reader->asked;
        PQclear(row);
        db_synced(reader->db);
}

static void reader_open(struct reader *reader, const char *dsn, const char *topic)
{
        reader->db = db_connect(dsn);
        reader->topic = topic;
        read_offset(reader);
        db_prepare(reader->db, "advance",
            "UPDATE baseline.xid_cursor_offset SET txid = $2::xid8, id = $3::bigint"
            " WHERE partition = $1");
        db_prepare(reader->db, "page",
            "SELECT id, event_id, topic, key, type, payload, headers, created_at, txid"
            " FROM baseline.xid_cursor"
            " WHERE topic = $1 AND (txid, id) > ($2::xid8, $3::bigint)"
            " AND txid < pg_snapshot_xmin(pg_current_snapshot())"
            " ORDER BY txid, id LIMIT $4::integer");
}

static void ask(struct reader *reader, const struct run *run)
{
        const char *offset[] = {reader->topic, reader->delivered.txid, reader->delivered.id};
        const char *bounds[] = {
            reader->topic, reader->asked.txid, reader->asked.id, run->batch_text};

        db_send(reader->db, "advance", 3, offset);
        db_send(reader->db, "page", 4, bounds);
        db_sync(reader->db);
}

static PGresult *receive(struct reader *reader)
{
        PGresult *rows;

        db_skip(reader->db, 1);
        rows = db_result(reader->db);
        db_synced(reader->db);
        return rows;
}

static struct position position_of_last(const PGresult *rows)
{
        struct position position;
        struct event last;
        uint64_t txid;

        event_read(&last, rows, PQntuples(rows) - 1);
        memcpy(&txid, PQgetvalue(rows, PQntuples(rows) - 1, 8), sizeof txid);
        snprintf(position.txid, sizeof position.txid, "%" PRIu64, be64toh(txid));
        snprintf(position.id, sizeof position.id, "%" PRId64, last.id);
        return position;
}

int main(int n_args, char **args)
{
        struct run run;
        struct reader readers[N_PARTITIONS] = {0};

        run_init(&run, n_args, args);
        for (int i = 0; i < N_PARTITIONS; i++)
                reader_open(&readers[i], run.dsn, topics[i]);
        run_start(&run);
        for (int i = 0; i < N_PARTITIONS; i++)
                ask(&readers[i], &run);
        for (int i = 0, n_without = 0; n_without < N_PARTITIONS; i = (i + 1) % N_PARTITIONS) {
                struct reader *reader = &readers[i];
                PGresult *rows = receive(reader);

                n_without = PQntuples(rows) > 0 ? 0 : n_without + 1;
                if (PQntuples(rows) > 0)
                        reader->asked = position_of_last(rows);
                ask(reader, &run);
                run_deliver(&run, rows, NULL);
                reader->delivered = reader->asked;
                PQclear(rows);
        }
        for (int i = 0; i < N_PARTITIONS; i++)
                PQclear(receive(&readers[i]));
        run_end(&run);
        return 0;
}
