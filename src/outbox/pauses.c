/*
 * Sinks that stand still. All are read again whenever anything about them may
 * have changed: they are few.
 *
 * The trigger on courier.pause rings for our own changes too, even for one
 * that changes nothing. That costs this relay and its fellows a look, and a
 * look never writes, so no two relays can keep ringing each other.
 */
#include "base/alloc.h"
#include "outbox/session.h"

#include <stdlib.h>
#include <string.h>

enum { READ_PAUSES, WRITE_PAUSE, REMOVE_PAUSE };

const struct pg_statement pause_statements[] = {
    [READ_PAUSES] = {.name = "read_pauses",
        .sql = "SELECT sink, by, reason FROM courier.pause ORDER BY sink, by"},
    [WRITE_PAUSE] = {.name = "write_pause",
        .n_params = 2,
        .sql = "INSERT INTO courier.pause AS mine (sink, by, reason) VALUES ($1, 'relay', $2)"
               " ON CONFLICT (sink, by) DO UPDATE SET reason = excluded.reason"
               " WHERE mine.reason IS DISTINCT FROM excluded.reason"},
    [REMOVE_PAUSE] = {.name = "remove_pause",
        .n_params = 1,
        .sql = "DELETE FROM courier.pause WHERE sink = $1 AND by = 'relay'"},
};
const unsigned n_pause_statements = sizeof pause_statements / sizeof *pause_statements;

void session_read_pauses(struct outbox *outbox, pg_result_fn *on_result)
{
        pg_conn_execute(
            outbox->conn, &pause_statements[READ_PAUSES], NULL, false, on_result, outbox);
}

void session_tell_pauses(struct outbox *outbox, PGresult *result)
{
        int n_rows = PQntuples(result);
        struct pause *pauses = xcalloc((size_t)n_rows + 1, sizeof *pauses);

        for (int row = 0; row < n_rows; row++) {
                pauses[row].sink = PQgetvalue(result, row, 0);
                pauses[row].by = strcmp(PQgetvalue(result, row, 1), "relay") == 0
                                     ? PAUSED_BY_RELAY
                                     : PAUSED_BY_OPERATOR;
                if (!PQgetisnull(result, row, 2))
                        pauses[row].reason = PQgetvalue(result, row, 2);
        }
        if (outbox->events.on_pauses != NULL)
                outbox->events.on_pauses(outbox->owner,
                    &(struct pause_list){.n_pauses = (size_t)n_rows, .pauses = pauses});
        free(pauses);
        PQclear(result);
}

static void on_pauses_read(void *owner, PGresult *result)
{
        session_tell_pauses(owner, result);
}

/* Only a session that is up has its statements; before that, its own first look is still to come or
 * on its way. */
static void execute(struct outbox *outbox, int statement, const char *const *values)
{
        if (pg_conn_is_ready(outbox->conn))
                pg_conn_execute(
                    outbox->conn, &pause_statements[statement], values, false, NULL, NULL);
}

void outbox_read_pauses(struct outbox *outbox)
{
        if (pg_conn_is_ready(outbox->conn))
                session_read_pauses(outbox, on_pauses_read);
}

void outbox_write_pause(struct outbox *outbox, const char *sink, const char *reason)
{
        execute(outbox, WRITE_PAUSE, (const char *const[]){sink, reason});
}

void outbox_remove_pause(struct outbox *outbox, const char *sink)
{
        execute(outbox, REMOVE_PAUSE, (const char *const[]){sink});
}
