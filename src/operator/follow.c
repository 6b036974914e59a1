#include "operator/follow.h"

#include "operator/selection.h"

#include <inttypes.h>
#include <stdio.h>

static const char publish_sql[] =
    "SELECT courier.publish($1::text, $2::json, key => $3::text, type => $4::text,"
    " headers => $5::jsonb)";

/* In the same transaction: the only event that it has written. */
static const char find_sql[] = "SELECT id, txid, event_id FROM courier.outbox"
                               " WHERE txid = pg_catalog.pg_current_xact_id()";

extern const char follow_sql[]; /* follow.sql, embedded at build time */

static bool find(struct blocking_conn *conn, struct followed *out_followed, struct error *error)
{
        struct rows *rows = blocking_conn_query(conn, find_sql, NULL, 0, error);

        if (rows == NULL)
                return false;
        snprintf(out_followed->id, sizeof out_followed->id, "%s", rows_text(rows, 0, 0));
        snprintf(out_followed->xid, sizeof out_followed->xid, "%s", rows_text(rows, 0, 1));
        snprintf(
            out_followed->event_id, sizeof out_followed->event_id, "%s", rows_text(rows, 0, 2));
        rows_free(rows);
        return true;
}

static bool read_clock(
    struct blocking_conn *conn, struct followed *out_followed, struct error *error)
{
        struct rows *rows = blocking_conn_query(
            conn, "SELECT to_char(clock_timestamp() " AS_UTC ")", NULL, 0, error);

        if (rows == NULL)
                return false;
        snprintf(out_followed->committed_at, sizeof out_followed->committed_at, "%s",
            rows_text(rows, 0, 0));
        rows_free(rows);
        return true;
}

bool follow_publish(struct blocking_conn *conn, const char *topic, const char *payload,
    const char *key, const char *type, const char *headers, struct followed *out_followed,
    struct error *error)
{
        const struct parameter parameters[] = {{.value = topic}, {.value = payload}, {.value = key},
            {.value = type}, {.value = headers}};
        struct rows *rows;

        if (!blocking_conn_run(conn, "BEGIN", error))
                return false;
        rows = blocking_conn_query(conn, publish_sql, parameters, 5, error);
        if (rows == NULL)
                return false;
        rows_free(rows);
        return find(conn, out_followed, error) && blocking_conn_run(conn, "COMMIT", error) &&
               read_clock(conn, out_followed, error);
}

struct rows *follow_look(struct blocking_conn *conn, const struct followed *followed,
    const char *sink, int32_t lane, struct error *error)
{
        char number[16];
        const struct parameter parameters[] = {{.value = sink}, {.value = number},
            {.value = followed->id}, {.value = followed->xid}, {.value = followed->committed_at}};

        snprintf(number, sizeof number, "%" PRId32, lane);
        return blocking_conn_query(conn, follow_sql, parameters, 5, error);
}
