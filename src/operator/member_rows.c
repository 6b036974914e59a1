#include "operator/member_rows.h"

#include <stdlib.h>

/* Its session holds the locks of its shards beside its own. A whole sink has lane 0, as if that
 * were its only shard. */
static const char list_sql[] =
    "WITH locks AS MATERIALIZED (SELECT lock_id, pid, client_addr FROM courier.relay_lock"
    "   WHERE is_relay),"
    " owned AS (SELECT locks.pid, c.sink,"
    "    array_agg(greatest(-1 - c.lane, 0) ORDER BY c.lane DESC) AS numbers"
    "   FROM locks JOIN courier.cursor AS c USING (lock_id)"
    "   WHERE c.lane <= 0 AND c.sink <> 'courier.marks' GROUP BY locks.pid, c.sink)"
    " SELECT m.name, CASE WHEN locks.pid IS NULL THEN 'gone' ||"
    "     CASE WHEN m.is_drained THEN ', drained' ELSE '' END"
    "   WHEN m.is_leaving THEN 'leaving'"
    "   WHEN NOT m.is_drained THEN 'active'"
    "   WHEN served.n_owned > 0 THEN 'draining' ELSE 'drained' END,"
    "  m.host, m.version, courier.utc(m.joined_at, 0), m.weight, served.words,"
    "  (SELECT row_to_json(line) FROM (SELECT m.name, m.host, m.version, m.weight,"
    "    courier.utc(m.joined_at) AS joined_at, locks.pid IS NOT NULL AS is_live,"
    "    m.is_leaving, m.is_drained, locks.pid, host(locks.client_addr) AS client,"
    "    served.sinks) AS line)"
    " FROM courier.member AS m"
    " LEFT JOIN locks ON locks.lock_id = (m.lock_id::bigint & 4294967295)"
    " CROSS JOIN LATERAL (SELECT coalesce(sum(cardinality(numbers)), 0) AS n_owned,"
    "    coalesce(string_agg(sink || ' ' || cardinality(numbers) || '/' || coalesce(noted.shards, "
    "1),"
    "      ', ' ORDER BY sink) FILTER (WHERE numbers IS NOT NULL), '') AS words,"
    "    coalesce(json_object_agg(sink, json_build_object("
    "      'shards', coalesce(noted.shards, 1), 'owns', coalesce(numbers, '{}')) ORDER BY sink)"
    "      FILTER (WHERE sink IS NOT NULL), '{}') AS sinks"
    "   FROM jsonb_object_keys(m.shards) AS known (sink)"
    "   FULL JOIN (SELECT sink, numbers FROM owned WHERE owned.pid = locks.pid) AS mine USING "
    "(sink)"
    "   LEFT JOIN courier.sink AS noted ON noted.name = sink) AS served"
    " WHERE $1::boolean OR m.is_drained OR locks.pid IS NOT NULL ORDER BY m.name";

/* A relay that joins keeps what was said of its name before. */
static const char drain_sql[] =
    "WITH was AS (SELECT name, is_drained, EXISTS (SELECT FROM courier.live_member AS live"
    "   WHERE live.name = member.name) AS is_live"
    "  FROM courier.member WHERE name = $1::text FOR UPDATE),"
    " changed AS (UPDATE courier.member SET is_drained = $2::boolean FROM was"
    "   WHERE member.name = was.name AND was.is_drained <> $2::boolean RETURNING member.name)"
    " SELECT was.is_drained, was.is_live, (SELECT count(*) FROM courier.live_member AS live"
    "   WHERE live.name <> was.name AND NOT live.is_drained AND NOT live.is_leaving),"
    "  (SELECT pg_notify('courier_control', '') FROM changed) FROM was";

struct rows *members_read(struct blocking_conn *conn, bool all, struct error *error)
{
        const struct parameter parameter = {.value = all ? "true" : "false"};

        return blocking_conn_query(conn, list_sql, &parameter, 1, error);
}

struct rows *member_names(struct blocking_conn *conn, struct error *error)
{
        return blocking_conn_query(
            conn, "SELECT name FROM courier.member ORDER BY name", NULL, 0, error);
}

bool member_set_drained(struct blocking_conn *conn, const char *name, bool is_drained,
    struct drained *out, struct error *error)
{
        const struct parameter parameters[] = {
            {.value = name}, {.value = is_drained ? "true" : "false"}};
        struct rows *rows = blocking_conn_query(conn, drain_sql, parameters, 2, error);

        if (rows == NULL)
                return false;
        *out = (struct drained){.existed = rows_count(rows) > 0};
        if (out->existed) {
                out->was_drained = rows_bool(rows, 0, 0);
                out->is_live = rows_bool(rows, 0, 1);
                out->n_others = atoi(rows_text(rows, 0, 2));
        }
        rows_free(rows);
        return true;
}
