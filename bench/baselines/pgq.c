/*
 * A consumer of PgQ: next_batch(); the batch's events; deliver; finish_batch().
 *
 * What was done for it:
 *   - PgQ opens one batch of a queue at a time. So that the server works while the sink does, each
 *     topic has a queue of its own and a connection of its own, served in turn by this one thread.
 *   - finish_batch() and next_batch() go to the server in one piece, and are one transaction.
 *   - The events are read by the very statement that pgq.batch_event_sql() makes, as PgQ's own
 *     cursors do inside: get_batch_events() would copy each row through PL/pgSQL.
 *   - Ticks were made while the queue was filled (pgq.sql), so a batch has the size asked for, and
 *     no pgqd runs beside; neither are its ticks counted, nor its rotation of tables.
 *   - synchronous_commit = off: a finish_batch() that a crash takes back is a repetition.
 */
#include "run.h"

#include <stdio.h>
#include <string.h>

#define N_QUEUES 2

static const char *const topics[N_QUEUES] = {"orders.created", "orders.paid"};

enum state { AT_NEXT_BATCH, AT_EVENTS, AT_END };

struct consumer {
        PGconn *db;
        char queue[64];
        char batch_id[24]; /* "": none is open */
        enum state state;  /* what the server is about */
};

static void consumer_open(struct consumer *consumer, const struct run *run, const char *topic)
{
        snprintf(consumer->queue, sizeof consumer->queue, "%s %s", topic, run->batch_text);
        consumer->db = db_connect(run->dsn);
        db_prepare(consumer->db, "finish", "SELECT pgq.finish_batch($1::bigint)");
        db_prepare(consumer->db, "next",
            "SELECT batch::text, pgq.batch_event_sql(batch)"
            " FROM (SELECT pgq.next_batch($1::text, 'bench') AS batch OFFSET 0) AS next"
            " WHERE batch IS NOT NULL");
}

static void ask_for_batch(struct consumer *consumer)
{
        const char *batch_id[] = {consumer->batch_id};
        const char *queue[] = {consumer->queue};

        if (consumer->batch_id[0] != '\0')
                db_send(consumer->db, "finish", 1, batch_id);
        db_send(consumer->db, "next", 1, queue);
        db_sync(consumer->db);
        consumer->state = AT_NEXT_BATCH;
}

static void ask_for_events(struct consumer *consumer)
{
        char sql[8192];
        PGresult *row;
        int n;

        if (consumer->batch_id[0] != '\0')
                db_skip(consumer->db, 1);
        row = db_result(consumer->db);
        db_synced(consumer->db);
        consumer->state = AT_END;
        if (PQntuples(row) == 1) {
                snprintf(
                    consumer->batch_id, sizeof consumer->batch_id, "%s", PQgetvalue(row, 0, 0));
                n = snprintf(sql, sizeof sql,
                    "SELECT ev_id, ev_extra1, ev_extra2, ev_extra3, ev_type, ev_data, ev_extra4,"
                    " ev_time FROM (%s) AS events",
                    PQgetvalue(row, 0, 1));
                if (n >= (int)sizeof sql ||
                    PQsendQueryParams(consumer->db, sql, 0, NULL, NULL, NULL, NULL, 1) != 1)
                        die("the batch's events", PQerrorMessage(consumer->db));
                db_sync(consumer->db);
                consumer->state = AT_EVENTS;
        }
        PQclear(row);
}

static void deliver_events(struct consumer *consumer, struct run *run)
{
        PGresult *rows = db_result(consumer->db);

        db_synced(consumer->db);
        run_deliver(run, rows, NULL);
        PQclear(rows);
}

int main(int n_args, char **args)
{
        struct run run;
        struct consumer consumers[N_QUEUES] = {0};

        run_init(&run, n_args, args);
        for (int i = 0; i < N_QUEUES; i++)
                consumer_open(&consumers[i], &run, topics[i]);
        run_start(&run);
        for (int i = 0; i < N_QUEUES; i++) {
                ask_for_batch(&consumers[i]);
                ask_for_events(&consumers[i]);
        }
        for (int i = 0, n_at_end = 0; n_at_end < N_QUEUES; i = (i + 1) % N_QUEUES) {
                struct consumer *consumer = &consumers[i];
                struct consumer *other = &consumers[(i + 1) % N_QUEUES];

                n_at_end = consumer->state == AT_END ? n_at_end + 1 : 0;
                if (other->state == AT_NEXT_BATCH)
                        ask_for_events(other);
                if (consumer->state == AT_EVENTS) {
                        deliver_events(consumer, &run);
                        ask_for_batch(consumer);
                }
        }
        run_end(&run);
        return 0;
}
