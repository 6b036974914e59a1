#include "chaos/jobs.h"

#include "base/alloc.h"
#include "chaos/events.h"
#include "support/postgres.h"

#include <stdlib.h>

/* What a call that fails, or whose transaction is undone, has written is not there. */
static const char begin_sql[] =
    "CREATE SCHEMA jobs;"
    "CREATE TABLE jobs.effect (call bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    " event_id uuid NOT NULL, payload text NOT NULL,"
    " at timestamptz NOT NULL DEFAULT clock_timestamp());"
    "CREATE FUNCTION jobs.run(event courier.event) RETURNS text LANGUAGE plpgsql AS $$"
    "BEGIN"
    "  INSERT INTO jobs.effect (event_id, payload) VALUES (event.id, event.payload);"
    "  IF random() < 0.01 THEN"
    "    RAISE EXCEPTION 'not this time';"
    "  ELSIF %s THEN"
    "    RAISE EXCEPTION 'never' USING ERRCODE = 'PC001';"
    "  END IF;"
    "  RETURN 'done';"
    "END$$;"
    "GRANT courier_consumer TO courier_relay;"
    "GRANT USAGE ON SCHEMA jobs TO courier_relay;"
    "GRANT INSERT ON jobs.effect TO courier_relay";

void jobs_begin(const char *dsn, bool with_refusals)
{
        PGconn *admin = database_connect(dsn);
        char *refuses =
            with_refusals ? chaos_refused_by_job_sql("event.payload") : xstrdup("false");
        char *sql = xasprintf(begin_sql, refuses);

        database_make_inbox(admin);
        database_exec(admin, sql);
        PQfinish(admin);
        free(refuses);
        free(sql);
}

/* Each time anew: transactions do not commit in the order of their calls. */
void jobs_read(struct arrivals *arrivals, const char *dsn)
{
        PGconn *admin = database_connect(dsn);
        PGresult *result = PQexec(admin,
            "SELECT payload, (extract(epoch FROM at) * 1000000)::bigint FROM jobs.effect"
            " ORDER BY call");

        if (PQresultStatus(result) != PGRES_TUPLES_OK)
                test_abort("cannot read what jobs have done: %s", PQerrorMessage(admin));
        arrivals_renew(arrivals, 0);
        for (int row = 0; row < PQntuples(result); row++)
                arrivals_note(arrivals, PQgetvalue(result, row, 0),
                    strtoll(PQgetvalue(result, row, 1), NULL, 10));
        PQclear(result);
        PQfinish(admin);
}
