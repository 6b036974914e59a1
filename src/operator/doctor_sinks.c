/* Our own tables: what waits, what failed, and what nobody looks after. */
#include "operator/doctor_queries.h"

#include <stddef.h>

#define LOCK_OWNER                                                                                 \
        "EXISTS (SELECT FROM pg_catalog.pg_locks AS l WHERE l.locktype = 'advisory'"               \
        " AND l.classid = 1668248946 AND l.objsubid = 2 AND l.granted AND l.objid = "              \
        "c.lock_id::oid"                                                                           \
        " AND coalesce(has_table_privilege((SELECT usesysid FROM pg_stat_activity AS a"            \
        "   WHERE a.pid = l.pid), 'courier.cursor', 'UPDATE'), true)"                              \
        " AND l.database = (SELECT oid FROM pg_catalog.pg_database"                                \
        "   WHERE datname = pg_catalog.current_database()))"

/* Of each sink the lane that is farthest behind. What waits is counted as ids of all topics. */
static const char cursors_sql[] =
    "WITH sink AS (SELECT c.sink, bool_or(" LOCK_OWNER
    ") AS is_owned, max(c.settled_at) AS settled,"
    "  max(coalesce(pg_sequence_last_value('courier.outbox_id_seq'::regclass), 0)"
    "   - greatest(c.from_floor, CASE WHEN c.until_snapshot IS NOT NULL THEN c.last_id END)) AS n"
    "  FROM courier.cursor AS c GROUP BY c.sink), finding (level, text, remedy) AS ("
    " SELECT 'warn', format('sink %s is in no configuration here: the outbox keeps %s ids for it"
    " (last settled %s)', sink, n, date_trunc('second', settled)),"
    "  format('`pgcourier cursor drop %s`', sink) FROM sink"
    "  WHERE sink <> ALL ($1::text[]) AND NOT is_owned"
    " UNION ALL SELECT 'warn', format('no relay is running sink %s: %s', sink, CASE n"
    "   WHEN 0 THEN 'no event waits' WHEN 1 THEN 'at most one event waits'"
    "   ELSE format('up to %s events wait', n) END),"
    "  'Start `pgcourier run`' FROM sink"
    "  WHERE coalesce(sink = ANY ($1::text[]), true) AND NOT is_owned"
    " UNION ALL SELECT 'warn', format('sink %s is up to %s behind, and settled nothing since"
    " %s', sink, CASE n WHEN 1 THEN '1 event' ELSE n || ' events' END,"
    "   date_trunc('second', settled)),"
    "  format('Is its destination slow or down, or its concurrency too low? See `pgcourier status "
    "%s` and `pgcourier parked list --sink %s`', sink, sink)"
    "  FROM sink WHERE is_owned AND n > 0 AND settled < now() - interval '2 min'"
    "   AND NOT EXISTS (SELECT FROM courier.pause WHERE pause.sink = sink.sink)"
    " UNION ALL SELECT 'warn', format('no relay has ever run sink %s here', name),"
    "  'Start `pgcourier run`' FROM unnest($1::text[]) AS name"
    "  WHERE name NOT IN (SELECT sink FROM sink))"
    " SELECT * FROM finding UNION ALL SELECT 'ok', CASE n WHEN 1 THEN '1 sink, with a relay'"
    "   ELSE format('%s sinks, each with a relay', n) END, NULL"
    "  FROM (SELECT count(*) AS n FROM sink) AS all_of_them WHERE NOT EXISTS (SELECT FROM finding)";

static const char dead_sql[] =
    "SELECT 'warn', format('sink %s: %s given up, the last at %s', sink, count(*),"
    "  date_trunc('second', max(died_at))),"
    "  format('See `pgcourier dead list --sink %s`; when the cause is mended, `pgcourier dead "
    "redrive --sink %s`', sink, sink)"
    " FROM courier.dead_letter GROUP BY sink"
    " UNION ALL SELECT 'ok', 'none', NULL WHERE NOT EXISTS (SELECT FROM courier.dead_letter)";

static const char parked_sql[] =
    /* A slow one that was parked meanwhile, and goes on, has no failure. */
    "WITH failed AS (SELECT sink, count(*) FILTER (WHERE has_failed) AS n_retry,"
    "  count(*) FILTER (WHERE state = 'blocked') AS n_blocked,"
    "  min(first_failed_at) FILTER (WHERE has_failed) AS since"
    "  FROM courier.parked, LATERAL (SELECT state = 'retry' AND first_failed_at IS NOT NULL) AS"
    "   judged (has_failed)"
    "  WHERE state <> 'delayed' GROUP BY sink HAVING bool_or(has_failed))"
    " SELECT 'warn', format('sink %s: %s failed and wait%s for another attempt, %s wait%s behind "
    "%s;"
    " the first failed at %s', sink, n_retry, CASE n_retry WHEN 1 THEN 's' END, n_blocked,"
    "   CASE n_blocked WHEN 1 THEN 's' END, CASE n_retry WHEN 1 THEN 'it' ELSE 'them' END,"
    "   date_trunc('second', since)),"
    "  format('See `pgcourier parked list --sink %s`', sink) FROM failed"
    " UNION ALL SELECT 'ok', format('%s wait%s for %s time, none has failed', n,"
    "   CASE n WHEN 1 THEN 's' END, CASE n WHEN 1 THEN 'its' ELSE 'their' END), NULL"
    "  FROM (SELECT count(*) AS n FROM courier.parked) AS all_of_them"
    "  WHERE NOT EXISTS (SELECT FROM failed)";

static const char pauses_sql[] =
    "SELECT 'warn', format('sink %s is paused by the %s since %s%s', sink, by,"
    "  date_trunc('second', paused_at), ': ' || reason),"
    "  CASE WHEN by = 'operator' THEN 'When it may go on: '"
    "   WHEN reason LIKE 'its filter takes too long%' THEN 'Change the filter in the configuration "
    "and"
    " reload; or, if only some events were to blame: '"
    "   ELSE 'The destination refuses us: correct what it says; the relay tries now and then, at "
    "once"
    " after ' END"
    "  || format('`pgcourier resume %s`', sink)"
    " FROM courier.pause"
    " UNION ALL SELECT 'ok', 'none', NULL WHERE NOT EXISTS (SELECT FROM courier.pause)";

static const char endpoints_sql[] =
    "WITH trouble AS (SELECT name, state, state_reason, failing_since, last_error"
    "  FROM courier.endpoint WHERE state <> 'active' OR failing_since IS NOT NULL),"
    " unserved AS (SELECT sink, count(*) AS n, min(name) AS first FROM courier.endpoint"
    "  WHERE sink NOT IN (SELECT c.sink FROM courier.cursor AS c JOIN courier.sink AS noted"
    "   ON noted.name = c.sink WHERE noted.fans_out AND " LOCK_OWNER ") GROUP BY sink)"
    " (SELECT 'warn', CASE WHEN state <> 'active' THEN format('endpoint %s is %s%s', name, state,"
    "   ': ' || state_reason) ELSE format('endpoint %s has been failing since %s: %s', name,"
    "   date_trunc('second', failing_since), last_error) END,"
    "  CASE WHEN state <> 'active' THEN format('`pgcourier endpoint resume %s`', name)"
    "   ELSE format('`pgcourier endpoint test %s`', name) END FROM trouble ORDER BY name LIMIT 20)"
    " UNION ALL SELECT 'warn', format('%s more endpoints fail or are not active', count(*) - 20),"
    "  '`pgcourier endpoint list`' FROM trouble HAVING count(*) > 20"
    " UNION ALL SELECT 'warn', format('%s: sink %s is served by no relay, and gets no events to "
    "them',"
    "   CASE n WHEN 1 THEN 'endpoint ' || first ELSE n || ' endpoints' END, sink),"
    "  format('Start a relay that has the sink, with endpoints: table; or, if its name is wrong, "
    "see"
    " `pgcourier endpoint list --sink %s`, remove them and add them to the right one', sink)"
    "  FROM unserved"
    " UNION ALL SELECT 'ok', format('%s, all active', (SELECT count(*) FROM courier.endpoint)), "
    "NULL"
    "  WHERE NOT EXISTS (SELECT FROM trouble) AND NOT EXISTS (SELECT FROM unserved)";

/* As maintenance last found it. The remedy is for the first of those that hold. */
static const char retention_sql[] =
    "WITH part AS (SELECT * FROM courier.retention), held AS ("
    "  SELECT *, split_part(held_by[1], '/', 1) AS sink FROM part"
    "  WHERE held_by IS NOT NULL AND emptied_at IS NULL AND held_since < clock_timestamp() - "
    "interval '5 min'),"
    " ahead AS (SELECT count(*) FILTER (WHERE lower > last_id) AS n,"
    "   greatest(0, coalesce(max(upper) - 1, 0) - last_id) AS ids"
    "  FROM coalesce(pg_sequence_last_value('courier.outbox_id_seq'::regclass), 0) AS last_id, part"
    "  GROUP BY last_id), trouble AS ("
    " (SELECT 'warn', format('%s (%s) should have gone %s ago, but is held by %s%s', name,"
    "   pg_size_pretty(bytes), date_trunc('second', clock_timestamp() - held_since),"
    "   array_to_string(held_by[1:8], ', '),"
    "   ' and ' || nullif(greatest(0, cardinality(held_by) - 8), 0) || ' more'),"
    "  CASE WHEN sink LIKE 'a transaction that has %' THEN 'SELECT pid, xact_start, query "
    "FROM "
    "pg_stat_activity WHERE backend_xid IS NOT NULL ORDER BY xact_start'"
    "   WHEN held_by[1] LIKE '%/%' THEN format('`pgcourier endpoint list --sink %s`', sink)"
    "   WHEN sink <> ALL ($1::text[]) THEN format('`pgcourier cursor drop %s`', sink)"
    "   WHEN EXISTS (SELECT FROM courier.pause WHERE pause.sink = held.sink)"
    "   THEN format('`pgcourier resume %s`', sink)"
    "   ELSE format('See why it is behind: `pgcourier status %s`', sink) END"
    "  FROM held ORDER BY lower LIMIT 5)"
    " UNION ALL SELECT 'warn', format('%s more partitions are held', count(*) - 5),"
    "  'SELECT * FROM courier.retention' FROM held HAVING count(*) > 5"
    " UNION ALL SELECT 'warn', format('sink %s lost %s events to outbox.retention_max in the last "
    "day', sink, sum(events)), 'SELECT * FROM courier.outbox_loss ORDER BY lost_at'"
    "  FROM courier.outbox_loss WHERE lost_at > clock_timestamp() - interval '1 day' GROUP BY sink"
    " UNION ALL SELECT 'warn', format('%s are in the default partition: no other was made in time',"
    "   pg_size_pretty(size)), '`pgcourier maintain`'"
    "  FROM pg_relation_size('courier.outbox_default') AS size WHERE size > 0"
    " UNION ALL SELECT 'warn', 'no partition is ahead: nobody looks after the outbox',"
    "  'Start `pgcourier run`, or now and then `pgcourier maintain`' FROM ahead WHERE n = 0)"
    " SELECT * FROM trouble UNION ALL SELECT 'ok', format('%s partitions, none held beyond its "
    "time, %s ids ahead, the oldest %s', (SELECT count(*) FROM part WHERE lower IS NOT NULL), ids,"
    "  coalesce('begun ' || (SELECT date_trunc('second', began_at) FROM part ORDER BY lower LIMIT "
    "1),"
    "   'not begun')), NULL"
    "  FROM ahead WHERE NOT EXISTS (SELECT FROM trouble)";

/* With the partitions of those that have any. */
static const char bloat_sql[] =
    "SELECT CASE WHEN dead > 100000 AND dead > live THEN 'warn' ELSE 'ok' END,"
    "  format('%s: %s, about %s rows, %s dead', name, size, live, dead),"
    "  CASE WHEN dead > 100000 AND dead > live THEN"
    "   format('VACUUM courier.%I; if that does not help, see snapshots above', name) END"
    " FROM (SELECT c.relname AS name, pg_size_pretty(sum(pg_total_relation_size(part.oid))) AS "
    "size,"
    "   sum(coalesce(n_live_tup, 0)) AS live, sum(coalesce(n_dead_tup, 0)) AS dead"
    "  FROM pg_class AS c, LATERAL (SELECT c.oid UNION"
    "    SELECT inhrelid FROM pg_inherits WHERE inhparent = c.oid) AS part"
    "   LEFT JOIN pg_stat_user_tables AS s ON s.relid = part.oid"
    "  WHERE c.relnamespace = 'courier'::regnamespace"
    "   AND c.relname IN ('outbox', 'cursor', 'parked', 'dead_letter')"
    "  GROUP BY c.relname ORDER BY c.relname) AS of_ours";

/* Whoever may connect can take an advisory lock, and who may not move cursors is no relay. The doorbell's
 * (0) all writers share; -1 is the maintenance's. */
static const char locks_sql[] =
    "WITH stranger AS (SELECT a.pid, a.usename, a.application_name, count(*) AS n,"
    "  string_agg(DISTINCT coalesce(c.sink, CASE l.objid WHEN 0 THEN 'the doorbell'"
    "   WHEN 4294967295 THEN 'the maintenance' END), ', ') AS whose"
    " FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)"
    "  LEFT JOIN courier.cursor AS c ON c.lock_id = l.objid::bigint"
    " WHERE l.locktype = 'advisory' AND l.classid = 1668248946 AND l.objsubid = 2 AND l.granted"
    "  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    "  AND (l.objid <> 0 OR l.mode = 'ExclusiveLock')"
    "  AND NOT has_table_privilege(a.usesysid, 'courier.cursor', 'UPDATE')"
    " GROUP BY 1, 2, 3 ORDER BY n DESC, 1 LIMIT 5)"
    " SELECT 'fail', format('pid %s (%s, role %s) holds %s of the relays'' locks%s, and is no "
    "relay: it"
    " may not move cursors', pid, coalesce(nullif(application_name, ''), 'no application name'),"
    "  usename, n, ' (' || whose || ')'), 'SELECT pg_terminate_backend(' || pid || ')' FROM "
    "stranger"
    " UNION ALL SELECT 'ok', 'nobody but relays holds the relays'' locks', NULL"
    "  WHERE NOT EXISTS (SELECT FROM stranger)";

const struct health_check health_sink_checks[] = {
    {"locks", locks_sql, false},
    {"cursors", cursors_sql, true},
    {"dead letters", dead_sql, false},
    {"parked", parked_sql, false},
    {"pauses", pauses_sql, false},
    {"endpoints", endpoints_sql, false},
    {"retention", retention_sql, true},
    {"tables", bloat_sql, false},
    {0},
};

struct rows *health_ask_settings(struct blocking_conn *conn, struct error *error)
{
        return blocking_conn_query(conn,
            "SELECT DISTINCT noted.name, noted.settings FROM courier.sink AS noted"
            " JOIN courier.cursor AS c ON c.sink = noted.name WHERE " LOCK_OWNER,
            NULL, 0, error);
}

struct rows *health_ask(struct blocking_conn *conn, const struct health_check *check,
    const char *sinks, struct error *error)
{
        const struct parameter parameter = {.value = sinks};

        return blocking_conn_query(conn, check->sql, &parameter, check->needs_sinks, error);
}
