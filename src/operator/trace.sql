-- The way of one event as one JSON object; no row if nothing of it is left (used by
-- src/operator/history.c). What needs a look comes first.
--
-- $1 its number or its id  $2 so many sinks and receivers at most
WITH given AS MATERIALIZED (
  SELECT CASE WHEN $1::text ~ '^[0-9]{1,18}$' THEN $1::bigint
              WHEN $1 ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN courier.find_event($1::uuid) END AS id
), event AS MATERIALIZED (
  SELECT id, event_id, topic, type, key,
         courier.utc(created_at) AS created_at
  FROM (SELECT o.id, o.event_id, o.topic, o.type, o.key, o.created_at
        FROM courier.outbox AS o, given WHERE o.id = given.id
        UNION ALL
        SELECT p.outbox_id, p.event_id, p.topic, p.type, p.key, p.created_at
        FROM courier.parked AS p, given WHERE p.outbox_id = given.id
        UNION ALL
        SELECT d.outbox_id, d.event_id, d.topic, d.type, d.key, d.created_at
        FROM courier.dead_letter AS d, given WHERE d.outbox_id = given.id) AS left_of_it
  LIMIT 1
), way AS MATERIALIZED (
  SELECT t.*, array_position('{dead,retrying,waiting,cancelled,delivered,not_taken}', t.state) AS place
  FROM event, courier.trace(event.id) AS t
)
SELECT json_build_object(
  'event', (SELECT row_to_json(event) FROM event),
  'counts', coalesce((SELECT json_object_agg(state, n) FROM (SELECT state, count(*) AS n FROM way GROUP BY state) AS c), '{}'),
  'deliveries', coalesce((
    SELECT json_agg(row_to_json(line)) FROM (
      SELECT sink, receiver, lane, state, reason, courier.utc(at) AS at, took_ms / 1e3 AS took, status, attempts,
             courier.utc(next_at) AS next_at
      FROM way ORDER BY place, sink, receiver, lane LIMIT $2::integer) AS line), '[]'))
WHERE EXISTS (SELECT FROM event)
