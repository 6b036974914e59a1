-- The portal: the newest events of the outbox that the receiver of a link takes (used by
-- src/operator/portal_session.c). A page is made of a thousand events at most, so that it costs no more where few of
-- them are its own. Each table is asked by an index: LATERAL with LIMIT leaves the planner no other way.
--
-- $1 the hash of the token  $2 below this event; NULL: from the newest on
WITH link AS MATERIALIZED (SELECT * FROM courier.find_link($1::text)),
seen AS MATERIALIZED (
  SELECT o.id, o.deliver_at IS NOT NULL AND courier.is_cancelled(o.event_id) AS is_cancelled FROM link CROSS JOIN LATERAL (
    SELECT id, event_id, deliver_at FROM courier.outbox WHERE id < coalesce($2::bigint, 9223372036854775807) ORDER BY id DESC LIMIT 1000) AS o
), died AS MATERIALIZED (
  SELECT d.outbox_id FROM link CROSS JOIN LATERAL (
    SELECT d.outbox_id FROM courier.dead_letter AS d
    WHERE d.sink = link.sink AND d.lane = link.receiver AND d.lane <> 0 ORDER BY d.id DESC LIMIT 1000) AS d
), taken AS MATERIALIZED (
  SELECT id FROM (
    SELECT t.id FROM link CROSS JOIN LATERAL courier.events_taken(link.receiver, ARRAY(SELECT id FROM seen WHERE NOT is_cancelled)) AS t (id)
    UNION SELECT p.outbox_id FROM link CROSS JOIN LATERAL (
      SELECT p.outbox_id FROM courier.parked AS p
      WHERE p.sink = link.sink AND p.lane = link.receiver AND p.outbox_id = ANY (ARRAY(SELECT id FROM seen))
      LIMIT 1000) AS p
    UNION SELECT seen.id FROM seen WHERE seen.id IN (SELECT outbox_id FROM died)
  ) AS its (id) ORDER BY id DESC LIMIT 51
), page AS (
  SELECT id FROM taken ORDER BY id DESC LIMIT 50
)
SELECT link.id, link.can_manage, link.name, link.sink, json_build_object(
  'events', coalesce((
    SELECT json_agg(row_to_json(line)) FROM (
      SELECT o.id AS event, o.event_id, o.topic, o.type, courier.utc(o.created_at) AS created_at,
             CASE WHEN p.state = 'retry' THEN 'retrying' WHEN p.state IS NOT NULL THEN 'waiting'
                  WHEN d.error IS NOT NULL THEN 'failed'
                  WHEN courier.has_passed(c.from_snapshot, c.until_snapshot, c.last_id, o.id, o.txid) THEN 'delivered'
                  ELSE 'waiting' END AS state,
             coalesce(p.attempts, d.attempts) AS attempts,
             courier.words_for_owner(coalesce(p.last_error, d.error)) AS error,
             courier.utc(CASE WHEN p.state <> 'blocked' THEN p.due_at END) AS next_at
      FROM page
      CROSS JOIN LATERAL (SELECT * FROM courier.outbox AS o WHERE o.id = page.id LIMIT 1) AS o
      LEFT JOIN LATERAL (
        SELECT * FROM courier.cursor AS c WHERE c.sink = link.sink AND c.lane = link.receiver LIMIT 1) AS c ON true
      LEFT JOIN LATERAL (
        SELECT * FROM courier.parked AS p
        WHERE p.sink = link.sink AND p.lane = link.receiver AND p.outbox_id = page.id LIMIT 1) AS p ON true
      LEFT JOIN LATERAL (
        SELECT d.error, d.attempts FROM courier.dead_letter AS d
        WHERE d.outbox_id = page.id AND d.sink = link.sink AND d.lane = link.receiver ORDER BY d.id DESC LIMIT 1) AS d ON true
      ORDER BY o.id DESC) AS line), '[]'),
  'next', CASE WHEN (SELECT count(*) FROM taken) > 50 THEN (SELECT min(id) FROM page)
               WHEN (SELECT count(*) FROM seen) = 1000 THEN (SELECT min(id) FROM seen) END)
FROM link
