#include "operator/history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

extern const char rewind_sql[]; /* rewind.sql, embedded at build time */

static const char count_sql[] =
    "SELECT coalesce(sum(greatest(0, greatest(from_floor,"
    "   CASE WHEN until_snapshot IS NOT NULL THEN last_id END) - ($3::bigint - 1))), 0)"
    " FROM courier.cursor WHERE sink = $1 AND ($2::integer IS NULL OR lane = $2)";

static struct rows *query(struct blocking_conn *conn, const char *sql, const char *sink, int lane,
    int64_t id, struct error *error)
{
        char lane_text[16], id_text[24];
        const struct parameter parameters[] = {{.value = sink},
            {.value = lane == HISTORY_ALL_LANES ? NULL : lane_text}, {.value = id_text}};

        snprintf(lane_text, sizeof lane_text, "%d", lane);
        snprintf(id_text, sizeof id_text, "%" PRId64, id);
        return blocking_conn_query(conn, sql, parameters, 3, error);
}

bool history_count_rewind(struct blocking_conn *conn, const char *sink, int lane, int64_t id,
    int64_t *out_n_events, struct error *error)
{
        struct rows *rows = query(conn, count_sql, sink, lane, id, error);

        if (rows == NULL)
                return false;
        *out_n_events = strtoll(rows_text(rows, 0, 0), NULL, 10);
        rows_free(rows);
        return true;
}

bool history_rewind(struct blocking_conn *conn, const char *sink, int lane, int64_t id,
    int64_t *out_n_lanes, struct error *error)
{
        struct rows *rows = query(conn, rewind_sql, sink, lane, id, error);

        if (rows == NULL)
                return false;
        *out_n_lanes = rows_count(rows);
        rows_free(rows);
        return blocking_conn_run(conn, "COMMIT", error);
}
