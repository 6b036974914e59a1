-- When the lanes of a sink have something parked that is due (used by src/outbox/parked.c): in how many
-- milliseconds the first of each; 0: it is.
--
-- $1 sink
--
-- The index leads from one lane to the next, and to its first: what waits behind it is not looked at.
WITH RECURSIVE lanes AS (
  (SELECT lane FROM courier.parked WHERE sink = $1 AND (state <> 'blocked' OR skip)
   ORDER BY lane LIMIT 1)
  UNION ALL
  SELECT (SELECT lane FROM courier.parked
          WHERE sink = $1 AND parked.lane > lanes.lane AND (state <> 'blocked' OR skip)
          ORDER BY lane LIMIT 1)
  FROM lanes WHERE lanes.lane IS NOT NULL
)
SELECT lanes.lane,
       CASE WHEN first.due_at <= clock_timestamp() THEN 0
            ELSE ceil(extract(epoch FROM first.due_at - clock_timestamp()) * 1000)::bigint END
FROM lanes,
     LATERAL (SELECT due_at FROM courier.parked
              WHERE sink = $1 AND parked.lane = lanes.lane AND (state <> 'blocked' OR skip)
              ORDER BY due_at LIMIT 1) AS first
WHERE lanes.lane IS NOT NULL AND first.due_at < 'infinity'
