#include "operator/filter_check.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For the transaction: so it also holds behind a pooler, and ends by itself. The payloads are only
 * measured, which costs a fraction of reading them as jsonb. */
static const char limit_sql[] =
    "SELECT pg_catalog.set_config('statement_timeout', ms::text, true), ms"
    " FROM (SELECT $2::bigint + coalesce(sum(octet_length(payload::text)), 0)::bigint / $3::bigint"
    "  AS ms FROM courier.outbox WHERE id = ANY ($1::bigint[])) AS bound";

/* OFFSET 0 keeps the planner from asking about other events. */
static const char ask_sql[] =
    "SELECT id FROM (SELECT id, courier.true_filters(payload, $2::jsonpath[], id) AS held"
    "  FROM courier.outbox WHERE id = ANY ($1::bigint[]) OFFSET 0) AS asked"
    " WHERE cardinality(held) = cardinality($2::jsonpath[]) ORDER BY id";

static bool set_limit(
    struct blocking_conn *conn, const char *ids, int64_t *out_limit_ms, struct error *error)
{
        char least[24], bytes[24];
        const struct parameter parameters[] = {{.value = ids}, {.value = least}, {.value = bytes}};
        struct rows *rows;

        snprintf(least, sizeof least, "%d", FILTERS_LIMIT_MS);
        snprintf(bytes, sizeof bytes, "%d", FILTER_QUEUE_BYTES_PER_MS);
        rows = blocking_conn_query(conn, limit_sql, parameters, 3, error);
        if (rows == NULL)
                return false;
        *out_limit_ms = strtoll(rows_text(rows, 0, 1), NULL, 10);
        rows_free(rows);
        return true;
}

/* A statement that is cancelled before its time is up ends the command. */
static bool is_time_out(struct blocking_conn *conn, int64_t asked_us, int64_t limit_ms)
{
        return strcmp(blocking_conn_sqlstate(conn), "57014") == 0 &&
               clock_monotonic_us() - asked_us >= limit_ms * 1000;
}

bool filters_ask(struct blocking_conn *conn, const char *ids, const char *filters,
    struct rows **out_rows, struct error *error)
{
        const struct parameter parameters[] = {{.value = ids}, {.value = filters}};
        int64_t limit_ms, asked_us;
        struct error failure;

        *out_rows = NULL;
        if (!blocking_conn_run(conn, "BEGIN READ ONLY", error) ||
            !set_limit(conn, ids, &limit_ms, error))
                return false;
        asked_us = clock_monotonic_us();
        *out_rows = blocking_conn_query(conn, ask_sql, parameters, 2, &failure);
        if (*out_rows == NULL && !is_time_out(conn, asked_us, limit_ms)) {
                *error = failure;
                return false;
        }
        if (blocking_conn_run(conn, "ROLLBACK", error))
                return true;
        rows_free(*out_rows);
        *out_rows = NULL;
        return false;
}
