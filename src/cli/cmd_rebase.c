#include "cli/commands.h"
#include "cli/connect.h"
#include "operator/rebase.h"

#include <stdio.h>

static bool run_rebase(const struct arguments *arguments, struct error *error)
{
        struct blocking_conn *conn = command_connect(arguments, error);
        struct rebase_result result;

        if (conn == NULL || !rebase(conn, &result, error))
                return false;
        for (int i = 0; i < result.n_lanes; i++)
                printf("%s: events of all topics not yet passed: %lld\n", result.lanes[i].sink,
                    result.lanes[i].n_waiting);
        if (result.n_lanes == 0)
                puts("there are no cursors; the events speak of this cluster now");
        rebase_result_deinit(&result);
        return true;
}

const struct command rebase_command = {
    .name = "rebase",
    .summary = "go on after the database came to another cluster",
    .usage = "[--dsn DSN | -c FILE]",
    .details =
        "A cursor speaks of transaction ids, and those of a restored dump mean nothing in the\n"
        "cluster that it was restored to; the relay refuses to run there. This command rewrites\n"
        "them so that every sink goes on exactly where it stood when the dump was made. It also\n"
        "mends the sequence of ids, if somebody set it back.\n"
        "\n"
        "Stop all relays first. It needs the owner of schema courier, rewrites the whole outbox\n"
        "in one transaction and keeps publishers waiting meanwhile.\n",
    .run = run_rebase,
    .database = DATABASE,
};
