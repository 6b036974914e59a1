-- A page of receivers, those in trouble first (used by src/operator/receiver_rows.c). What waits is counted
-- for those of the page only.
--
-- $1 sink  $2 a text that the name or the description contains  $3 active, paused, disabled or failing
-- $4 at most so many  $5 after so many. NULL: any, all, none
WITH chosen AS MATERIALIZED (
  SELECT r.id, count(*) OVER () AS total,
         row_number() OVER (ORDER BY
           CASE WHEN r.state = 'active' AND r.failing_since IS NOT NULL THEN 0
                WHEN r.state = 'disabled' THEN 1
                WHEN r.state = 'paused' THEN 2
                WHEN EXISTS (SELECT FROM courier.parked AS p
                             WHERE p.sink = r.sink AND p.lane = r.id AND p.state = 'retry') THEN 3
                ELSE 4 END,
           r.sink, r.name) AS place
  FROM courier.receiver AS r
  WHERE ($1::text IS NULL OR r.sink = $1)
    AND ($2::text IS NULL OR strpos(lower(r.name), lower($2)) > 0 OR strpos(lower(r.description), lower($2)) > 0)
    AND ($3::text IS NULL OR r.state = $3 AND r.state <> 'active'
         OR r.state = 'active' AND $3 = CASE WHEN r.failing_since IS NULL THEN 'active' ELSE 'failing' END)
  ORDER BY place LIMIT $4::bigint OFFSET coalesce($5::bigint, 0)
)
SELECT (SELECT row_to_json(line) FROM (
         SELECT s.sink, s.name, s.lane, s.state, s.state_reason, courier.utc(s.state_since) AS state_since,
                courier.utc(s.failing_since) AS failing_since, courier.utc(s.last_delivered_at) AS last_delivered_at,
                s.rate, s.p50, s.p99, courier.utc(s.last_failed_at) AS last_failed_at, s.last_status, s.last_error,
                s.waiting, s.waiting_is_exact, courier.utc(s.waiting_since) AS waiting_since, s.retrying,
                courier.utc(s.next_at) AS next_at, s.blocked, s.blocked_keys, s.delayed, s.dead, s.is_served, s.url,
                s.topics, s.types, s.filter, s.rate_limit, s.burst, s.concurrency, s.start, s.description,
                courier.utc(s.created_at) AS created_at) AS line), chosen.total, s.name, s.sink,
       CASE WHEN s.state = 'active' AND s.failing_since IS NOT NULL THEN 'failing' ELSE s.state END,
       courier.utc(CASE WHEN s.state = 'active' THEN s.failing_since ELSE s.state_since END, 0),
       courier.utc(s.last_delivered_at, 0),
       CASE WHEN s.waiting_is_exact THEN '' ELSE '~' END || s.waiting,
       s.retrying, s.dead, array_to_string(s.topics, ','), s.url,
       coalesce(s.state_reason,
         CASE WHEN s.failing_since IS NOT NULL OR s.retrying > 0 THEN s.last_error END,
         CASE WHEN NOT s.is_served THEN 'no relay serves its sink' END)
FROM chosen -- one by one: the view as a whole would count what waits for all
CROSS JOIN LATERAL (SELECT * FROM courier.receiver_status AS one WHERE one.lane = chosen.id OFFSET 0) AS s
ORDER BY chosen.place
