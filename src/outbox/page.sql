-- One page of a difference (used by src/outbox/page.c; why it is complete: docs/architecture.md).
--
-- A page asks for what its lane needs and no more: lines between "--if NAME" and "--end" are there
-- only then, and so are $conditions (src/outbox/page_text.c). What is left out costs nothing, neither
-- for each event nor for each page, and that is most of what an idle look costs.
--
--   opening      the difference ends at this statement's own snapshot, which shows just what is in it
--   going_on     it was opened before: what was committed since is not in it
--   defined      rows above $above may be in from_snapshot: each is asked whether it is, which is what a
--                difference is by its definition. Without, all rows above it are of the difference, if only
--                they are visible
--   shards       of each event it is told which shard of the sink it is of
--   stragglers   those of $stragglers are named, because they may have rows far below $above; those above
--                it are found like any other
--
-- $last_id   everything of the difference up to here is behind us
-- $above     the same, but for rows of $stragglers: the id after which the page looks at row by row
-- $upto      no page looks at more ids than up to here
-- $cell      that these ids are within certain constants: the planner leaves out the other partitions
-- $straggler_floor  no row of a straggler is at or below it: which partitions are looked at
-- $max_events, $max_event_bytes: payloads above it come as NULL
--
-- An event that was published with a time ahead is told as delayed whatever the time is now: only the claim
-- of a parked row sees whether it was cancelled (sql/0017_waiting.sql).
--
-- An opening page's first row is the frame: id = its floor, and its snapshot and xid. The others are
-- events in the order of their ids.
--if opening
-- The statement's snapshot is taken before its first function is called: the floor is read after it.
-- The xid, which is the next one, is read after both: age() tells it without drawing one. It tells the
-- same until the transaction ends, so each look has to be a transaction of its own (src/pg/pg_conn.c).
-- The sequence's value is read before its settings, as in courier.outbox_floor(), which says why; and
-- which is called where something is wrong, to tell what.
SELECT floor AS id, NULL::uuid AS event_id, NULL::text AS topic, NULL::text AS key, NULL::text AS type,
       NULL::json AS payload, NULL::bytea AS data, NULL::jsonb AS headers, NULL::timestamptz AS created_at,
       NULL::integer AS source, NULL::boolean AS is_delayed, snapshot::text AS frame,
       pg_snapshot_xmax(snapshot)::text::bigint + age(pg_snapshot_xmax(snapshot)::xid) AS xid
--if shards
       , NULL::integer AS shard
--end
FROM (SELECT snapshot,
             CASE WHEN last_id >= $from_floor::bigint
                       AND pg_sequence_parameters('courier.outbox_id_seq'::regclass)
                           = ROW(1::bigint, 1::bigint, 9223372036854775807, 1::bigint, false, 1::bigint, 20::oid)
                  THEN last_id
                  ELSE courier.outbox_floor($from_floor::bigint) END AS floor
      FROM (SELECT pg_current_snapshot() AS snapshot,
                   coalesce(pg_sequence_last_value('courier.outbox_id_seq'::regclass), 0) AS last_id
            OFFSET 0) AS value
      OFFSET 0) AS frame
UNION ALL
(
--end
SELECT id, event_id, topic, key, type,
       CASE WHEN CASE WHEN pg_column_compression(payload) IS NULL THEN pg_column_size(payload)
                      ELSE octet_length(payload::text) END <= $max_event_bytes::bigint THEN payload END,
       CASE WHEN octet_length(data) <= $max_event_bytes::bigint THEN data END,
       headers, created_at, source, CASE WHEN deliver_at IS NOT NULL THEN deliver_at > created_at END
--if opening
       , NULL::text, NULL::bigint
--end
--if shards
       , courier.shard_of(key, $n_shards::integer, id)
--end
--if stragglers
FROM (
  (
    SELECT id, event_id, topic, key, type, payload, data, headers, created_at, source, deliver_at
--end
    FROM courier.outbox
    WHERE id > $above::bigint AND id <= $upto::bigint
      $cell
--if defined
      AND NOT pg_visible_in_snapshot(txid, $from_snapshot::pg_snapshot)
--end
--if going_on
      AND pg_visible_in_snapshot(txid, $until_snapshot::pg_snapshot)
--end
      $conditions
    ORDER BY id LIMIT $max_events::integer
--if stragglers
  )
  UNION ALL
  (
    -- In progress at from_snapshot, committed since, however small their ids; the rows of those that
    -- still are in progress are not looked at. A snapshot's xmax is the last completed transaction plus
    -- one: transactions at or above it may have been in progress as well, with ids below the floor. The
    -- row comparisons are what makes the planner use the index on (txid, id), from the right place.
    SELECT one.*
    FROM unnest($stragglers::xid8[]) AS straggler (txid),
         LATERAL (SELECT id, event_id, topic, key, type, payload, data, headers, created_at, source, deliver_at
                  FROM courier.outbox
                  WHERE (outbox.txid, outbox.id) > (straggler.txid, $last_id::bigint)
                    AND (outbox.txid, outbox.id) <= (straggler.txid, $above::bigint)
                    AND outbox.id > $straggler_floor::bigint
                    $conditions
                  ORDER BY outbox.txid, outbox.id LIMIT $max_events::integer) AS one
--if opening
    WHERE pg_visible_in_snapshot(straggler.txid, pg_current_snapshot())
--end
--if going_on
    WHERE pg_visible_in_snapshot(straggler.txid, $until_snapshot::pg_snapshot)
--end
    ORDER BY id LIMIT $max_events::integer
  )
  ORDER BY id LIMIT $max_events::integer
) AS page
--end
--if opening
)
--end
