/* The server itself, what else goes on in it that hurts deliveries, and what of our own tables the
 * status document does not show. */
#include "operator/doctor_queries.h"

#include <stddef.h>

/* The first minor releases after 13 November 2025. */
static const char release_sql[] =
    "WITH fixed (version) AS (SELECT max(v) FROM unnest('{140020,150015,160011,170007,180001}'"
    "   ::integer[]) AS v WHERE v / 10000 <= current_setting('server_version_num')::integer / "
    "10000)"
    " SELECT CASE WHEN is_new THEN 'ok' ELSE 'warn' END,"
    "  CASE WHEN is_new THEN current_setting('server_version') || ' has the fixes of November 2025'"
    "   ELSE current_setting('server_version') || ' is older than ' || version / 10000 || '.'"
    "   || version % 10000 || ': LISTEN may fail with \"could not access status of transaction\"'"
    "  END, CASE WHEN NOT is_new THEN 'Update PostgreSQL to the newest minor release; until then"
    " relay.wakeup: poll does without LISTEN' END"
    " FROM fixed, LATERAL (SELECT current_setting('server_version_num')::integer >= version)"
    "  AS judged (is_new)";

static const char durability_sql[] =
    "SELECT level, text, remedy FROM (VALUES"
    " (1, current_setting('fsync') = 'off', 'warn',"
    "  'fsync is off: after a power cut the whole cluster may be lost, not just events',"
    "  'As a superuser: psql -c \"ALTER SYSTEM SET fsync = on\" -c \"SELECT pg_reload_conf()\"'),"
    " (2, current_setting('full_page_writes') = 'off', 'warn',"
    "  'full_page_writes is off: after a power cut pages may be torn',"
    "  'As a superuser: psql -c \"ALTER SYSTEM SET full_page_writes = on\" -c \"SELECT "
    "pg_reload_conf()\"'),"
    " (3, current_setting('synchronous_commit') = 'off', 'warn',"
    "  'synchronous_commit is off: an event may be delivered whose transaction a crash takes back',"
    "  'Set synchronous_commit = on for the roles that publish')"
    ") AS trouble (n, is_so, level, text, remedy) WHERE is_so"
    " UNION ALL SELECT 'ok', 'commits are on disk before they are answered', NULL"
    "  WHERE current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on'"
    "  AND current_setting('synchronous_commit') <> 'off'";

static const char timeouts_sql[] =
    "WITH setting AS (SELECT name, setting::bigint AS ms, source FROM pg_settings WHERE name IN"
    "  ('idle_in_transaction_session_timeout', 'statement_timeout', 'idle_session_timeout',"
    "   'transaction_timeout')), trouble AS ("
    " SELECT 'warn', 'idle_in_transaction_session_timeout is off: a session that forgets its"
    " transaction holds its events back, and dead rows in every table, for as long as it lives',"
    "  format('ALTER DATABASE %I SET idle_in_transaction_session_timeout = ''10min''',"
    "   current_database())"
    " FROM setting WHERE name = 'idle_in_transaction_session_timeout' AND ms = 0"
    " UNION ALL SELECT 'warn', format('%s is %s ms here: %s', name, ms,"
    "   CASE name WHEN 'idle_session_timeout' THEN 'it breaks the relay''s sessions whenever there"
    " is nothing to do' ELSE 'it breaks the relay''s session when a statement takes longer, as it "
    "may"
    " behind a large backlog' END),"
    "  format('ALTER ROLE %I SET %s = 0', current_user, name)"
    " FROM setting WHERE name = 'idle_session_timeout' AND ms > 0"
    "  OR name IN ('statement_timeout', 'transaction_timeout') AND ms BETWEEN 1 AND 29999)"
    " SELECT * FROM trouble UNION ALL SELECT 'ok', 'none that breaks the relay', NULL"
    " WHERE NOT EXISTS (SELECT FROM trouble)";

static const char connections_sql[] =
    "SELECT CASE WHEN n * 5 > allowed * 4 THEN 'warn' ELSE 'ok' END,"
    "  format('%s of %s connections are in use', n, allowed),"
    "  CASE WHEN n * 5 > allowed * 4 THEN 'Raise max_connections, or put a pooler before the"
    " applications: the relay may not get back in when it loses its session' END"
    " FROM (SELECT count(*) AS n, current_setting('max_connections')::integer"
    "   - current_setting('superuser_reserved_connections')::integer AS allowed"
    "  FROM pg_stat_activity WHERE backend_type = 'client backend') AS use";

static const char excess_sql[] =
    "WITH excess (what) AS (SELECT what FROM pg_roles, LATERAL (VALUES"
    "  (rolsuper, 'is a superuser'), (rolcreaterole AND NOT rolsuper, 'may create roles'),"
    "  (rolcreatedb AND NOT rolsuper, 'may create databases'),"
    "  (rolreplication AND NOT rolsuper, 'may read the whole cluster by replication'),"
    "  (rolbypassrls AND NOT rolsuper, 'is exempt from row security'),"
    "  (EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace('courier')"
    "    AND relowner = pg_roles.oid), 'owns tables of schema courier'))"
    "  AS may (so, what) WHERE so AND rolname = current_user)"
    " SELECT 'warn', current_user || ' ' || what || ', which the relay does not need',"
    "  'Let the relay log in with a role of its own: CREATE ROLE pgcourier LOGIN PASSWORD ''...'''"
    "  || CASE WHEN to_regrole('courier_relay') IS NULL THEN '; and, when the schema is made' ELSE "
    "'' END || '; GRANT courier_relay TO pgcourier' FROM excess"
    " UNION ALL SELECT 'ok', current_user || ' has no rights beyond its task', NULL"
    "  WHERE NOT EXISTS (SELECT FROM excess)";

/* Its tail waits for the slowest listener of the cluster, and a listener in a transaction reads
 * nothing. Listeners cannot be seen from outside; most likely it is a session that is idle in a
 * transaction, else the oldest that works in one. */
static const char queue_sql[] =
    "SELECT CASE WHEN usage < 0.05 THEN 'ok' WHEN usage < 0.5 THEN 'warn' ELSE 'fail' END,"
    "  format('%s %% of the notification queue are full%s', round(usage::numeric * 100, 1),"
    "   CASE WHEN usage >= 0.05 THEN ': when it is full, publishing fails. A session that listens "
    "is"
    " inside a transaction; the oldest is ' || coalesce(holder.words, 'not visible to this role')"
    "   ELSE '' END),"
    "  CASE WHEN usage >= 0.05 THEN coalesce('SELECT pg_terminate_backend(' || holder.pid || ')',"
    "   format('GRANT pg_read_all_stats TO %I, and ask again', current_user)) END"
    " FROM pg_notification_queue_usage() AS usage LEFT JOIN LATERAL ("
    "  SELECT pid, format('pid %s (%s, user %s, database %s), for %s', pid, application_name,"
    "   usename, datname, date_trunc('second', clock_timestamp() - xact_start)) AS words"
    "  FROM pg_stat_activity WHERE xact_start IS NOT NULL AND backend_type = 'client backend'"
    "   AND pid <> pg_backend_pid()"
    "  ORDER BY state LIKE 'idle in transaction%' DESC, xact_start LIMIT 1) AS holder ON true";

/* While it is old, rows that were changed since cannot be removed: cursors and parked rows are. */
static const char xmin_sql[] =
    "WITH holder (age, since, words, remedy) AS ("
    " SELECT age(coalesce(backend_xmin, backend_xid)), xact_start,"
    "  format('pid %s (%s, user %s, database %s, %s)', pid, coalesce(nullif(application_name, ''),"
    "   backend_type), usename, datname, coalesce(state, 'state not visible')),"
    "  'SELECT pg_terminate_backend(' || pid || ')'"
    " FROM pg_stat_activity WHERE coalesce(backend_xmin, backend_xid) IS NOT NULL"
    "  AND pid <> pg_backend_pid()"
    " UNION ALL SELECT age(transaction), prepared,"
    "  format('the prepared transaction %L of %s in database %s', gid, owner, database),"
    "  format('ROLLBACK PREPARED %L', gid) FROM pg_prepared_xacts"
    " UNION ALL SELECT age(x), NULL, format('the replication slot %I (%s)', slot_name,"
    "   CASE WHEN active THEN 'in use' ELSE 'unused' END),"
    "  CASE WHEN active THEN 'See what its receiver is doing'"
    "   ELSE format('SELECT pg_drop_replication_slot(%L)', slot_name) END"
    " FROM pg_replication_slots, LATERAL (VALUES (xmin), (catalog_xmin)) AS of_slot (x)"
    " WHERE x IS NOT NULL), oldest AS (SELECT *, coalesce(clock_timestamp() - since, '0') AS held"
    "  FROM holder ORDER BY age DESC, since LIMIT 1)"
    " SELECT CASE WHEN is_bad THEN 'warn' ELSE 'ok' END,"
    "  format('the oldest is held by %s: %s transactions old%s%s', words, age,"
    "   ', for ' || date_trunc('second', held), CASE WHEN is_bad THEN"
    "   '; dead rows pile up behind it and settling becomes slow' ELSE '' END),"
    "  CASE WHEN is_bad THEN remedy END"
    " FROM oldest, LATERAL (SELECT age > CASE WHEN since IS NULL THEN 100000 ELSE 1000000 END"
    "  OR held > '5 min') AS judged (is_bad)"
    " UNION ALL SELECT 'ok', 'none is held', NULL WHERE NOT EXISTS (SELECT FROM oldest)";

static const char idle_sql[] =
    "WITH idle AS (SELECT pid, application_name, usename, client_addr,"
    "  clock_timestamp() - state_change AS held FROM pg_stat_activity"
    "  WHERE state LIKE 'idle in transaction%' AND datname = current_database())"
    " (SELECT 'warn', format('pid %s (%s, user %s, from %s) has been idle in its transaction for "
    "%s:"
    " what it published waits, and all that it locked', pid, application_name, usename,"
    "   coalesce(host(client_addr), 'this machine'), date_trunc('second', held)),"
    "  'SELECT pg_terminate_backend(' || pid || ')'"
    "  FROM idle WHERE held > '1 min' ORDER BY held DESC LIMIT 5)"
    " UNION ALL SELECT 'ok', format('%s idle in a transaction, none for longer than a minute%s',"
    "   (SELECT count(*) FROM idle), CASE WHEN pg_has_role('pg_read_all_stats', 'USAGE') THEN ''"
    "   ELSE format(' (those of other users are hidden; GRANT pg_read_all_stats TO %I shows them)',"
    "    current_user) END), NULL"
    "  WHERE NOT EXISTS (SELECT FROM idle WHERE held > '1 min')";

/* The status document is about the sinks of the configuration. */
static const char others_sql[] =
    "WITH owned (sink, what) AS ("
    "  SELECT sink, count(*) || CASE count(*) WHEN 1 THEN ' dead letter' ELSE ' dead letters' END"
    "  FROM courier.dead_letter GROUP BY sink"
    " UNION ALL SELECT sink, count(*) || CASE count(*) WHEN 1 THEN ' parked delivery'"
    "   ELSE ' parked deliveries' END FROM courier.parked GROUP BY sink"
    " UNION ALL SELECT sink, 'a pause by the ' || by || coalesce(' (' || reason || ')', '')"
    "  FROM courier.pause"
    " UNION ALL SELECT sink, count(*) || CASE count(*) WHEN 1 THEN ' receiver that fails or is"
    " disabled' ELSE ' receivers that fail or are disabled' END FROM courier.receiver"
    "  WHERE state = 'disabled' OR failing_since IS NOT NULL GROUP BY sink),"
    " other AS (SELECT sink, string_agg(what, ', ') AS what FROM owned"
    "  WHERE sink <> 'courier.marks' AND sink <> ALL (coalesce($1::text[], ARRAY(SELECT sink FROM "
    "courier.cursor"
    "   UNION SELECT sink FROM courier.pause UNION SELECT sink FROM courier.receiver)))"
    "  GROUP BY sink)"
    " SELECT 'warn', format('sink %s, which %s, has %s', sink, CASE WHEN $1::text[] IS NULL"
    "   THEN 'no relay has ever run' ELSE 'is in no configuration here' END, what),"
    "  format('See `pgcourier dead list --sink %s`, `pgcourier parked list --sink %s` and"
    " `pgcourier receiver list --sink %s`; `pgcourier resume %s` ends pauses', sink, sink, sink,"
    "   sink) FROM other"
    " UNION ALL SELECT 'ok', 'nothing is stuck', NULL"
    "  WHERE NOT EXISTS (SELECT FROM other)";

/* Nothing that the status document finds wrong, but the outbox keeps their events. */
static const char paused_receivers_sql[] =
    "WITH paused AS (SELECT name, state_reason FROM courier.receiver WHERE state = 'paused')"
    " (SELECT 'warn', format('receiver %s is paused%s', name, ': ' || state_reason),"
    "  format('`pgcourier receiver resume %s`', name) FROM paused ORDER BY name LIMIT 20)"
    " UNION ALL SELECT 'warn', format('%s more receivers are paused', count(*) - 20),"
    "  '`pgcourier receiver list`' FROM paused HAVING count(*) > 20"
    " UNION ALL SELECT 'ok', 'none', NULL WHERE NOT EXISTS (SELECT FROM paused)";

/* Each is compiled. Without its trigger events are lost, and one that does not compile fails the
 * application's writes; one that was edited, or whose table is gone, may be meant. */
static const char taps_sql[] =
    "WITH checked AS MATERIALIZED (SELECT * FROM courier.check_attachments())"
    " SELECT CASE WHEN state IN ('edited', 'table_gone') THEN 'warn' ELSE 'fail' END,"
    "  format('%s: %s: %s', name, state, detail), remedy FROM checked WHERE state <> 'ok'"
    " UNION ALL SELECT 'ok', CASE n WHEN 0 THEN 'none' ELSE n || ', as they were made' END, NULL"
    "  FROM (SELECT count(*) AS n FROM checked HAVING bool_and(state = 'ok') IS NOT FALSE) AS all_";

/* As maintenance last found them. */
static const char partitions_sql[] =
    "WITH part AS (SELECT * FROM courier.retention),"
    " ahead AS (SELECT count(*) FILTER (WHERE lower > last_id) AS n,"
    "   greatest(0, coalesce(max(upper) - 1, 0) - last_id) AS ids"
    "  FROM coalesce(pg_sequence_last_value('courier.outbox_id_seq'::regclass), 0) AS last_id, part"
    "  GROUP BY last_id)"
    " SELECT 'warn', 'none is ahead: no relay maintains the outbox',"
    "  'Start `pgcourier run`, or now and then `pgcourier maintain`' FROM ahead WHERE n = 0"
    " UNION ALL SELECT 'ok', format('%s, %s ids ahead, the oldest %s',"
    "  (SELECT count(*) FROM part WHERE lower IS NOT NULL), ids,"
    "  coalesce('begun ' || (SELECT date_trunc('second', began_at) FROM part ORDER BY lower LIMIT "
    "1),"
    "   'not begun')), NULL FROM ahead WHERE n > 0";

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

const struct health_check health_server_checks[] = {
    {"release", release_sql, false},
    {"durability", durability_sql, false},
    {"timeouts", timeouts_sql, false},
    {"connections", connections_sql, false},
    {"excess rights", excess_sql, false},
    {"notifications", queue_sql, false},
    {"snapshots", xmin_sql, false},
    {"sessions", idle_sql, false},
    {0},
};

const struct health_check health_schema_checks[] = {
    {"other sinks", others_sql, true},
    {"paused receivers", paused_receivers_sql, false},
    {"taps", taps_sql, false},
    {"partitions", partitions_sql, false},
    {"tables", bloat_sql, false},
    {0},
};

struct rows *health_ask_settings(struct blocking_conn *conn, struct error *error)
{
        return blocking_conn_query(conn,
            "SELECT name, settings FROM courier.sink"
            " WHERE EXISTS (SELECT FROM courier.lane_owner WHERE sink = name)",
            NULL, 0, error);
}

struct rows *health_ask(struct blocking_conn *conn, const struct health_check *check,
    const char *sinks, struct error *error)
{
        const struct parameter parameter = {.value = sinks};

        return blocking_conn_query(conn, check->sql, &parameter, check->needs_sinks, error);
}
