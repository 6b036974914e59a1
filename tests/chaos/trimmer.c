#include "chaos/trimmer.h"

#include "base/alloc.h"
#include "support/postgres.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

/* As the migrations leave it the outbox begins with a million ids in one partition, and relays make
 * more of that kind. What the judges read of it is written down elsewhere: partitions go, and a lock
 * on the outbox would keep them from going. */
static const char begin_sql[] =
    "DROP TABLE courier.outbox_p1, courier.outbox_p1000001;"
    "DELETE FROM courier.outbox_partition;"
    "DO $do$BEGIN EXECUTE regexp_replace(pg_get_functiondef('courier.maintain'::regproc),"
    "  '_width bigint DEFAULT [0-9]+', '_width bigint DEFAULT 1000', 'g'); END$do$;"
    "SELECT courier.maintain();"
    "CREATE TABLE public.written (txid xid8, topic text, payload text, scheduled_for text,"
    " id bigint, source integer, source_key text, key text);"
    "CREATE INDEX ON public.written (source_key) WHERE source_key IS NOT NULL;"
    "CREATE FUNCTION public.write_down() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$"
    "BEGIN"
    "  INSERT INTO public.written"
    "    VALUES (NEW.txid, NEW.topic, NEW.payload, NEW.headers->>'scheduled_for', NEW.id, "
    "NEW.source,"
    "     NEW.source_key, NEW.key);"
    "  RETURN NULL;"
    "END$$;"
    "CREATE TRIGGER write_down AFTER INSERT ON courier.outbox FOR EACH ROW"
    " EXECUTE FUNCTION public.write_down()";

/* A sink that is yet to come could not complain that it missed the beginning. */
static const char are_all_there_sql[] =
    "SELECT count(DISTINCT sink) = %u AND NOT EXISTS (SELECT FROM courier.receiver AS e"
    "  WHERE NOT EXISTS (SELECT FROM courier.cursor AS c WHERE c.sink = e.sink AND c.lane = e.id))"
    " FROM courier.cursor WHERE lane <= 0 AND NOT is_owner_lane AND sink <> 'courier.marks'";

static const char maintain_sql[] = "SELECT count(*) FILTER (WHERE action IN ('dropped', 'emptied'))"
                                   " FROM courier.maintain('0')";

struct trimmer {
        const char *dsn;
        pthread_t thread;
        atomic_bool is_over;
        char *are_all_there_sql; /* owned */
        unsigned n_dropped;
};

/* The server may be away, or end in the middle. */
static void *trim(void *argument)
{
        static const struct timespec pause = {.tv_nsec = 300 * 1000 * 1000};
        struct trimmer *trimmer = argument;
        PGconn *connection = PQconnectdb(trimmer->dsn);
        bool are_all_there = false;

        while (!trimmer->is_over) {
                PGresult *result =
                    PQexec(connection, are_all_there ? maintain_sql : trimmer->are_all_there_sql);
                if (PQntuples(result) == 1 && are_all_there)
                        trimmer->n_dropped += (unsigned)strtoul(PQgetvalue(result, 0, 0), NULL, 10);
                else if (PQntuples(result) == 1)
                        are_all_there = PQgetvalue(result, 0, 0)[0] == 't';
                PQclear(result);
                nanosleep(&pause, NULL);
                if (PQstatus(connection) != CONNECTION_OK)
                        PQreset(connection);
        }
        PQfinish(connection);
        return NULL;
}

struct trimmer *trimmer_start(const char *dsn, unsigned n_lanes)
{
        struct trimmer *trimmer = xcalloc(1, sizeof *trimmer);
        PGconn *admin = database_connect(dsn);

        database_exec(admin, begin_sql);
        PQfinish(admin);
        trimmer->dsn = dsn;
        trimmer->are_all_there_sql = xasprintf(are_all_there_sql, n_lanes);
        if (pthread_create(&trimmer->thread, NULL, trim, trimmer) != 0)
                test_abort("cannot start a thread");
        return trimmer;
}

unsigned trimmer_stop(struct trimmer *trimmer)
{
        unsigned n_dropped;

        trimmer->is_over = true;
        pthread_join(trimmer->thread, NULL);
        n_dropped = trimmer->n_dropped;
        free(trimmer->are_all_there_sql);
        free(trimmer);
        return n_dropped;
}
