-- The portal: how the receiver of a link is, for its owner (used by src/operator/portal_session.c). No reason of a
-- pause, which the operator wrote for himself.
--
-- $1 the hash of the token  $2 the reason of a pause that its owner made
WITH link AS MATERIALIZED (SELECT * FROM courier.find_link($1::text))
SELECT link.id, link.can_manage, link.name, link.sink, (SELECT row_to_json(line) FROM (
  SELECT s.name, s.url, s.topics, s.types, s.state, s.state_since, s.failing_since, s.created_at,
         s.state = 'paused' AND s.state_reason IS NOT DISTINCT FROM $2::text AS is_paused_by_owner,
         NOT s.is_served OR EXISTS (SELECT FROM courier.pause AS p WHERE p.sink = link.sink) AS is_held,
         s.waiting + s.blocked + s.delayed AS waiting, s.waiting_is_exact,
         least(s.waiting_since, (SELECT min(p.parked_at) FROM courier.parked AS p
                                 WHERE p.sink = link.sink AND p.lane = link.receiver)) AS waiting_since,
         s.retrying, s.next_at, s.dead, s.last_delivered_at, s.rate, s.p50, s.p99,
         s.last_failed_at, s.last_status, courier.words_for_owner(s.last_error) AS last_error,
         CASE WHEN r.old_secrets_until > now() AND r.old_secrets <> '{}' THEN r.old_secrets_until END AS old_secret_until,
         link.expires_at) AS line)
FROM link
CROSS JOIN LATERAL (SELECT * FROM courier.receiver_status AS one
                    WHERE one.lane = link.receiver OFFSET 0) AS s
JOIN courier.receiver AS r ON r.id = link.receiver
