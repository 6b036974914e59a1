-- How far one event has come at one sink or receiver (used by src/operator/history.c).
--
-- $1 sink  $2 its receiver, or 0  $3 id  $4 xid  $5 when its transaction had committed
--
-- All in one snapshot: a delivery that leaves courier.parked turns up in courier.dead_letter in the same
-- moment, and the cursor moves in the transaction that parks.
SELECT round(extract(epoch FROM clock_timestamp() - $5::timestamptz) * 1000),
       c.lane IS NOT NULL,
       courier.has_passed(c.from_snapshot, c.until_snapshot, c.last_id, $3::bigint, $4::xid8)
         OR $2 <= 0 AND courier.had_passed($1, its.key, $3, $4),
       EXISTS (SELECT FROM courier.lane_owner AS o WHERE o.sink = $1 AND o.lane = its.owner_lane),
       pause.by, pause.reason,
       parked.state, parked.attempts, to_char(parked.due_at AT TIME ZONE 'UTC', 'HH24:MI:SS'), parked.last_error,
       dead.id, dead.reason, dead.error
FROM (SELECT coalesce((SELECT shards FROM courier.sink WHERE name = $1), 1) AS shards,
             (SELECT key FROM courier.outbox WHERE outbox.id = $3::bigint LIMIT 1) AS key) AS noted
CROSS JOIN LATERAL (SELECT noted.key, courier.shard_lane(
  CASE WHEN $2::integer > 0 THEN courier.shard_of(NULL, noted.shards, $2)
       ELSE courier.shard_of(noted.key, noted.shards, $3) END, noted.shards) AS owner_lane) AS its
CROSS JOIN LATERAL (SELECT CASE WHEN $2 > 0 THEN $2 ELSE its.owner_lane END AS lane) AS one
LEFT JOIN courier.cursor AS c ON c.sink = $1 AND c.lane = one.lane
LEFT JOIN courier.parked AS parked
  ON parked.sink = $1 AND parked.lane = one.lane AND parked.outbox_id = $3
LEFT JOIN LATERAL (SELECT id, reason, error FROM courier.dead_letter AS d
                   WHERE d.sink = $1 AND d.lane = $2 AND d.outbox_id = $3
                   ORDER BY id DESC LIMIT 1) AS dead ON true
LEFT JOIN LATERAL (SELECT by, reason FROM courier.pause AS p WHERE p.sink = $1
                   ORDER BY by LIMIT 1) AS pause ON true
