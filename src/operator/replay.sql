-- Parks copies of events for a lane (used by src/operator/history.c): delayed, as a redriven dead letter,
-- so that each takes its place behind its key when it is due.
--
-- $1 sink  $2 its receiver, or 0  $3 the ids  $4 microseconds from one event to the next
--
-- Positions are drawn in the order of the ids; columns of type json keep their bytes. The rows are
-- marked as redriven, and a header tells that they were replayed.
INSERT INTO courier.parked (sink, lane, outbox_id, state, due_at, is_redriven,
  event_id, topic, key, type, payload, data, headers, created_at, source, source_key)
SELECT $1, courier.lane_to_park($1, $2::integer, o.key, o.id), o.id, 'delayed',
       statement_timestamp() + (given.nth - 1) * $4::bigint * interval '1 microsecond', true,
       o.event_id, o.topic, o.key, o.type, o.payload, o.data,
       coalesce(o.headers, '{}') || '{"replayed": "true"}', o.created_at, o.source, o.source_key
FROM unnest($3::bigint[]) WITH ORDINALITY AS given (id, nth)
JOIN courier.outbox AS o ON o.id = given.id
ORDER BY given.nth
ON CONFLICT ON CONSTRAINT parked_pkey DO NOTHING
RETURNING 1
