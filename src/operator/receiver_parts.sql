-- What a test request to a receiver is made of (used by src/operator/receiver_rows.c): rows of
-- part, name, value and sink, with every secret that still signs, the newest first.
--
-- $1 name
WITH e AS (SELECT * FROM courier.receiver WHERE name = $1::text)
SELECT part, name, value, sink FROM (
  SELECT 0 AS n, 'event_id' AS part, NULL AS name, gen_random_uuid()::text AS value, sink FROM e
  UNION ALL SELECT 1, 'url', NULL, url, sink FROM e
  UNION ALL SELECT 2, 'secret', NULL, secret, sink FROM e
  UNION ALL SELECT 2 + n, 'secret', NULL, old, sink
  FROM e, unnest(old_secrets) WITH ORDINALITY AS old (old, n)
  WHERE old_secrets_until > clock_timestamp()
  UNION ALL SELECT 100, 'header', key, value, sink FROM e, jsonb_each_text(headers)
) AS parts ORDER BY n, name
