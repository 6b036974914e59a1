-- The portal: one event, and what became of it at the receiver of a link (used by src/operator/portal_session.c).
-- Nothing, unless the receiver takes it, or something of it is the receiver's: then it is as if it did not exist.
--
-- $1 the hash of the token  $2 the event's number or id
WITH link AS MATERIALIZED (SELECT * FROM courier.find_link($1::text)),
given AS MATERIALIZED (
  SELECT CASE WHEN $2::text ~ '^[0-9]{1,18}$' THEN $2::bigint
              WHEN $2 ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN courier.find_event($2::uuid) END AS id
  FROM link
), stays AS MATERIALIZED (
  SELECT p.* FROM link CROSS JOIN given CROSS JOIN LATERAL (
    SELECT * FROM courier.parked AS p
    WHERE p.sink = link.sink AND p.lane = link.receiver AND p.outbox_id = given.id LIMIT 1) AS p
), died AS MATERIALIZED (
  SELECT d.* FROM link CROSS JOIN given CROSS JOIN LATERAL (
    SELECT * FROM courier.dead_letter AS d
    WHERE d.outbox_id = given.id AND d.sink = link.sink AND d.lane = link.receiver ORDER BY d.id DESC LIMIT 1) AS d
), attempt AS MATERIALIZED (
  SELECT a.* FROM link CROSS JOIN given CROSS JOIN LATERAL (
    SELECT courier.utc(p.at + each.after_us * interval '1 us') AS at, p.number, each.took_us / 1e6 AS took, p.outcome, p.status,
           courier.words_for_owner(p.answer) AS answer
    FROM courier.attempt_pack AS p, unnest(p.ids, p.after_us, p.took_us) AS each (id, after_us, took_us)
    WHERE p.lane = link.receiver AND p.sink = link.sink AND p.first_id <= given.id
      AND p.last_id BETWEEN given.id AND given.id + 9999 AND each.id = given.id
    ORDER BY p.at + each.after_us * interval '1 us' DESC LIMIT 50) AS a
), taken AS MATERIALIZED (
  SELECT t.id FROM link CROSS JOIN given CROSS JOIN LATERAL courier.events_taken(link.receiver, ARRAY[given.id]) AS t (id)
  WHERE courier.is_cancelled((SELECT o.event_id FROM courier.outbox AS o WHERE o.id = t.id)) IS NOT TRUE
  UNION SELECT given.id FROM given
  WHERE EXISTS (SELECT FROM stays) OR EXISTS (SELECT FROM died) OR EXISTS (SELECT FROM attempt)
), event AS MATERIALIZED (
  SELECT * FROM (
    SELECT 0 AS place, o.id, o.event_id, o.topic, o.type, o.key, o.payload, o.data, o.created_at, o.txid
    FROM taken CROSS JOIN LATERAL (SELECT * FROM courier.outbox AS o WHERE o.id = taken.id LIMIT 1) AS o
    UNION ALL SELECT 1, outbox_id, event_id, topic, type, key, payload, data, created_at, NULL FROM stays
    UNION ALL SELECT 2, outbox_id, event_id, topic, type, key, payload, data, created_at, NULL FROM died
    UNION ALL SELECT 3, id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM taken) AS left_of_it
  ORDER BY place LIMIT 1
)
SELECT link.id, link.can_manage, link.name, link.sink, (SELECT row_to_json(line) FROM (
  SELECT event.id AS event, event.event_id, event.topic, event.type, event.key,
         courier.utc(event.created_at) AS created_at,
         left(event.payload::text, 65536) AS payload, octet_length(coalesce(convert_to(event.payload::text, 'UTF8'), event.data)) AS payload_bytes,
         translate(encode(substring(event.data FROM 1 FOR 49152), 'base64'), E'\n', '') AS data_base64,
         CASE WHEN stays.state = 'retry' THEN 'retrying' WHEN stays.state IS NOT NULL THEN 'waiting'
              WHEN last.outcome = 'delivered' THEN 'delivered'
              WHEN died.id IS NOT NULL OR last.outcome = 'dead' THEN 'failed'
              WHEN event.txid IS NULL THEN 'delivered'
              WHEN courier.has_passed(c.from_snapshot, c.until_snapshot, c.last_id, event.id, event.txid) THEN 'delivered'
              ELSE 'waiting' END AS state,
         courier.words_for_owner(coalesce(stays.last_error, died.error)) AS error, died.reason,
         courier.utc(CASE WHEN stays.state <> 'blocked' THEN stays.due_at END) AS next_at,
         coalesce((SELECT json_agg(row_to_json(a)) FROM attempt AS a), '[]') AS attempts
  FROM event
  LEFT JOIN LATERAL (
    SELECT * FROM courier.cursor AS c WHERE c.sink = link.sink AND c.lane = link.receiver LIMIT 1) AS c ON true
  LEFT JOIN stays ON true LEFT JOIN died ON true
  LEFT JOIN (SELECT outcome FROM attempt ORDER BY at DESC LIMIT 1) AS last ON true) AS line)
FROM link
