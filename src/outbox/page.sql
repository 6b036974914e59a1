-- One page of a difference (used by src/outbox/page.c; why it is complete: docs/architecture.md).
--
-- $1 from_snapshot  $2 from_floor  $3 from_xid   everything visible there is behind us
-- $4 until_snapshot $5 until_floor               NULL: the difference ends at this statement's snapshot
-- $6 last_id        everything of the difference up to here is behind us
-- $7 max_events     $8 max_event_bytes: payloads above it come as NULL
-- $9 scan           how many ids at most one page looks at, whatever the conditions let through
--
-- What an event has to be (src/outbox/route_params.h); NULL: no such condition
-- $10 any_topic, or one of these matches:
--   $11 topics        $12 LIKE patterns
--   $13 and not $14   LIKE patterns that end within a segment, and the same beyond its end
--   $15               a regular expression
-- $16 to $20        the same five for topics that are left out
-- $21 types and     $22 a regular expression   one of these matches
-- $23 not_type      a regular expression
-- $24 header_names  $25 header_values: NULL for any
-- $26 filters       one of these is true of the payload
-- $27 asked         filters of which it is only said whether they are true
--
-- The first row is the frame: id = until_floor, frame = until_snapshot, upto = the id up to which
-- this page has looked. The others are events in the order of their ids.
WITH RECURSIVE frame AS MATERIALIZED (
  -- The statement's snapshot is taken before its first function is called: the floor is read after it.
  SELECT coalesce($4::pg_snapshot, pg_current_snapshot()) AS snapshot,
         coalesce($5::bigint, pg_sequence_last_value('courier.outbox_id_seq'::regclass), 0) AS floor
), bounds AS MATERIALIZED (
  SELECT above, least(above + $9::bigint, floor) AS upto
  FROM frame,
       LATERAL (SELECT greatest($6::bigint, $2::bigint,
                                (SELECT min(id) - 1 FROM courier.outbox)) AS above OFFSET 0) AS new
), hidden AS (
  -- A snapshot's xmax is the last completed transaction plus one: transactions at or above it may
  -- have been in progress as well, with ids below the floor. Those that wrote events, one by one
  -- through the index, so that a bulk insert among them costs one step.
  (SELECT txid FROM courier.outbox
   WHERE txid >= pg_snapshot_xmax($1::pg_snapshot) AND txid < $3::xid8
   ORDER BY txid LIMIT 1)
  UNION ALL
  SELECT (SELECT later.txid FROM courier.outbox AS later
          WHERE later.txid > hidden.txid AND later.txid < $3::xid8
          ORDER BY later.txid LIMIT 1)
  FROM hidden
  WHERE hidden.txid IS NOT NULL
), straggler AS MATERIALIZED (
  SELECT txid
  FROM (SELECT pg_snapshot_xip($1::pg_snapshot) AS txid
        UNION ALL
        SELECT txid FROM hidden WHERE txid IS NOT NULL) AS in_progress
  WHERE pg_visible_in_snapshot(txid, (SELECT snapshot FROM frame))
)
SELECT floor AS id, NULL::uuid AS event_id, NULL::text AS topic, NULL::text AS key, NULL::text AS type,
       NULL::json AS payload, NULL::bytea AS data, NULL::jsonb AS headers, NULL::timestamptz AS created_at,
       NULL::boolean AS is_delayed, snapshot::text AS frame, (SELECT upto FROM bounds) AS upto,
       NULL::integer[] AS filters
FROM frame
UNION ALL
(
  SELECT id, event_id, topic, key, type,
         CASE WHEN CASE WHEN pg_column_compression(payload) IS NULL THEN pg_column_size(payload)
                        ELSE octet_length(payload::text) END <= $8::bigint THEN payload END,
         CASE WHEN octet_length(data) <= $8::bigint THEN data END,
         headers, created_at, deliver_at > clock_timestamp(), NULL, NULL,
         CASE WHEN $27::jsonpath[] IS NOT NULL THEN courier.true_filters(payload, $27) END
  FROM (
    (
      -- New rows: their transactions got their ids after $3, so they drew event ids above $2.
      SELECT id, event_id, topic, key, type, payload, data, headers, created_at, deliver_at
      FROM courier.outbox
      WHERE id > (SELECT above FROM bounds) AND id <= (SELECT upto FROM bounds)
        AND txid >= $3::xid8
        AND pg_visible_in_snapshot(txid, (SELECT snapshot FROM frame))
        AND ($10::boolean OR topic = ANY ($11::text[]) OR topic LIKE ANY ($12::text[])
             OR topic LIKE ANY ($13::text[]) AND NOT topic LIKE ANY ($14::text[]) OR topic ~ $15::text)
        AND (topic = ANY ($16::text[]) OR topic LIKE ANY ($17::text[])
             OR topic LIKE ANY ($18::text[]) AND NOT topic LIKE ANY ($19::text[]) OR topic ~ $20::text) IS NOT TRUE
        AND ($21::text[] IS NULL OR type = ANY ($21) OR type ~ $22::text)
        AND ($23::text IS NULL OR type !~ $23)
        AND ($24::text[] IS NULL OR NOT EXISTS (
              SELECT FROM unnest($24, $25::text[]) AS condition (name, value)
              WHERE (headers ? name AND (value IS NULL OR headers ->> name = value)) IS NOT TRUE))
        AND ($26::jsonpath[] IS NULL OR courier.true_filters(payload, $26) <> '{}')
      ORDER BY id LIMIT $7::integer
    )
    UNION ALL
    (
      -- Stragglers: in progress at from_snapshot, committed since, however small their ids. The row
      -- comparisons are what makes the planner use the index on (txid, id), from the right place.
      SELECT one.*
      FROM straggler,
           LATERAL (SELECT id, event_id, topic, key, type, payload, data, headers, created_at, deliver_at
                    FROM courier.outbox
                    WHERE (outbox.txid, outbox.id) > (straggler.txid, $6::bigint)
                      AND (outbox.txid, outbox.id) <= (straggler.txid, (SELECT upto FROM bounds))
                      AND ($10::boolean OR topic = ANY ($11::text[]) OR topic LIKE ANY ($12::text[])
                           OR topic LIKE ANY ($13::text[]) AND NOT topic LIKE ANY ($14::text[]) OR topic ~ $15::text)
                      AND (topic = ANY ($16::text[]) OR topic LIKE ANY ($17::text[])
                           OR topic LIKE ANY ($18::text[]) AND NOT topic LIKE ANY ($19::text[]) OR topic ~ $20::text) IS NOT TRUE
                      AND ($21::text[] IS NULL OR type = ANY ($21) OR type ~ $22::text)
                      AND ($23::text IS NULL OR type !~ $23)
                      AND ($24::text[] IS NULL OR NOT EXISTS (
                            SELECT FROM unnest($24, $25::text[]) AS condition (name, value)
                            WHERE (headers ? name AND (value IS NULL OR headers ->> name = value)) IS NOT TRUE))
                      AND ($26::jsonpath[] IS NULL OR courier.true_filters(payload, $26) <> '{}')
                    ORDER BY outbox.txid, outbox.id LIMIT $7::integer) AS one
      ORDER BY id LIMIT $7::integer
    )
    ORDER BY id LIMIT $7::integer
  ) AS page
)
