#include "operator/pause_rows.h"

#include "operator/selection.h"

#include <string.h>

#define MAX_REASON_BYTES 500

#define COLUMNS " sink, by, to_char(paused_at " AS_UTC_SECONDS "), reason"

static const char list_sql[] =
    "SELECT" COLUMNS " FROM courier.pause WHERE $1::text IS NULL OR sink = $1 ORDER BY sink, by";

static const char list_json_sql[] =
    "SELECT (SELECT row_to_json(line) FROM (SELECT sink, by, reason,"
    " to_char(paused_at " AS_UTC ") AS paused_at) AS line)"
    " FROM courier.pause WHERE $1::text IS NULL OR sink = $1 ORDER BY sink, by";

/* xmax is 0 in a row that was inserted, not updated. */
const char pause_add_sql[] =
    "INSERT INTO courier.pause AS old (sink, by, reason) VALUES ($1::text, 'operator', $2::text)"
    " ON CONFLICT (sink, by) DO UPDATE SET reason = coalesce(excluded.reason, old.reason)"
    " RETURNING xmax <> 0";

const char pause_remove_sql[] =
    "WITH removed AS (DELETE FROM courier.pause WHERE sink = $1::text RETURNING *)"
    " SELECT" COLUMNS " FROM removed ORDER BY by";

static const char known_sql[] = "SELECT EXISTS (SELECT FROM courier.cursor WHERE sink = $1::text)"
                                " OR EXISTS (SELECT FROM courier.pause WHERE sink = $1::text)";

struct rows *pauses_read(
    struct blocking_conn *conn, const char *sink, bool as_json, struct error *error)
{
        const struct parameter parameter = {.value = sink};

        return blocking_conn_query(conn, as_json ? list_json_sql : list_sql, &parameter, 1, error);
}

bool pauses_add(struct blocking_conn *conn, const char *sink, const char *reason,
    bool *out_was_paused, struct error *error)
{
        const struct parameter parameters[] = {{.value = sink}, {.value = reason}};
        struct rows *rows = blocking_conn_query(conn, pause_add_sql, parameters, 2, error);

        if (rows == NULL)
                return false;
        *out_was_paused = rows_bool(rows, 0, 0);
        rows_free(rows);
        return true;
}

struct rows *pauses_remove(struct blocking_conn *conn, const char *sink, struct error *error)
{
        const struct parameter parameter = {.value = sink};

        return blocking_conn_query(conn, pause_remove_sql, &parameter, 1, error);
}

bool pauses_knows_sink(
    struct blocking_conn *conn, const char *sink, bool *out_known, struct error *error)
{
        const struct parameter parameter = {.value = sink};
        struct rows *rows = blocking_conn_query(conn, known_sql, &parameter, 1, error);

        if (rows == NULL)
                return false;
        *out_known = rows_bool(rows, 0, 0);
        rows_free(rows);
        return true;
}

/* It ends up in a line of the relay's log and in tables. */
bool pause_check_reason(const char *reason, const char *name, struct error *error)
{
        if (reason == NULL)
                return true;
        if (strlen(reason) > MAX_REASON_BYTES)
                return error_set(
                    error, ERROR_USAGE, "%s is longer than %d bytes", name, MAX_REASON_BYTES);
        for (const char *at = reason; *at != '\0'; at++)
                if ((unsigned char)*at < ' ' || *at == 0x7f)
                        return error_set(error, ERROR_USAGE,
                            "%s has a control character at byte %d; it must be one line", name,
                            (int)(at - reason) + 1);
        return true;
}
