-- The portal: what of a link's receiver is not done: events that are retried or wait behind such, and those that were
-- given up (used by src/operator/portal_session.c). What has not been tried yet waits in the outbox and is not here.
--
-- $1 the hash of the token
WITH link AS MATERIALIZED (SELECT * FROM courier.find_link($1::text)),
stays AS (
  SELECT 0 AS kind, p.position AS place, p.outbox_id AS event, p.event_id, p.topic, p.type, p.created_at,
         CASE p.state WHEN 'retry' THEN 'retrying' ELSE 'waiting' END AS state, p.attempts,
         courier.words_for_owner(p.last_error) AS error, p.last_failed_at AS at,
         CASE WHEN p.state <> 'blocked' THEN p.due_at END AS next_at
  FROM link JOIN courier.parked AS p ON p.sink = link.sink AND p.lane = link.receiver
  ORDER BY p.state = 'retry' DESC, p.position LIMIT 100
), died AS (
  SELECT 1 AS kind, -d.id AS place, d.outbox_id AS event, d.event_id, d.topic, d.type, d.created_at,
         'failed' AS state, d.attempts, courier.words_for_owner(d.error) AS error, d.died_at AS at,
         NULL::timestamptz AS next_at
  FROM link JOIN courier.dead_letter AS d ON d.sink = link.sink AND d.lane = link.receiver
  WHERE d.lane <> 0 ORDER BY d.id DESC LIMIT 100
)
SELECT link.id, link.can_manage, link.name, link.sink, json_build_object('events', coalesce((
  SELECT json_agg(row_to_json(line)) FROM (
    SELECT event, event_id, topic, type, courier.utc(created_at) AS created_at, state, attempts, error,
           courier.utc(at) AS at, courier.utc(next_at) AS next_at
    FROM (SELECT * FROM stays UNION ALL SELECT * FROM died) AS its
    ORDER BY kind, state = 'retrying' DESC, place) AS line), '[]'))
FROM link
