-- The story of one receiver with its newest attempts, as one JSON object; no row if there is none (used by
-- src/operator/receiver_rows.c).
--
-- $1 name  $2 so many attempts at most  $3 with secrets, and with all of its URL and headers
SELECT (SELECT row_to_json(line) FROM (
  SELECT s.sink, s.name, s.lane, s.description, CASE WHEN $3::boolean THEN r.url ELSE s.url END AS url,
         CASE WHEN $3 THEN r.headers
              ELSE coalesce((SELECT jsonb_object_agg(key, '...') FROM jsonb_each(r.headers)), '{}') END AS headers,
         s.topics, s.types, s.filter, s.start, s.concurrency, s.rate_limit, s.burst,
         s.state, s.state_reason, courier.utc(s.state_since) AS state_since,
         courier.utc(s.failing_since) AS failing_since, s.is_served,
         courier.utc(s.last_delivered_at) AS last_delivered_at, s.rate, s.p50, s.p99,
         courier.utc(s.last_failed_at) AS last_failed_at, s.last_status, s.last_error,
         waiting.events AS waiting, waiting.is_exact AS waiting_is_exact,
         courier.utc(waiting.since) AS waiting_since,
         s.retrying, courier.utc(s.next_at) AS next_at, s.blocked, s.blocked_keys, s.delayed, s.dead,
         courier.utc(s.created_at) AS created_at,
         CASE WHEN $3 THEN r.secret END AS secret, CASE WHEN $3 THEN r.old_secrets END AS old_secrets,
         courier.utc(r.old_secrets_until) AS old_secrets_until,
         coalesce((
           SELECT json_agg(row_to_json(a)) FROM (
             SELECT courier.utc(a.at) AS at, a.outbox_id, o.event_id, o.topic, o.key, o.type, a.number, a.took_us / 1e6 AS took,
                    a.outcome, a.status, a.answer
             FROM courier.newest_attempts(r.id, $2::integer) AS a
             LEFT JOIN LATERAL (SELECT event_id, topic, key, type FROM courier.outbox WHERE outbox.id = a.outbox_id LIMIT 1)
               AS o ON true
             ORDER BY a.at DESC) AS a), '[]') AS attempts) AS line)
FROM courier.receiver AS r
CROSS JOIN LATERAL (SELECT * FROM courier.receiver_status AS one WHERE one.lane = r.id OFFSET 0) AS s
CROSS JOIN LATERAL courier.waiting(r.sink, r.id, 100000) AS waiting
WHERE r.name = $1::text
