-- How far one event has come at one sink or receiver (used by src/operator/history.c).
--
-- $1 sink  $2 lane  $3 id  $4 xid  $5 when its transaction had committed
--
-- All in one snapshot: a delivery that leaves courier.parked turns up in courier.dead_letter in the same
-- moment, and the cursor moves in the transaction that parks.
SELECT round(extract(epoch FROM clock_timestamp() - $5::timestamptz) * 1000),
       c.lane IS NOT NULL,
       courier.has_passed(c.from_snapshot, c.until_snapshot, c.last_id, $3::bigint, $4::xid8),
       EXISTS (SELECT FROM courier.lane_owner AS o WHERE o.sink = $1 AND o.lane IN (0, $2::integer)),
       pause.by, pause.reason,
       parked.state, parked.attempts, to_char(parked.due_at AT TIME ZONE 'UTC', 'HH24:MI:SS'), parked.last_error,
       dead.id, dead.reason, dead.error
FROM (VALUES (1)) AS one
LEFT JOIN courier.cursor AS c ON c.sink = $1 AND c.lane = $2::integer
LEFT JOIN courier.parked AS parked
  ON parked.sink = $1 AND parked.lane = $2::integer AND parked.outbox_id = $3::bigint
LEFT JOIN LATERAL (SELECT id, reason, error FROM courier.dead_letter AS d
                   WHERE d.sink = $1 AND d.lane = $2::integer AND d.outbox_id = $3::bigint
                   ORDER BY id DESC LIMIT 1) AS dead ON true
LEFT JOIN LATERAL (SELECT by, reason FROM courier.pause AS p WHERE p.sink = $1
                   ORDER BY by LIMIT 1) AS pause ON true
