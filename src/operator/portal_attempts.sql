-- The portal: attempts to deliver to the receiver of a link, the newest first (used by src/operator/portal_session.c).
-- They come in the order of their packs, so that no page leaves out what an earlier pack has of the same moment.
--
-- $1 the hash of the token  $2 the pack (when it begins, in microseconds), $3 its first event and $4 the event of the
-- last attempt of the page before; NULL: the newest  $5 failed ones only
WITH link AS MATERIALIZED (SELECT * FROM courier.find_link($1::text)),
pack AS MATERIALIZED (
  SELECT p.* FROM link CROSS JOIN LATERAL (
    SELECT * FROM courier.attempt_pack AS p
    WHERE p.lane = link.receiver AND p.sink = link.sink
      AND p.at <= coalesce('epoch'::timestamptz + $2::bigint * interval '1 us', 'infinity')
      AND ($5::boolean IS NOT TRUE OR p.outcome <> 'delivered')
    ORDER BY p.at DESC LIMIT 100) AS p
), attempt AS (
  SELECT each.id, (extract(epoch FROM p.at) * 1000000)::bigint AS pack_us, p.first_id, each.after_us, p.number, each.took_us,
         p.outcome, p.status, p.answer
  FROM pack AS p, unnest(p.ids, p.after_us, p.took_us) AS each (id, after_us, took_us)
), page AS MATERIALIZED (
  SELECT *, row_number() OVER (ORDER BY pack_us DESC, first_id DESC, id DESC) AS nth FROM attempt
  WHERE $2::bigint IS NULL OR (pack_us, first_id, id) < ($2::bigint, $3::bigint, $4::bigint)
  ORDER BY nth LIMIT 51
)
SELECT link.id, link.can_manage, link.name, link.sink, json_build_object(
  'attempts', coalesce((
    SELECT json_agg(row_to_json(line)) FROM (
      SELECT courier.utc('epoch'::timestamptz + (a.pack_us + a.after_us) * interval '1 us') AS at, a.id AS event,
             o.event_id, o.topic, o.type, a.number, a.took_us / 1e6 AS took, a.outcome, a.status,
             courier.words_for_owner(a.answer) AS answer
      FROM page AS a
      LEFT JOIN LATERAL (SELECT o.event_id, o.topic, o.type FROM courier.outbox AS o WHERE o.id = a.id LIMIT 1) AS o ON true
      WHERE a.nth <= 50 ORDER BY a.pack_us + a.after_us DESC, a.id DESC) AS line), '[]'),
  'next', (SELECT concat_ws('.', last.pack_us, last.first_id, last.id) FROM page AS last
           WHERE last.nth = 50 AND (SELECT count(*) FROM page) > 50))
FROM link
