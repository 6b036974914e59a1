-- A receiver, and topic and type of the events that it has not read (used by
-- src/operator/receiver_rows.c).
--
-- $1 name  $2 at most so many events
--
-- What the sink takes is for its configuration to say. Where the relay noted that the sink takes
-- everything, the receiver's own patterns decide.
WITH e AS (
  SELECT receiver.*,
         coalesce(greatest(c.from_floor, c.last_id),
           CASE start WHEN 'beginning' THEN 0 ELSE start_floor END) AS above,
         coalesce(noted.settings ->> 'topics' IN ('**', '!courier.**, **')
           AND NOT noted.settings ?| '{types,headers,filter}', false) AS takes_all
  FROM courier.receiver
  LEFT JOIN courier.sink AS noted ON noted.name = receiver.sink
  LEFT JOIN courier.cursor AS c ON c.sink = receiver.sink AND c.lane = receiver.id
  WHERE receiver.name = $1::text
)
SELECT id,
       json_build_object('name', name, 'url', '', 'headers', '{}'::json, 'topics', topics,
         'types', types, 'filter', NULL, 'state', state, 'reason', state_reason)::text,
       takes_all AND filter IS NULL, NULL AS topic, NULL AS type
FROM e
UNION ALL
SELECT NULL, NULL, NULL, o.topic, o.type
FROM e, LATERAL (SELECT topic, type FROM courier.outbox WHERE outbox.id > e.above
                 ORDER BY outbox.id LIMIT $2::integer) AS o
