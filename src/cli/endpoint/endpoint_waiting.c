/* What waits in the outbox for one receiver, up to a bound. */
#include "base/alloc.h"
#include "cli/endpoint/cmd_endpoint.h"
#include "operator/endpoint_rows.h"
#include "outbox/endpoint.h"
#include "outbox/routing.h"
#include "pgcourier/event.h"

#include <inttypes.h>
#include <stdlib.h>

#define MAX_ROWS 10000

bool endpoint_wait_count(struct blocking_conn *conn, const char *name,
    struct endpoint_waiting *out_waiting, struct error *error)
{
        struct rows *rows = endpoint_unread(conn, name, MAX_ROWS, error);
        struct endpoint *endpoint;

        *out_waiting = (struct endpoint_waiting){0};
        if (rows == NULL)
                return endpoint_refused(conn, name, error);
        if (rows_count(rows) == 0) {
                rows_free(rows);
                return endpoint_missing(conn, name, error);
        }
        endpoint = endpoint_read((int32_t)strtol(rows_text(rows, 0, UNREAD_ENDPOINT_ID), NULL, 10),
            0, rows_text(rows, 0, UNREAD_ENDPOINT));
        for (int i = 1; i < rows_count(rows); i++) {
                const struct event event = {.topic = rows_text(rows, i, UNREAD_TOPIC),
                    .type = rows_text(rows, i, UNREAD_TYPE)};
                out_waiting->n += routing_matches(&endpoint->routing, &event);
        }
        out_waiting->is_exact = rows_bool(rows, 0, UNREAD_IS_EXACT);
        out_waiting->is_cut = rows_count(rows) > MAX_ROWS;
        endpoint_unref(endpoint);
        rows_free(rows);
        return true;
}

/* Of the rest, behind so many, nothing is known; of these a filter may take fewer. */
char *endpoint_wait_text(const struct endpoint_waiting *waiting)
{
        const char *about = waiting->is_cut ? "more than " : waiting->is_exact ? "" : "up to ";

        if (waiting->is_cut && (!waiting->is_exact || waiting->n == 0))
                return xasprintf("about %" PRId64 " of the next %d", waiting->n, MAX_ROWS);
        return xasprintf("%s%" PRId64, waiting->n > 0 ? about : "", waiting->n);
}
