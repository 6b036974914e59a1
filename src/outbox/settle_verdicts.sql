-- A settle with verdicts (used by src/outbox/settle.c): the cursor, and what becomes of deliveries
-- that leave the stream or were parked. Nothing is written unless the cursor is still ours.
--
-- $1 .. $26 as for a settle without (enum cursor_param of src/outbox/settle.c, attempts)
-- $27 id        $28 kind: delivered, park, dead   $29 is_parked   $30 attempts   $31 retried_ms
-- $32 words     $33 has_failed: they are those of a failed attempt
-- $34 state     $35 due_in_ms   $36 goes_last     for park
-- $37 reason    $38 target                        for dead
--
-- A parked row is found by its primary key, verdict by verdict, however small the planner believes the
-- table to be: all conditions are joins, so there is no other way into the table; and the one on the
-- key's first column is no plain equality, so no merge can use the key's order.
WITH moved AS (
  UPDATE courier.cursor
  SET from_snapshot = $4::pg_snapshot, from_floor = $5::bigint, from_xid = $6::xid8,
      until_snapshot = $7::pg_snapshot, until_floor = $8::bigint, until_xid = $9::xid8,
      last_id = $10::bigint, settled_at = now(),
      pace = coalesce($13::courier.pace, pace)
  WHERE ctid = (SELECT coalesce(
          (SELECT ctid FROM courier.cursor
           WHERE ctid >= $12::tid AND ctid <= $11::tid AND sink = $1 AND lane = $2::integer),
          (SELECT ctid FROM courier.cursor WHERE sink = $1 AND lane = $2::integer)))
    AND epoch = $3::bigint
  RETURNING clock_timestamp() AS at, ctid AS cursor_place
), verdict AS MATERIALIZED (
  SELECT $1::text AS sink, $2::integer AS lane, id, kind, is_parked, attempts, retried_ms * interval '1 ms' AS retried_for, words,
         CASE WHEN has_failed THEN words END AS failure, CASE WHEN has_failed THEN at END AS failed_at,
         state, at + due_in_ms * interval '1 ms' AS due_at, goes_last, reason, target, at, place
  FROM moved,
       unnest($27::bigint[], $28::text[], $29::boolean[], $30::integer[], $31::bigint[],
              $32::text[], $33::boolean[], $34::text[], $35::bigint[], $36::boolean[],
              $37::text[], $38::text[]) WITH ORDINALITY
         AS given (id, kind, is_parked, attempts, retried_ms, words, has_failed, state, due_in_ms,
                   goes_last, reason, target, place)
), from_stream AS MATERIALIZED (
  SELECT verdict.*, event.*
  FROM verdict,
       LATERAL (SELECT event_id, topic, key, type, payload, data, headers, created_at, deliver_at,
                       source, source_key
                FROM courier.outbox WHERE outbox.id = verdict.id LIMIT 1) AS event
  WHERE NOT is_parked AND kind <> 'delivered'
), delayed AS MATERIALIZED (
  -- When they are due by now: those that were cancelled, never.
  SELECT until.times, until.is_open
  FROM (SELECT array_agg(event_id ORDER BY place) AS event_ids, array_agg(coalesce(deliver_at, at) ORDER BY place) AS deliver_ats
        FROM from_stream
        WHERE kind = 'park' AND state = 'delayed' HAVING count(*) > 0) AS given,
       LATERAL courier.delayed_until(given.event_ids, given.deliver_ats) AS until
), parked AS (
  -- In the order of the verdicts, because that is the order in which positions are drawn.
  INSERT INTO courier.parked (sink, lane, outbox_id, state, due_at, attempts, retried_for,
    first_error, first_failed_at, last_error, last_failed_at,
    event_id, topic, key, type, payload, data, headers, created_at, waits_until, is_unsure, source, source_key)
  SELECT sink, lane, id, state,
         CASE WHEN state <> 'delayed' THEN due_at
              WHEN (SELECT is_open FROM delayed) THEN (SELECT times FROM delayed)[nth_delayed] ELSE at END,
         attempts, retried_for, failure, failed_at, failure, failed_at,
         event_id, topic, key, type, payload, data, headers, created_at,
         CASE WHEN state = 'delayed' THEN (SELECT times FROM delayed)[nth_delayed] END,
         CASE WHEN state = 'delayed' THEN nullif(NOT (SELECT is_open FROM delayed), false) END,
         source, source_key
  FROM (SELECT *, count(*) FILTER (WHERE state = 'delayed') OVER (ORDER BY place ROWS UNBOUNDED PRECEDING) AS nth_delayed
        FROM from_stream WHERE kind = 'park') AS numbered
  WHERE state <> 'delayed' OR (SELECT times FROM delayed)[nth_delayed] IS NOT NULL
  ORDER BY place
  ON CONFLICT (sink, lane, outbox_id) DO NOTHING
  RETURNING 1
), stays AS (
  UPDATE courier.parked AS row
  SET state = verdict.state,
      due_at = CASE WHEN skip OR verdict.state = 'delayed' THEN row.due_at ELSE verdict.due_at END,
      attempts = verdict.attempts, retried_for = verdict.retried_for,
      first_error = coalesce(first_error, failure), first_failed_at = coalesce(first_failed_at, failed_at),
      last_error = coalesce(failure, last_error), last_failed_at = coalesce(failed_at, last_failed_at)
  FROM verdict
  WHERE is_parked AND kind = 'park' AND NOT goes_last
    AND row.sink = ANY (ARRAY[verdict.sink]) AND row.lane = verdict.lane AND row.outbox_id = verdict.id
  RETURNING 1
), goes_last AS (
  -- The same with a new position, which no expression can give: the sorted subquery stays outermost.
  -- It is drawn behind those of the new rows, which the count waits for.
  UPDATE courier.parked AS row
  SET position = DEFAULT,
      state = verdict.state,
      due_at = CASE WHEN skip OR verdict.state = 'delayed' THEN row.due_at ELSE verdict.due_at END,
      attempts = verdict.attempts, retried_for = verdict.retried_for,
      first_error = coalesce(first_error, failure), first_failed_at = coalesce(first_failed_at, failed_at),
      last_error = coalesce(failure, last_error), last_failed_at = coalesce(failed_at, last_failed_at)
  FROM (SELECT * FROM verdict
        WHERE is_parked AND kind = 'park' AND goes_last AND (SELECT count(*) FROM parked) >= 0
        ORDER BY place) AS verdict
  WHERE row.sink = ANY (ARRAY[verdict.sink]) AND row.lane = verdict.lane AND row.outbox_id = verdict.id
  RETURNING 1
), removed AS (
  DELETE FROM courier.parked AS row
  USING verdict
  WHERE is_parked AND kind <> 'park'
    AND row.sink = ANY (ARRAY[verdict.sink]) AND row.lane = verdict.lane AND row.outbox_id = verdict.id
  RETURNING verdict.*, first_error, first_failed_at, last_error, is_redriven,
            event_id, topic, key, type, payload, data, headers, created_at, source, source_key
), died AS (
  INSERT INTO courier.dead_letter (sink, lane, outbox_id, target, reason, attempts,
    first_error, first_failed_at, error, is_redriven,
    event_id, topic, key, type, payload, data, headers, created_at, source, source_key)
  SELECT sink, greatest(lane, 0), id, nullif(target, ''), reason, attempts, -- a shard's is that of its sink
         coalesce(first_error, failure), coalesce(first_failed_at, failed_at),
         coalesce(nullif(words, ''), last_error, ''), is_redriven,
         event_id, topic, key, type, payload, data, headers, created_at, source, source_key
  FROM (SELECT place, sink, lane, id, target, reason, attempts, first_error, failure, first_failed_at, failed_at,
               words, last_error, is_redriven,
               event_id, topic, key, type, payload, data, headers, created_at, source, source_key
        FROM removed
        WHERE kind = 'dead'
        UNION ALL
        SELECT place, sink, lane, id, target, reason, attempts, NULL, failure, NULL, failed_at,
               words, NULL, false,
               event_id, topic, key, type, payload, data, headers, created_at, source, source_key
        FROM from_stream
        WHERE kind = 'dead'
        ORDER BY place) AS dead
)
SELECT (SELECT count(*) FROM moved) AS n_moved,
       (SELECT count(*) FROM verdict WHERE is_parked OR kind <> 'delivered')
         - (SELECT count(*) FROM from_stream) - (SELECT count(*) FROM stays)
         - (SELECT count(*) FROM goes_last) - (SELECT count(*) FROM removed) AS n_missing,
       (SELECT cursor_place FROM moved) AS cursor_place,
       CASE WHEN $14::text[] IS NOT NULL THEN courier.note_attempts($14::text[], $15::integer[], $16::text[],
         $17::integer[], $18::smallint[], $19::text[], $20::integer[], $21::bigint[], $22::bigint[], $23::bigint[],
         $24::text[], $25::text[], $26::text[]) END
