-- The portal: how the receiver of a link is, for its owner (used by src/operator/portal_session.c). No reason of a
-- pause, which the operator wrote for himself.
--
-- $1 the hash of the token  $2 the reason of a pause that its owner made
WITH link AS MATERIALIZED (SELECT * FROM courier.find_link($1::text))
SELECT link.id, link.can_manage, link.name, link.sink, (SELECT row_to_json(line) FROM (
  SELECT s.name, s.url, s.topics, s.types, s.state, courier.utc(s.state_since) AS state_since,
         courier.utc(s.failing_since) AS failing_since, courier.utc(s.created_at) AS created_at,
         s.state = 'paused' AND s.state_reason IS NOT DISTINCT FROM $2::text AS is_paused_by_owner,
         NOT s.is_served OR EXISTS (SELECT FROM courier.pause AS p WHERE p.sink = link.sink) AS is_held,
         s.waiting + s.blocked + s.delayed AS waiting, s.waiting_is_exact,
         courier.utc(least(s.waiting_since, (SELECT min(p.parked_at) FROM courier.parked AS p
                                 WHERE p.sink = link.sink AND p.lane = link.receiver))) AS waiting_since,
         s.retrying, courier.utc(s.next_at) AS next_at, s.dead,
         courier.utc(s.last_delivered_at) AS last_delivered_at, s.rate, s.p50, s.p99,
         courier.utc(s.last_failed_at) AS last_failed_at, s.last_status, courier.words_for_owner(s.last_error) AS last_error,
         courier.utc(CASE WHEN r.old_secrets_until > now() AND r.old_secrets <> '{}' THEN r.old_secrets_until END)
           AS old_secret_until,
         courier.utc(link.expires_at) AS expires_at) AS line)
FROM link
CROSS JOIN LATERAL (SELECT * FROM courier.receiver_status AS one
                    WHERE one.lane = link.receiver OFFSET 0) AS s
JOIN courier.receiver AS r ON r.id = link.receiver
