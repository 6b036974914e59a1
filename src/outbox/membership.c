/*
 * The relay as a member of those that share the sinks of a database: as long as its session holds
 * the lock of its row (courier.member).
 */
#include "base/alloc.h"
#include "outbox/session.h"
#include "pgcourier/version.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { JOIN };

const struct pg_statement membership_statements[] = {
    [JOIN] = {.name = "join_relays",
        .n_params = 5,
        .sql = "SELECT courier.join_relays($1, $2, $3, $4::integer, $5::jsonb)"},
};
const unsigned n_membership_statements =
    sizeof membership_statements / sizeof *membership_statements;

static void on_joined(void *owner, PGresult *result)
{
        struct outbox *outbox = owner;

        snprintf(outbox->member, sizeof outbox->member, "%s", PQgetvalue(result, 0, 0));
        PQclear(result);
}

void session_join(struct outbox *outbox)
{
        const struct membership *ours = &outbox->membership;
        char weight[16];
        const char *const values[] = {ours->name, ours->host, PGCOURIER_VERSION, weight, ours->shards};

        if (ours->name == NULL)
                return;
        snprintf(weight, sizeof weight, "%" PRIu32, ours->weight);
        pg_conn_execute(
            outbox->conn, &membership_statements[JOIN], values, false, on_joined, outbox);
}

/* The texts are its own. */
static void forget(struct membership *membership)
{
        free((void *)(uintptr_t)membership->name);
        free((void *)(uintptr_t)membership->host);
        free((void *)(uintptr_t)membership->shards);
}

void session_forget_membership(struct outbox *outbox)
{
        forget(&outbox->membership);
}

void outbox_join(struct outbox *outbox, const struct membership *membership)
{
        forget(&outbox->membership);
        outbox->membership = (struct membership){.name = xstrdup(membership->name),
            .host = xstrdup(membership->host),
            .weight = membership->weight,
            .shards = xstrdup(membership->shards)};
        if (pg_conn_is_ready(outbox->conn))
                session_join(outbox);
}
