#include "chaos/taps.h"

#include "support/postgres.h"

#include <stdlib.h>
#include <time.h>

const char *const tap_tables[N_TAP_TABLES] = {"courier.outbox", "shop.outbox", "shop.fact"};

void taps_begin(struct taps *taps, const char *dsn)
{
        PGconn *admin = database_connect(dsn);

        *taps = (struct taps){.dsn = dsn};
        database_exec(admin,
            "CREATE ROLE shop; GRANT courier_attacher TO shop;"
            "CREATE SCHEMA shop AUTHORIZATION shop; GRANT USAGE ON SCHEMA shop TO app;"
            "SET ROLE shop;"
            "CREATE TABLE shop.outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
            " topic text, key text, payload json, deliver_at timestamptz,"
            " processed_at timestamptz, is_dead boolean NOT NULL DEFAULT false);"
            "CREATE TABLE shop.fact (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
            " topic text, key text, payload json, deliver_at timestamptz);"
            "GRANT INSERT ON shop.outbox, shop.fact TO app;"
            "SELECT courier.attach('shop.outbox', topic => 'topic', key => 'key',"
            " payload => 'payload', deliver_at => 'deliver_at', only_if => 'processed_at IS NULL',"
            " done_set => 'processed_at = now()', dead_set => 'is_dead = true');"
            "SELECT courier.capture('shop.fact', columns => '{payload}', topic => '(new.topic)',"
            " key => 'new.key', payload => 'new.payload', ops => '{insert}');"
            "RESET ROLE");
        PQfinish(admin);
}

/* Errors are those of a server that is down: the next look connects again. */
static int64_t ask(PGconn *connection, const char *sql)
{
        PGresult *result = PQexec(connection, sql);
        int64_t answer = PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) > 0
                             ? strtoll(PQgetvalue(result, 0, 0), NULL, 10)
                             : 0;

        PQclear(result);
        return answer;
}

/* In one snapshot. The sinks that take all topics; a mark that is older was looked at before. */
static const char too_early[] =
    "SELECT count(DISTINCT row.id) FROM shop.outbox AS row"
    " JOIN public.written AS event ON event.source_key = row.id::text AND event.source ="
    "  (SELECT id FROM courier.attachment WHERE name = 'outbox')"
    " JOIN courier.cursor AS lane ON lane.sink IN ('stream', 'hook', 'fast', 'once', 'jobs',"
    "  'nats', 'rabbitmq', 'kafka')"
    " JOIN courier.sink AS noted ON noted.name = lane.sink AND lane.lane ="
    "  courier.shard_lane(courier.shard_of(event.key, noted.shards, event.id), noted.shards)"
    " WHERE row.processed_at > now() - interval '3 s'"
    "  AND (NOT courier.has_passed(lane.from_snapshot, lane.until_snapshot, lane.last_id, event.id,"
    "        event.txid) AND NOT courier.had_passed(lane.sink, event.key, event.id, event.txid)"
    "   OR EXISTS (SELECT FROM courier.parked WHERE parked.sink = lane.sink AND parked.lane ="
    "    lane.lane AND parked.outbox_id = event.id))";

static void *look(void *context)
{
        static const struct timespec pause = {.tv_nsec = 300 * 1000 * 1000};
        struct taps *taps = context;
        PGconn *connection = database_connect(taps->dsn);

        while (!atomic_load(&taps->is_stopping)) {
                if (PQstatus(connection) != CONNECTION_OK)
                        PQreset(connection);
                taps->n_too_early += (uint64_t)ask(connection, too_early);
                taps->n_looks++;
                PQclear(PQexec(connection, "BEGIN"));
                taps->n_locked += (uint64_t)ask(connection,
                    "SELECT count(*) FROM (SELECT FROM shop.outbox WHERE processed_at IS NULL"
                    " ORDER BY id DESC LIMIT 20 FOR UPDATE) AS locked");
                nanosleep(&pause, NULL);
                PQclear(PQexec(connection, "COMMIT"));
                nanosleep(&pause, NULL);
        }
        PQfinish(connection);
        return NULL;
}

void taps_start(struct taps *taps)
{
        if (pthread_create(&taps->thread, NULL, look, taps) != 0)
                test_abort("cannot start a thread for the application's outbox");
}

void taps_stop(struct taps *taps)
{
        atomic_store(&taps->is_stopping, true);
        pthread_join(taps->thread, NULL);
}

#define UNMARKED "SELECT count(*) FROM shop.outbox WHERE processed_at IS NULL AND NOT is_dead"

bool taps_are_marked(const struct taps *taps)
{
        PGconn *admin = database_connect(taps->dsn);
        bool are = database_integer(admin, UNMARKED) == 0;

        PQfinish(admin);
        return are;
}

void taps_judge(struct taps *taps)
{
        PGconn *admin = database_connect(taps->dsn);

        taps->n_unmarked = database_integer(admin, UNMARKED);
        taps->n_marked = database_integer(
            admin, "SELECT count(*) FROM shop.outbox WHERE processed_at IS NOT NULL");
        taps->n_marked_dead =
            database_integer(admin, "SELECT count(*) FROM shop.outbox WHERE is_dead");
        taps->n_dead_marks = database_integer(
            admin, "SELECT count(*) FROM courier.dead_letter WHERE sink = 'courier.marks'");
        PQfinish(admin);
}
