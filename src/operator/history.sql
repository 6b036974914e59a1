-- A page of the events that a lane has passed (used by src/operator/history.c): an event that it has not
-- passed is not replayed, because it would come twice, and out of order.
--
-- $1 sink  $2 its receiver, or 0  $3 above this id  $4 up to this one  $9 at most so many
-- NULL: any  $5 created from  $6 created until  $7 a pattern of topics  $8 key
SELECT o.id, o.topic, o.type, o.headers::text
FROM (SELECT coalesce((SELECT shards FROM courier.sink WHERE name = $1), 1) AS shards,
             EXISTS (SELECT FROM courier.shard_end WHERE sink = $1) AS was_divided) AS noted
CROSS JOIN courier.outbox AS o
JOIN courier.cursor AS c
  ON c.sink = $1
     AND c.lane = CASE WHEN $2::integer > 0 THEN $2
                       ELSE courier.shard_lane(courier.shard_of(o.key, noted.shards, o.id), noted.shards) END
WHERE o.id > $3::bigint AND o.id <= $4::bigint
  AND (courier.has_passed(c.from_snapshot, c.until_snapshot, c.last_id, o.id, o.txid)
       OR noted.was_divided AND $2 <= 0 AND courier.had_passed($1, o.key, o.id, o.txid))
  AND ($5::timestamptz IS NULL OR o.created_at >= $5)
  AND ($6::timestamptz IS NULL OR o.created_at <= $6)
  AND ($7::text IS NULL OR courier.pattern_matches($7, o.topic))
  AND ($8::text IS NULL OR o.key = $8)
  AND NOT (o.deliver_at IS NOT NULL AND courier.is_cancelled(o.event_id))
ORDER BY o.id LIMIT $9::integer
