-- The portal: sends one event to the receiver of a link once more (used by src/operator/portal_session.c): one that was
-- given up, as a redriven dead letter, or one of the outbox that was delivered, as a replay. One that waits is on its
-- way already. Columns of type json keep their bytes.
--
-- $1 the hash of the token  $2 the event's number
WITH link AS MATERIALIZED (SELECT * FROM courier.find_link($1::text)),
died AS MATERIALIZED (
  SELECT d.* FROM link CROSS JOIN LATERAL (
    SELECT * FROM courier.dead_letter AS d
    WHERE d.outbox_id = $2::bigint AND d.sink = link.sink AND d.lane = link.receiver ORDER BY d.id LIMIT 1 FOR UPDATE) AS d
  WHERE link.can_manage
), taken AS MATERIALIZED (
  SELECT t.id FROM link CROSS JOIN LATERAL courier.events_taken(link.receiver, ARRAY[$2::bigint]) AS t (id)
  UNION SELECT each.id FROM link CROSS JOIN LATERAL (
    SELECT each.id FROM courier.attempt_pack AS p, unnest(p.ids) AS each (id)
    WHERE p.lane = link.receiver AND p.sink = link.sink AND p.first_id <= $2::bigint
      AND p.last_id BETWEEN $2::bigint AND $2::bigint + 9999 AND each.id = $2::bigint LIMIT 1) AS each
), passed AS MATERIALIZED (
  SELECT o.* FROM link
  JOIN taken ON link.can_manage AND NOT EXISTS (SELECT FROM died)
  CROSS JOIN LATERAL (SELECT * FROM courier.outbox AS o WHERE o.id = taken.id LIMIT 1) AS o
  CROSS JOIN LATERAL (
    SELECT * FROM courier.cursor AS c WHERE c.sink = link.sink AND c.lane = link.receiver LIMIT 1) AS c
  WHERE courier.has_passed(c.from_snapshot, c.until_snapshot, c.last_id, o.id, o.txid)
    AND NOT courier.is_cancelled(o.event_id)
), moved AS (
  INSERT INTO courier.parked (sink, lane, outbox_id, state, due_at, first_error, first_failed_at, last_error, last_failed_at,
                              is_redriven, event_id, topic, key, type, payload, data, headers, created_at, source, source_key)
  SELECT link.sink, link.receiver, d.outbox_id, 'delayed', statement_timestamp(), coalesce(d.first_error, d.error),
         coalesce(d.first_failed_at, d.died_at), d.error, d.died_at, true,
         d.event_id, d.topic, d.key, d.type, d.payload, d.data, d.headers, d.created_at, d.source, d.source_key
  FROM link CROSS JOIN died AS d
  UNION ALL
  SELECT link.sink, link.receiver, o.id, 'delayed', statement_timestamp(), NULL, NULL, NULL, NULL, true,
         o.event_id, o.topic, o.key, o.type, o.payload, o.data, coalesce(o.headers, '{}') || '{"replayed": "true"}',
         o.created_at, o.source, o.source_key
  FROM link CROSS JOIN passed AS o
  ON CONFLICT ON CONSTRAINT parked_pkey DO NOTHING
  RETURNING outbox_id
), removed AS (
  DELETE FROM courier.dead_letter USING died, moved
  WHERE dead_letter.id = died.id AND moved.outbox_id = died.outbox_id
), told AS MATERIALIZED (
  SELECT pg_notify('courier_control', '') FROM moved
)
SELECT link.id, link.can_manage, link.name, link.sink,
       CASE WHEN (SELECT count(*) FROM told) > 0 THEN json_build_object('resent', true)
            WHEN EXISTS (SELECT FROM taken) OR EXISTS (SELECT FROM died)
              OR EXISTS (SELECT FROM courier.parked AS p
                         WHERE p.sink = link.sink AND p.lane = link.receiver AND p.outbox_id = $2::bigint)
              THEN json_build_object('refused', 'this event is on its way already') END
FROM link
