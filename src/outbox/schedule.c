/* The relay's part in recurring events: to ask. All else is in courier.tick(), so that it is one
 * transaction, by the database's clock, however many relays ask. */
#include "outbox/session.h"

#include <stdlib.h>

const struct pg_statement tick_statement = {.name = "tick", .sql = "SELECT courier.tick()"};

static void on_ticked(void *owner, PGresult *result)
{
        struct outbox *outbox = owner;
        int64_t next_ms =
            PQgetisnull(result, 0, 0) ? -1 : strtoll(PQgetvalue(result, 0, 0), NULL, 10);

        PQclear(result);
        outbox->events.on_tick(outbox->owner, next_ms);
}

void outbox_tick(struct outbox *outbox)
{
        pg_conn_execute(outbox->conn, &tick_statement, NULL, false, on_ticked, outbox);
}
