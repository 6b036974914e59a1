-- The state of everything, as the database knows it: one JSON document (used by src/operator/status_query.c,
-- which describes it).
--
-- $1  the sinks of the configuration: a JSON array of {sink, is_served, fans_out, topics, types, header_names,
--     header_values, has_filter, settings}; NULL: every sink that has a cursor, with whatever it takes. Of those
--     that other relays serve nothing is told, but that they are not forgotten
--
-- It is asked for every few seconds, whatever the backlog: nothing here reads more than a bounded
-- number of rows, and each by an index. What a lane has not got yet are
--
--   new rows     above the floor, or above the last id of an open difference: none of them is visible
--                in what the lane has behind it
--   stragglers   below that, of transactions that its snapshots do not show (docs/architecture.md)
--
-- The first so many of either are read and judged; the rest is as many as the ids that are left let
-- expect, and so the number is called an estimate. So it is where there is a filter: what that takes is not
-- asked here, because a filter may take any time.
WITH RECURSIVE moment AS MATERIALIZED (
  SELECT clock_timestamp() AS at,
         coalesce(pg_sequence_last_value('courier.outbox_id_seq'::regclass), 0) AS top_id
), asked AS MATERIALIZED (
  SELECT * FROM json_to_recordset($1::json) AS one (
    sink text, is_served boolean, fans_out boolean, topics text[], types text[], header_names text[], header_values text[],
    has_filter boolean, settings jsonb)
), sinks AS MATERIALIZED (
  SELECT sink, fans_out, topics, types, header_names, header_values, has_filter
  FROM asked WHERE is_served
  UNION ALL
  SELECT sink, EXISTS (SELECT FROM courier.receiver WHERE receiver.sink = known.sink),
         NULL, NULL, NULL, NULL, false
  FROM (SELECT sink FROM courier.cursor UNION SELECT sink FROM courier.pause
        UNION SELECT sink FROM courier.receiver) AS known
  WHERE $1::json IS NULL AND sink <> 'courier.marks'
), locks AS MATERIALIZED (
  SELECT * FROM courier.relay_lock
), members AS MATERIALIZED (
  SELECT member.name, member.shards, locks.pid
  FROM locks JOIN courier.member ON locks.lock_id = (member.lock_id::bigint & 4294967295)
  WHERE is_relay
), shard_owners AS MATERIALIZED (
  -- As courier.lane_owner, of the sink's own lanes; pg_locks is read once for all.
  SELECT cursor.sink, greatest(-1 - cursor.lane, 0) AS shard, locks.pid, application_name, members.name AS relay,
         coalesce(client_addr::text, CASE WHEN client_port = -1 THEN 'unix socket' END) AS client
  FROM locks
  JOIN courier.cursor ON cursor.lock_id = locks.lock_id
  LEFT JOIN members ON members.pid = locks.pid
  WHERE is_relay AND cursor.lane <= 0
), owners AS MATERIALIZED (
  SELECT DISTINCT ON (sink) * FROM shard_owners ORDER BY sink, shard
), strangers AS (
  -- The doorbell's lock (0) every writer has for a moment, but none has it exclusively.
  SELECT pid, usename, application_name, backend_start, count(*) AS n,
         bool_or(locks.lock_id = 0) AS has_doorbell, bool_or(locks.lock_id = 4294967295) AS has_maintenance,
         (array_agg(DISTINCT sink ORDER BY sink) FILTER (WHERE sink IS NOT NULL))[:100] AS sinks
  FROM locks LEFT JOIN courier.cursor ON cursor.lock_id = locks.lock_id
  WHERE NOT is_relay AND (locks.lock_id <> 0 OR is_exclusive)
  GROUP BY pid, usename, application_name, backend_start
  ORDER BY n DESC, pid LIMIT 10
), lanes AS MATERIALIZED (
  -- Of a sink that fans out those of its receivers that are not paused: the others' events wait
  -- because an operator wants them to.
  SELECT cursor.*, greatest(from_floor, last_id) AS above, receiver.topics AS lane_topics,
         receiver.types AS lane_types, sinks.topics, sinks.types, sinks.header_names, sinks.header_values,
         has_filter OR receiver.filter IS NOT NULL AS is_filtered,
         receiver.failing_since IS NOT NULL AS is_failing,
         CASE WHEN cursor.lane < 0 THEN noted.shards END AS shards, -- of a shard the events of its keys
         EXISTS (SELECT FROM courier.shard_end AS ended WHERE ended.sink = cursor.sink) AS was_divided,
         top_id > greatest(from_floor, last_id) AS has_new,
         pg_snapshot_xmin(from_snapshot) < from_xid
           OR pg_snapshot_xmin(until_snapshot) < until_xid AS has_stragglers
  FROM moment, sinks
  JOIN courier.cursor USING (sink)
  LEFT JOIN courier.receiver ON receiver.sink = cursor.sink AND receiver.id = cursor.lane
  LEFT JOIN courier.sink AS noted ON noted.name = cursor.sink
  WHERE CASE WHEN sinks.fans_out THEN receiver.state = 'active' ELSE cursor.lane <= 0 END
), looked_at AS MATERIALIZED (
  -- Of each sink the hundred furthest behind stand for the others.
  SELECT *, greatest(50, least(5000, 20000 / n_all)) AS max_rows
  FROM (SELECT *, row_number() OVER (PARTITION BY sink ORDER BY above, lane) AS nth, count(*) OVER () AS n_all
        FROM lanes WHERE has_new OR has_stragglers) AS behind
  WHERE nth <= 100
), patterns AS (
  -- Each set of patterns as one regular expression. The empty one takes everything, what no pattern
  -- takes is taken by one that only an empty topic meets.
  SELECT sink, lane, of_sink,
         CASE WHEN topics IS NULL THEN '' ELSE coalesce('^(?:' || string_agg(regex, '|')
           FILTER (WHERE NOT is_type AND NOT excludes) || ')$', '^$') END AS topic,
         coalesce('^(?:' || string_agg(regex, '|')
           FILTER (WHERE NOT is_type AND NOT excludes AND pattern LIKE 'courier.%') || ')$', '^$') AS own_topic,
         '^(?:' || string_agg(regex, '|') FILTER (WHERE NOT is_type AND excludes) || ')$' AS not_topic,
         CASE WHEN cardinality(types) > 0 THEN coalesce('^(?:' || string_agg(regex, '|')
           FILTER (WHERE is_type AND NOT excludes) || ')$', '^$') END AS type,
         '^(?:' || string_agg(regex, '|') FILTER (WHERE is_type AND excludes) || ')$' AS not_type
  FROM (SELECT sink, 0 AS lane, true AS of_sink, topics, types FROM sinks
        UNION ALL
        SELECT sink, lane, false, lane_topics, lane_types FROM looked_at WHERE lane_topics IS NOT NULL) AS given
  LEFT JOIN LATERAL (
    SELECT is_type, pattern, pattern LIKE '!%' AS excludes,
           courier.pattern_regex(ltrim(pattern, '!')) AS regex
    FROM (SELECT false, unnest(topics) UNION ALL SELECT true, unnest(types)) AS each (is_type, pattern)
  ) AS expression ON true
  GROUP BY sink, lane, of_sink, topics, types
), pieces AS MATERIALIZED (
  -- Of each lane the new rows, and the stragglers of each transaction.
  SELECT lane.sink, lane.lane, piece, max(max_rows) AS max_rows, count(*) AS n_rows,
         min(id) AS first_id, max(id) AS last_id, max(upto) AS upto,
         count(*) FILTER (WHERE is_left AND is_taken) AS n_taken,
         min(created_at) FILTER (WHERE is_left AND is_taken) AS oldest,
         min(created_at) FILTER (WHERE is_left AND is_taken AND NOT is_failing) AS overdue,
         bool_or(is_filtered) AS is_filtered
  FROM looked_at AS lane
  JOIN patterns AS wide ON wide.sink = lane.sink AND wide.of_sink
  LEFT JOIN patterns AS narrow ON narrow.sink = lane.sink AND narrow.lane = lane.lane AND NOT narrow.of_sink
  CROSS JOIN LATERAL (
    (SELECT NULL::xid8 AS piece, id, topic, type, headers, created_at, key, txid,
            (SELECT top_id FROM moment) AS upto, true AS is_left
     FROM courier.outbox
     WHERE lane.has_new AND id > lane.above
     ORDER BY id LIMIT lane.max_rows)
    UNION ALL
    -- The row comparisons make the planner use the index on (txid, id), from the right place.
    SELECT straggler.txid, one.*, lane.above, true
    FROM (SELECT pg_snapshot_xip(lane.from_snapshot)
          UNION SELECT pg_snapshot_xip(lane.until_snapshot)) AS straggler (txid),
         LATERAL (SELECT id, topic, type, headers, created_at, key, txid
                  FROM courier.outbox
                  WHERE lane.has_stragglers
                    AND (outbox.txid, outbox.id) <= (straggler.txid, lane.above)
                    AND (outbox.txid, outbox.id)
                        > (straggler.txid, CASE WHEN pg_visible_in_snapshot(straggler.txid, lane.until_snapshot)
                                                THEN lane.last_id ELSE 0 END)
                  ORDER BY outbox.txid, outbox.id LIMIT lane.max_rows) AS one
    UNION ALL
    -- From a snapshot's xmax on, which is the last completed transaction plus one, there are some in
    -- no list: all of them are one piece.
    SELECT bounds.first, id, topic, type, headers, created_at, key, txid, lane.above,
           hidden.id <= lane.above
             AND NOT courier.has_passed(lane.from_snapshot, lane.until_snapshot, lane.last_id,
                                        hidden.id, hidden.txid)
             AND NOT EXISTS (SELECT FROM pg_snapshot_xip(lane.until_snapshot) AS listed (txid)
                             WHERE listed.txid = hidden.txid)
    FROM (VALUES (pg_snapshot_xmax(lane.from_snapshot), lane.from_xid),
                 (greatest(pg_snapshot_xmax(lane.until_snapshot), lane.from_xid), lane.until_xid)
         ) AS bounds (first, below),
         LATERAL (SELECT *
                  FROM courier.outbox
                  WHERE lane.has_stragglers AND outbox.txid >= bounds.first AND outbox.txid < bounds.below
                  ORDER BY outbox.txid, outbox.id LIMIT lane.max_rows) AS hidden
  ) AS row
  CROSS JOIN LATERAL (
    SELECT (lane.shards IS NULL OR courier.shard_of(row.key, lane.shards, row.id) = -1 - lane.lane)
           AND NOT (lane.was_divided AND lane.lane <= 0 AND courier.had_passed(lane.sink, row.key, row.id, row.txid))
           AND (wide.topic = '' OR row.topic ~ wide.topic)
           AND (wide.not_topic IS NULL OR row.topic !~ wide.not_topic)
           AND (wide.type IS NULL OR row.type ~ wide.type)
           AND (wide.not_type IS NULL OR row.type !~ wide.not_type)
           AND (narrow.topic IS NULL
                OR row.topic ~ CASE WHEN row.topic LIKE 'courier.%' THEN narrow.own_topic ELSE narrow.topic END)
           AND (narrow.not_topic IS NULL OR row.topic !~ narrow.not_topic)
           AND (narrow.type IS NULL OR row.type ~ narrow.type)
           AND (narrow.not_type IS NULL OR row.type !~ narrow.not_type)
           AND (lane.header_names IS NULL OR NOT EXISTS (
                  SELECT FROM unnest(lane.header_names, lane.header_values) AS condition (name, value)
                  WHERE (row.headers ? name AND (value IS NULL OR row.headers ->> name = value)) IS NOT TRUE))
           AS is_taken
  ) AS verdict
  GROUP BY lane.sink, lane.lane, piece
), backlogs AS (
  -- Of what was not looked at the share that was taken of what was; lanes without a look as the others.
  SELECT sink, sum(n_taken) AS n_taken, min(oldest) AS oldest, min(overdue) AS overdue,
         bool_and(n_rows < max_rows AND NOT is_filtered) AS is_exact,
         sum(CASE WHEN n_rows >= max_rows THEN greatest(0, upto - last_id)
             * (n_taken::numeric / (last_id - first_id + 1)) END) AS n_expected
  FROM pieces GROUP BY sink
), counted AS (
  SELECT sinks.sink, backlogs.oldest, backlogs.overdue, coalesce(backlogs.is_exact, true) AND NOT unseen.is_any AS is_exact,
         coalesce(n_taken, 0) + round(coalesce(n_expected, 0)
           + CASE WHEN unseen.is_any THEN (coalesce(n_taken, 0) + coalesce(n_expected, 0)) * unseen.times
                  ELSE 0 END) AS n
  FROM sinks
  LEFT JOIN backlogs USING (sink)
  CROSS JOIN LATERAL (SELECT count(*) > 100 AS is_any, greatest(0, count(*) - 100) / 100.0 AS times FROM lanes
                      WHERE lanes.sink = sinks.sink AND (has_new OR has_stragglers)) AS unseen
), parked AS MATERIALIZED (
  SELECT sinks.sink, row.*, receiver.state <> 'active' OR receiver.failing_since IS NOT NULL AS is_troubled
  FROM sinks, LATERAL (SELECT lane, outbox_id, position, state, skip, due_at, key, created_at,
                              state = 'retry' AND first_failed_at IS NOT NULL AS has_failed -- or it is slow
                       FROM courier.parked WHERE parked.sink = sinks.sink
                       ORDER BY parked.sink, lane, outbox_id LIMIT 10000) AS row
  LEFT JOIN courier.receiver ON receiver.id = row.lane
), parked_counts AS (
  SELECT sink, count(*) AS n, count(*) FILTER (WHERE has_failed) AS n_retrying,
         count(*) FILTER (WHERE state = 'retry' AND NOT has_failed) AS n_unfinished,
         count(*) FILTER (WHERE state = 'blocked') AS n_blocked,
         count(*) FILTER (WHERE state = 'delayed') AS n_delayed,
         min(due_at) FILTER (WHERE has_failed AND due_at < 'infinity') AS next_retry_at,
         min(due_at) FILTER (WHERE state <> 'blocked' AND due_at < (SELECT at FROM moment)
                               AND is_troubled IS NOT TRUE) AS overdue,
         min(created_at) FILTER (WHERE state <> 'delayed' OR due_at <= (SELECT at FROM moment)) AS oldest
  FROM parked GROUP BY sink
), shard_overdue AS MATERIALIZED (
  SELECT sink, CASE WHEN lane <= 0 THEN greatest(-1 - lane, 0) ELSE lane % noted.shards END AS shard, min(since) AS since
  FROM (SELECT sink, lane, overdue AS since FROM pieces
        UNION ALL
        SELECT sink, lane, due_at FROM parked
        WHERE state <> 'blocked' AND due_at < (SELECT at FROM moment) AND is_troubled IS NOT TRUE) AS each
  JOIN courier.sink AS noted ON noted.name = sink
  GROUP BY 1, 2
), shards AS MATERIALIZED (
  -- Of sinks with several, and of those whose number is being changed or is another in some configuration.
  SELECT noted.name AS sink, json_build_object(
    'total', noted.shards, 'wanted', noted.shards_wanted,
    'owners', (SELECT coalesce(json_agg(json_build_object('relay', relay, 'pid', pid,
                 'application_name', application_name, 'client', client, 'shards', shards,
                 'overdue_age', (SELECT greatest(0, coalesce(round(extract(epoch FROM moment.at - min(since))::numeric, 3), 0))
                                 FROM shard_overdue AS o WHERE o.sink = noted.name AND o.shard = ANY (shards)))
                 ORDER BY shards[1]), '[]')
               FROM (SELECT relay, pid, application_name, client, array_agg(shard ORDER BY shard) AS shards
                     FROM shard_owners WHERE shard_owners.sink = noted.name
                     GROUP BY relay, pid, application_name, client) AS each),
    'unowned', (SELECT coalesce(json_agg(shard ORDER BY shard), '[]') FROM generate_series(0, noted.shards - 1) AS shard
                WHERE shard NOT IN (SELECT s.shard FROM shard_owners AS s WHERE s.sink = noted.name)),
    'otherwise', other.list) AS document
  FROM moment, courier.sink AS noted
  CROSS JOIN LATERAL (
    SELECT coalesce(json_agg(json_build_object('relay', members.name, 'shards', members.shards -> noted.name)
                             ORDER BY members.name), '[]') AS list, count(*) AS n
    FROM members WHERE members.shards ->> noted.name <> noted.shards::text) AS other
  WHERE noted.shards > 1 OR noted.shards_wanted IS NOT NULL OR other.n > 0
), sink_rows AS (
  SELECT sinks.sink, json_build_object(
    'topics', sinks.topics,
    'owner', (SELECT json_build_object('pid', pid, 'application_name', application_name, 'client', client)
              FROM owners WHERE owners.sink = sinks.sink),
    'shards', (SELECT document FROM shards WHERE shards.sink = sinks.sink),
    'backlog', json_build_object('events', counted.n, 'is_exact', counted.is_exact,
      'oldest_age', greatest(0, coalesce(round(extract(epoch FROM
        moment.at - least(counted.oldest, parked_counts.oldest))::numeric, 3), 0)),
      'overdue_age', greatest(0, coalesce(round(extract(epoch FROM
        moment.at - least(counted.overdue, parked_counts.overdue))::numeric, 3), 0))),
    'retrying', coalesce(n_retrying, 0), 'unfinished', coalesce(n_unfinished, 0), 'blocked', coalesce(n_blocked, 0),
    'delayed', coalesce(n_delayed, 0), 'dead', least(dead.n, 10000),
    'counts_are_exact', coalesce(parked_counts.n, 0) < 10000 AND dead.n <= 10000,
    'next_retry_at', courier.utc(next_retry_at, 3), 'next_retry_id', retried.outbox_id,
    'next_retry_error', left(retried.last_error, 1000),
    'pauses', (SELECT coalesce(json_agg(json_build_object('by', by, 'reason', reason, 'since',
                 courier.utc(paused_at, 3)) ORDER BY by), '[]')
               FROM courier.pause WHERE pause.sink = sinks.sink),
    -- What the relay that delivers noted of the sink, where it is not what is asked about.
    'settings_differ', (SELECT string_agg(format('%s: %s there, %s here', part, coalesce(theirs, 'none'),
                                                 coalesce(ours, 'none')), '; ' ORDER BY part)
      FROM courier.sink AS noted JOIN asked ON asked.sink = noted.name,
           LATERAL (SELECT part, theirs.value AS theirs, ours.value AS ours
                    FROM jsonb_each_text(noted.settings) AS theirs (part, value)
                    FULL JOIN jsonb_each_text(asked.settings) AS ours (part, value) USING (part)) AS each
      WHERE noted.name = sinks.sink AND noted.settings <> '{}' AND theirs IS DISTINCT FROM ours),
    'receivers', CASE WHEN fans_out THEN
      (SELECT json_build_object('total', count(*),
         'troubled', (SELECT coalesce(json_agg(name), '[]')
           FROM (SELECT name FROM courier.receiver AS one
                 WHERE one.sink = sinks.sink
                   AND (state = 'disabled' OR state = 'active' AND failing_since IS NOT NULL)
                 ORDER BY name LIMIT 4) AS first),
         'failing', count(*) FILTER (WHERE state = 'active' AND failing_since IS NOT NULL),
         'disabled', count(*) FILTER (WHERE state = 'disabled'),
         'paused', count(*) FILTER (WHERE state = 'paused'))
       FROM courier.receiver WHERE receiver.sink = sinks.sink) END,
    'holds_outbox', EXISTS (SELECT FROM needs_it WHERE needs_it.sink = sinks.sink),
    'settled_at', courier.utc(settled.at, 3),
    'settled_age', greatest(0, round(extract(epoch FROM moment.at - settled.at)::numeric, 3))) AS document
  FROM moment, sinks
  JOIN counted USING (sink)
  LEFT JOIN parked_counts USING (sink)
  LEFT JOIN LATERAL (SELECT lane, outbox_id FROM parked
                     WHERE parked.sink = sinks.sink AND has_failed AND due_at < 'infinity'
                     ORDER BY due_at, outbox_id LIMIT 1) AS next ON true
  LEFT JOIN courier.parked AS retried
    ON (retried.sink, retried.lane, retried.outbox_id) = (sinks.sink, next.lane, next.outbox_id)
  CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM courier.dead_letter
                      WHERE dead_letter.sink = sinks.sink LIMIT 10001) AS first) AS dead
  -- Of shards that are behind the one that has settled least lately: others must not hide that it stands still.
  CROSS JOIN LATERAL (SELECT coalesce((SELECT min(settled_at) FROM lanes
                                       WHERE lanes.sink = sinks.sink AND lanes.lane < 0 AND has_new),
                                      max(settled_at)) AS at FROM courier.cursor
                      WHERE cursor.sink = sinks.sink) AS settled
), blocked_keys AS (
  SELECT blocked.sink, lane, key, waiting, head.outbox_id, head.first_failed_at, head.due_at, head.last_error
  FROM (SELECT sink, lane, key, count(*) FILTER (WHERE state = 'blocked') AS waiting,
               (array_agg(outbox_id ORDER BY position) FILTER (WHERE state = 'retry'))[1] AS head_id
        FROM parked WHERE key IS NOT NULL AND state <> 'delayed'
        GROUP BY sink, lane, key
        HAVING bool_or(state = 'blocked')
        ORDER BY waiting DESC, sink, lane, key LIMIT 20) AS blocked
  LEFT JOIN LATERAL (SELECT outbox_id, first_failed_at, due_at, last_error
                     FROM courier.parked
                     WHERE parked.sink = blocked.sink AND parked.lane = blocked.lane
                       AND parked.outbox_id = blocked.head_id) AS head ON true
), holders AS (
  -- What keeps VACUUM from removing the oldest rows. Sessions of other databases do not.
  SELECT pid, greatest(age(backend_xmin), age(backend_xid)) AS age_xids,
         (SELECT at FROM moment) - coalesce(xact_start, query_start) AS age,
         concat_ws(', ', coalesce(state, 'a session'), 'application ' || nullif(application_name, ''),
                   'user ' || usename) AS what
  FROM pg_catalog.pg_stat_activity
  WHERE pid <> pg_backend_pid() AND coalesce(backend_xmin, backend_xid) IS NOT NULL
    AND coalesce(datname, current_database()) = current_database()
    AND backend_type IS DISTINCT FROM 'autovacuum worker'
  UNION ALL
  SELECT NULL, age(transaction), (SELECT at FROM moment) - prepared,
         format('prepared transaction %s, user %s', gid, owner)
  FROM pg_catalog.pg_prepared_xacts WHERE database = current_database()
  UNION ALL
  SELECT active_pid, age(xmin), NULL, format('replication slot %s', slot_name)
  FROM pg_catalog.pg_replication_slots WHERE xmin IS NOT NULL
), tables AS (
  SELECT 'courier.outbox'::regclass AS relid, false AS is_partition
  UNION ALL
  SELECT relid, true FROM pg_partition_tree('courier.outbox') WHERE isleaf
), held AS (
  -- Expired partitions that are still needed, as maintenance last found it. What needs them is asked of
  -- the oldest alone.
  SELECT count(*) AS n, coalesce(sum(bytes), 0) AS bytes, min(held_since) AS since,
         (array_agg(name ORDER BY lower))[1] AS oldest
  FROM courier.retention WHERE held_by IS NOT NULL AND emptied_at IS NULL
), needs_it AS MATERIALIZED (
  SELECT needs.who, needs.n, split_part(needs.who, '/', 1) AS sink
  FROM held JOIN courier.outbox_partition AS of_oldest ON of_oldest.name = held.oldest,
       unnest(of_oldest.held_by) WITH ORDINALITY AS needs (who, n)
), orphans AS (
  SELECT sink, count(*) AS lanes, max(top_id - greatest(from_floor, last_id)) AS behind, max(settled_at) AS settled_at
  FROM moment, courier.cursor
  WHERE $1::json IS NOT NULL AND sink NOT IN (SELECT sink FROM asked) AND sink NOT IN (SELECT sink FROM owners)
    AND sink <> 'courier.marks'
  GROUP BY sink
), tables_with_marks AS MATERIALIZED (
  SELECT id, name, relation_name FROM courier.attachment WHERE has_marks
), unmarked AS MATERIALIZED (
  -- What is to be delivered later is not late: it waits from then on. Of an event that is delayed for long
  -- the outbox has no row any more.
  SELECT source, state, sink, lane, greatest(created_at, deliver_at, due_at) AS created_at,
         greatest(since, deliver_at, due_at) AS since, attempts, last_error
  FROM (SELECT source, state, sink, lane, outbox_id, created_at, since, attempts, last_error
        FROM courier.unmarked ORDER BY outbox_id LIMIT 10000) AS first
  LEFT JOIN LATERAL (SELECT deliver_at FROM courier.outbox
                     WHERE first.state <> 'behind' AND outbox.id = first.outbox_id) AS published ON true
  LEFT JOIN LATERAL (SELECT due_at FROM courier.parked
                     WHERE first.state = 'parked' AND parked.state = 'delayed' AND parked.sink = first.sink
                       AND parked.lane = first.lane AND parked.outbox_id = first.outbox_id) AS delayed ON true
), unread_by_marker AS (
  -- The first event that courier.mark() has not read, if it is among the next thousand of any kind.
  SELECT first.created_at
  FROM courier.cursor
  LEFT JOIN LATERAL (
    SELECT created_at
    FROM (SELECT id, source, created_at FROM courier.outbox
          WHERE id > greatest(cursor.from_floor, cursor.last_id) ORDER BY id LIMIT 1000) AS next
    WHERE source IN (SELECT id FROM tables_with_marks) ORDER BY next.id LIMIT 1) AS first ON true
  WHERE cursor.sink = 'courier.marks'
), awaited_by_marks AS (
  SELECT unmarked.sink, CASE WHEN unmarked.lane < 0 THEN 0 ELSE unmarked.lane END AS lane, receiver.name AS receiver,
         count(*) AS n, min(since) AS since
  FROM unmarked LEFT JOIN courier.receiver ON receiver.id = unmarked.lane AND receiver.sink = unmarked.sink
  WHERE unmarked.state <> 'retry'
  GROUP BY 1, 2, 3 ORDER BY since LIMIT 8
), failing_marks AS (
  SELECT one.name, relation_name, coalesce(trouble.since, rows.since) AS since, rows.n,
         coalesce(trouble.last_error, rows.error) AS error
  FROM tables_with_marks AS one
  LEFT JOIN courier.mark_trouble AS trouble ON trouble.source = one.id
  CROSS JOIN LATERAL (SELECT count(*) AS n, count(*) FILTER (WHERE attempts > 0) AS n_failed,
                             min(since) FILTER (WHERE attempts > 0) AS since,
                             min(last_error) FILTER (WHERE attempts > 0) AS error
                      FROM unmarked WHERE source = one.id AND state = 'retry') AS rows
  WHERE trouble.source IS NOT NULL OR rows.n_failed > 0
  ORDER BY since LIMIT 8
), unserved AS (
  -- Receivers of a sink that is not there, or has no receivers.
  SELECT sink, count(*) AS receivers, min(name) AS first
  FROM courier.receiver
  WHERE $1::json IS NOT NULL AND sink NOT IN (SELECT sink FROM asked WHERE fans_out)
    AND sink NOT IN (SELECT owners.sink FROM owners JOIN courier.sink AS noted ON noted.name = owners.sink
                     WHERE noted.fans_out)
  GROUP BY sink
), shards_of_relays AS (
  SELECT pid, cursor.sink, count(*) AS owns
  FROM locks JOIN courier.cursor ON cursor.lock_id = locks.lock_id
  WHERE is_relay AND cursor.lane <= 0
  GROUP BY pid, cursor.sink
), relays AS (
  -- Each holds a lock of its own, and in the same session those of its shards.
  SELECT member.*, (
      SELECT coalesce(json_object_agg(sink, json_build_object('shards', coalesce(noted.shards, 1), 'owns', coalesce(owns, 0))
                                      ORDER BY sink), '{}')
      FROM jsonb_object_keys(member.shards) AS served (sink)
      FULL JOIN (SELECT * FROM shards_of_relays WHERE pid = locks.pid) AS owned USING (sink)
      LEFT JOIN courier.sink AS noted ON noted.name = sink) AS sinks
  FROM courier.member JOIN locks ON locks.lock_id = (member.lock_id::bigint & 4294967295)
  WHERE is_relay ORDER BY member.name LIMIT 100
), unmarked_of_taps AS (
  -- Rows that are still to be marked, as far as the oldest of all go.
  SELECT source, count(*) AS n, min(created_at) AS oldest, sum(count(*)) OVER () < 10000 AS is_exact
  FROM unmarked
  GROUP BY source
), taps AS MATERIALIZED (
  -- Those in trouble first, then those that wait.
  SELECT taps.id, taps.name, kind, layout, done, done_when, has_marks, state, detail, remedy, CASE WHEN state = 'table_gone' THEN relation_name ELSE relation::text END AS "table",
         n, oldest, is_exact, row_number() OVER (ORDER BY state = 'ok', n DESC NULLS LAST, taps.name) AS nth
  FROM courier.attachment AS taps
  JOIN courier.tap_states() USING (id)
  LEFT JOIN unmarked_of_taps ON source = taps.id
), schedules AS (
  SELECT name, courier.schedule_timing(every, at, days, cron, time_zone) AS timing, created_at,
         CASE WHEN next_at = 'infinity' THEN 'ended' WHEN paused_at IS NOT NULL THEN 'paused'
              WHEN last_error IS NOT NULL THEN 'failing' ELSE 'active' END AS state,
         CASE WHEN next_at < 'infinity' AND paused_at IS NULL THEN next_at END AS next_at,
         last_at, last_error, skipped,
         row_number() OVER (ORDER BY last_error IS NULL, next_at, name) AS nth
  FROM courier.schedule
)
SELECT json_build_object(
  'now', courier.utc(moment.at, 3),
  'source', json_build_object(
    'database', current_database(),
    'server', CASE WHEN inet_server_addr() IS NULL THEN 'unix socket, port ' || current_setting('port')
                   ELSE host(inet_server_addr()) || ':' || inet_server_port() END,
    'address', host(inet_server_addr()),
    'port', current_setting('port')::integer,
    'server_version', current_setting('server_version'),
    'schema', (SELECT max(version) FROM courier.schema_version),
    'notify_queue_usage', pg_notification_queue_usage(),
    'sequence', (SELECT CASE WHEN trouble IS NOT NULL
                             THEN json_build_object('trouble', trouble, 'remedy', remedy) END
                 FROM courier.outbox_sequence_trouble(courier.outbox_reached())),
    'oldest_xmin', (SELECT json_build_object('age_xids', age_xids,
                      'age', round(extract(epoch FROM age)::numeric, 3), 'pid', pid, 'what', what)
                    FROM holders ORDER BY age_xids DESC, age DESC NULLS LAST LIMIT 1),
    'outbox_bytes', (SELECT sum(pg_total_relation_size(relid)) FROM tables),
    'outbox_dead_tuples', (SELECT sum(pg_stat_get_dead_tuples(relid)) FROM tables),
    'outbox_partitions', (SELECT count(*) FROM tables WHERE is_partition),
    'retention', (SELECT json_build_object(
        'held_partitions', n, 'held_bytes', bytes,
        'held_for', greatest(0, coalesce(round(extract(epoch FROM moment.at - since)::numeric, 3), 0)),
        'held_by', (SELECT coalesce(json_agg(who ORDER BY needs_it.n), '[]') FROM needs_it WHERE needs_it.n <= 8),
        'holders', (SELECT count(*) FROM needs_it),
        'lost_events', (SELECT coalesce(sum(events), 0)
                        FROM (SELECT events FROM courier.outbox_loss WHERE lost_at > moment.at - interval '1 day'
                              ORDER BY lost_at DESC LIMIT 10000) AS lost),
        'default_bytes', pg_relation_size('courier.outbox_default')) FROM held),
    'owner_pid', (SELECT min(pid) FROM owners JOIN sinks USING (sink)),
    'foreign_locks', (SELECT coalesce(json_agg(json_build_object('pid', pid, 'user', usename,
        'application_name', application_name,
        'since', courier.utc(backend_start, 3),
        'locks', n, 'sinks', coalesce(sinks, '{}'), 'maintenance', has_maintenance, 'doorbell', has_doorbell)
        ORDER BY n DESC, pid), '[]') FROM strangers)),
  'sinks', (SELECT coalesce(json_object_agg(sink, document ORDER BY sink), '{}') FROM sink_rows),
  'blocked_keys', (SELECT coalesce(json_agg(json_build_object(
      'sink', sink, 'lane', lane, 'key', key, 'waiting', waiting, 'behind_id', outbox_id,
      'since', courier.utc(first_failed_at, 3),
      'next_retry_at', courier.utc(due_at, 3),
      'error', last_error) ORDER BY waiting DESC, sink, lane, key), '[]') FROM blocked_keys),
  'orphans', (SELECT coalesce(json_agg(json_build_object('sink', sink, 'lanes', lanes, 'behind', behind,
      'settled_at', courier.utc(settled_at, 3)) ORDER BY sink), '[]')
    FROM orphans),
  'unserved', (SELECT coalesce(json_agg(json_build_object('sink', sink, 'receivers', receivers, 'first', first)
                                        ORDER BY sink), '[]') FROM unserved),
  'relays', (SELECT coalesce(json_agg(json_build_object('name', name, 'host', host, 'version', version,
      'since', courier.utc(joined_at, 3), 'weight', weight, 'is_leaving', is_leaving, 'is_drained', is_drained,
      'sinks', sinks) ORDER BY name), '[]') FROM relays),
  'schedules', json_build_object(
    'states', (SELECT coalesce(json_object_agg(state, n), '{}') FROM (SELECT state, count(*) AS n FROM schedules GROUP BY state) AS each),
    'first', (SELECT coalesce(json_agg(json_build_object('name', name, 'timing', timing,
        'state', state, 'next_at', courier.utc(next_at, 3), 'last_at', courier.utc(last_at, 3),
        'period', round(extract(epoch FROM next_at - last_at)::numeric, 3), 'skipped', skipped, 'error', last_error,
        'last_success_at', courier.utc(succeeded_at, 3),
        'unsuccessful_for', CASE WHEN state IN ('active', 'failing') THEN
          greatest(0, round(extract(epoch FROM moment.at - coalesce(succeeded_at, created_at))::numeric, 3)) END,
        'runs', runs) ORDER BY nth), '[]')
      FROM schedules,
           LATERAL (SELECT max(run.created_at) FILTER (WHERE run.state = 'delivered') AS succeeded_at,
                           coalesce(json_agg(json_build_object('id', run.outbox_id, 'at', courier.utc(run.created_at, 3),
                             'state', run.state, 'by_hand', run.run_by_hand) ORDER BY run.outbox_id DESC), '[]') AS runs
                    FROM courier.schedule_runs(name, 12) AS run) AS had
      WHERE nth <= 50)),
  'taps', json_build_object(
    'states', (SELECT coalesce(json_object_agg(state, n), '{}') FROM (SELECT state, count(*) AS n FROM taps GROUP BY state) AS each),
    'first', (SELECT coalesce(json_agg(json_build_object('id', id, 'name', name, 'kind', kind, 'table', "table",
        'layout', layout, 'done', done, 'done_when', done_when, 'state', state, 'detail', detail, 'remedy', remedy,
        'unmarked', CASE WHEN has_marks THEN json_build_object('events', coalesce(n, 0), 'is_exact', coalesce(is_exact, (SELECT bool_and(is_exact) FROM unmarked_of_taps), true),
          'oldest_age', greatest(0, coalesce(round(extract(epoch FROM moment.at - oldest)::numeric, 3), 0))) END)
        ORDER BY nth), '[]') FROM taps WHERE nth <= 200)),
  'marks', (SELECT CASE WHEN EXISTS (SELECT FROM tables_with_marks) THEN json_build_object(
      'attachments', (SELECT count(*) FROM tables_with_marks),
      'waiting', count(*), 'behind', count(*) FILTER (WHERE state = 'behind'),
      'parked', count(*) FILTER (WHERE state = 'parked'), 'retrying', count(*) FILTER (WHERE state = 'retry'),
      'counts_are_exact', count(*) < 10000,
      'dead', (SELECT count(*) FROM (SELECT FROM courier.dead_letter WHERE dead_letter.sink = 'courier.marks'
                                     LIMIT 10000) AS first),
      'oldest_age', greatest(0, coalesce(round(extract(epoch FROM moment.at - least(min(created_at),
        (SELECT created_at FROM unread_by_marker)))::numeric, 3), 0)),
      'is_behind_lanes', (SELECT EXISTS (
          SELECT FROM courier.cursor AS lane
          WHERE lane.sink <> 'courier.marks' AND NOT lane.is_owner_lane AND lane.settled_at > mine.settled_at + interval '1 min'
            AND greatest(lane.from_floor, lane.last_id) > greatest(mine.from_floor, mine.last_id))
        FROM courier.cursor AS mine WHERE mine.sink = 'courier.marks'),
      'unread_age', (SELECT greatest(0, coalesce(round(extract(epoch FROM moment.at - created_at)::numeric, 3), 0))
                     FROM unread_by_marker),
      'waits_for', (SELECT coalesce(json_agg(json_build_object('sink', sink, 'receiver', receiver, 'events', n,
          'is_there', lane IS NOT NULL,
          'since', courier.utc(since, 3)) ORDER BY awaited_by_marks.since),
          '[]') FROM awaited_by_marks),
      'failing', (SELECT coalesce(json_agg(json_build_object('attachment', name, 'table', relation_name, 'rows', n,
          'since', courier.utc(since, 3), 'error', error)
          ORDER BY failing_marks.since), '[]') FROM failing_marks)) END
    FROM unmarked))
FROM moment
