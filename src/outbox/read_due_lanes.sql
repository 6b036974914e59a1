-- The lanes of a sink that have something parked which is due (used by src/outbox/parked.c).
--
-- $1 sink
--
-- The index leads from one lane to the next: what waits for later is not looked at.
WITH RECURSIVE lanes AS (
  (SELECT lane FROM courier.parked WHERE sink = $1 AND (state <> 'blocked' OR skip)
   ORDER BY lane LIMIT 1)
  UNION ALL
  SELECT (SELECT lane FROM courier.parked
          WHERE sink = $1 AND parked.lane > lanes.lane AND (state <> 'blocked' OR skip)
          ORDER BY lane LIMIT 1)
  FROM lanes WHERE lanes.lane IS NOT NULL
)
SELECT lane FROM lanes
WHERE lane IS NOT NULL AND EXISTS (
  SELECT FROM courier.parked
  WHERE sink = $1 AND parked.lane = lanes.lane AND (state <> 'blocked' OR skip)
    AND due_at <= clock_timestamp())
