-- The receivers of a sink, as receiver_read() takes them (used by src/outbox/receiver.c).
--
-- $1 sink  $2 the digest of the last answer: if it still holds, no receivers come
--
-- The first row is the digest. A receiver's version differs whenever its row does, and when its old
-- secrets cease to sign.
WITH known AS NOT MATERIALIZED (
  SELECT *, hashtextextended(id || ':' || xmin || ':'
              || coalesce(old_secrets_until > clock_timestamp(), false), 0) AS version
  FROM courier.receiver WHERE sink = $1
), digest AS MATERIALIZED (
  SELECT coalesce(sum(version), 0)::text || '/' || count(*) AS text FROM known
)
SELECT NULL AS id, NULL AS version, (SELECT text FROM digest) AS row
UNION ALL (
  SELECT id, version,
         json_build_object('name', name, 'url', url,
           'secrets', secret || CASE WHEN old_secrets_until > clock_timestamp()
                                     THEN old_secrets ELSE '{}' END,
           'headers', headers, 'topics', topics, 'types', types, 'filter', filter::text,
           'start_snapshot', CASE WHEN start = 'now' THEN start_snapshot::text END,
           'start_floor', start_floor, 'concurrency', concurrency,
           'rate', rate, 'burst', burst, 'state', state, 'reason', state_reason,
           'failing_for', floor(extract(epoch FROM clock_timestamp() - failing_since)
                                * 1000)::bigint)::text
  FROM known
  WHERE $2 IS DISTINCT FROM (SELECT text FROM digest) ORDER BY id)
