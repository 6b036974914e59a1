#include "operator/schedule_list.h"

#include "operator/selection.h"
#include "pg/blocking_conn.h"

/* The role's own settings would show in intervals. */
#define PEOPLE   "SET intervalstyle = 'postgres_verbose'"
#define PROGRAMS "SET intervalstyle = 'iso_8601'"

static const char list_sql[] = "SELECT name,"
                               " CASE WHEN at IS NULL THEN 'every ' || ltrim(every::text, '@ ')"
                               " ELSE 'at ' || regexp_replace(at::text, ':00$', '')"
                               " || coalesce(' ' || array_to_string(days, ','), '') END"
                               " || CASE WHEN time_zone = 'UTC' THEN '' ELSE ' ' || time_zone END,"
                               " courier.utc(next_at, 0), courier.utc(last_at, 0),"
                               " topic, missed, last_error FROM courier.schedule ORDER BY name";

static const char list_json_sql[] =
    "SELECT (SELECT row_to_json(line) FROM (SELECT name, every, at, days, time_zone,"
    " courier.utc(starting) AS starting, courier.utc(next_at) AS next_at,"
    " courier.utc(last_at) AS last_at, topic, missed, last_error) AS line)"
    " FROM courier.schedule ORDER BY name";

struct rows *schedule_list(struct blocking_conn *conn, bool as_json, struct error *error)
{
        if (!blocking_conn_run(conn, as_json ? PROGRAMS : PEOPLE, error))
                return NULL;
        return blocking_conn_query(conn, as_json ? list_json_sql : list_sql, NULL, 0, error);
}

bool schedule_remove(
    struct blocking_conn *conn, const char *name, bool *out_existed, struct error *error)
{
        const struct parameter parameter = {.value = name};
        struct rows *rows =
            blocking_conn_query(conn, "SELECT courier.unschedule($1::text)", &parameter, 1, error);

        if (rows == NULL)
                return false;
        *out_existed = rows_bool(rows, 0, 0);
        rows_free(rows);
        return true;
}
