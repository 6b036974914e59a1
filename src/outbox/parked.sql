-- Claims parked deliveries (used by src/outbox/parked.c).
--
-- $1 sink  $2 lane
-- $3 keys      the first rows of each of these, in order, whatever is due
-- $4 claimed   the ids of rows that the lane holds already
-- $5 max_rows of the keys, and again of those that are due
-- $6 max_rows of one key
-- $7 max_bytes of payload of each of the two; the first row comes whatever its size
--
-- A row that is marked to be skipped gets a new due_at, too: due rows are found by their time alone, so
-- that waiting ones, however many they are, are never read.
--
-- The last row says how long nothing more will be due: id in milliseconds; 0: more is due now; -1:
-- nothing waits. The others are deliveries: those of the keys, then those that are due.
WITH now AS MATERIALIZED (
  SELECT clock_timestamp() AS at
), of_keys AS MATERIALIZED (
  SELECT outbox_id, row_number() OVER so_far AS nth, sum(bytes) OVER so_far AS bytes_so_far
  FROM unnest($3::text[]) WITH ORDINALITY AS asked (key, place),
       LATERAL (SELECT outbox_id, position,
                       CASE WHEN data IS NOT NULL THEN octet_length(data)
                            WHEN pg_column_compression(payload) IS NULL THEN pg_column_size(payload)
                            ELSE octet_length(payload::text) END AS bytes
                FROM courier.parked
                WHERE sink = $1 AND lane = $2::integer AND parked.key = asked.key AND state <> 'delayed'
                  AND outbox_id NOT IN (SELECT unnest($4::bigint[]))
                ORDER BY position LIMIT $6::integer) AS first
  WINDOW so_far AS (ORDER BY place, position ROWS UNBOUNDED PRECEDING)
  ORDER BY place, position LIMIT $5::integer
), of_keys_cut AS MATERIALIZED (
  SELECT outbox_id, nth FROM of_keys WHERE nth = 1 OR bytes_so_far <= $7::bigint
), has_delayed AS MATERIALIZED (
  SELECT EXISTS (
    SELECT FROM (SELECT state FROM courier.parked
                 WHERE sink = $1 AND lane = $2::integer AND (state <> 'blocked' OR skip)
                   AND due_at <= (SELECT at FROM now)
                   AND outbox_id NOT IN (SELECT unnest($4::bigint[]) UNION ALL SELECT outbox_id FROM of_keys_cut)
                 ORDER BY due_at, position LIMIT $5::integer + 1) AS first
    WHERE state = 'delayed') AS is_any
), due AS MATERIALIZED (
  -- One more than may come tells whether there are more.
  SELECT outbox_id, nth, nth <= $5::integer AND (nth = 1 OR bytes_so_far <= $7::bigint) AS comes
  FROM (SELECT outbox_id, row_number() OVER so_far AS nth, sum(bytes) OVER so_far AS bytes_so_far
        FROM (SELECT outbox_id, due_at, position,
                     CASE WHEN data IS NOT NULL THEN octet_length(data)
                          WHEN pg_column_compression(payload) IS NULL THEN pg_column_size(payload)
                          ELSE octet_length(payload::text) END AS bytes
              FROM courier.parked
              WHERE sink = $1 AND lane = $2::integer AND (state <> 'blocked' OR skip)
                AND due_at <= (SELECT at FROM now)
                AND outbox_id NOT IN (SELECT unnest($4::bigint[]) UNION ALL SELECT outbox_id FROM of_keys_cut)
                AND NOT (SELECT is_any FROM has_delayed)
              ORDER BY due_at, position LIMIT $5::integer + 1) AS first
        WINDOW so_far AS (ORDER BY due_at, position ROWS UNBOUNDED PRECEDING)) AS counted
  UNION ALL
  -- Delayed ones may have been cancelled, or moved.
  SELECT outbox_id, nth, comes
  FROM courier.claim_due($1, $2::integer, (SELECT at FROM now),
         $4::bigint[] || ARRAY(SELECT outbox_id FROM of_keys_cut), $5::integer, $7::bigint)
  WHERE (SELECT is_any FROM has_delayed)
)
SELECT parked.*
FROM (SELECT 1 AS part, nth, outbox_id FROM of_keys_cut
      UNION ALL
      SELECT 2, nth, outbox_id FROM due WHERE comes
      ORDER BY part, nth) AS chosen,
     LATERAL (SELECT outbox_id AS id, event_id, topic, key, type, payload, data, headers, created_at, source,
                     state, attempts, (extract(epoch FROM retried_for) * 1000)::bigint AS retried_ms,
                     skip, is_redriven
              FROM courier.parked
              WHERE sink = $1 AND lane = $2::integer AND outbox_id = chosen.outbox_id
              LIMIT 1) AS parked
UNION ALL
SELECT CASE WHEN EXISTS (SELECT FROM due WHERE NOT comes AND outbox_id IS NOT NULL) THEN 0
            ELSE coalesce(least(
              (SELECT nth FROM due WHERE outbox_id IS NULL),
              (SELECT greatest(0, ceil(extract(epoch FROM due_at - clock_timestamp()) * 1000))::bigint
               FROM courier.parked
               WHERE sink = $1 AND lane = $2::integer AND (state <> 'blocked' OR skip)
                 AND due_at > (SELECT at FROM now) AND due_at < 'infinity'
               ORDER BY due_at LIMIT 1)), -1) END,
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
