-- Makes every cursor and every event speak this cluster's language (used by src/outbox/rebase.c).
--
-- After a dump was restored elsewhere, the transaction ids in the outbox and in the cursors are
-- those of another cluster. What they say is still right among themselves: which events each lane
-- has behind it. That is written down anew with small transaction ids that this cluster has long
-- passed: 3 for events that no lane waits for, and one more for each set of lanes that waits for the
-- same events. A lane's snapshot then has those in its list that it waits for.
CREATE TEMPORARY TABLE rebased ON COMMIT DROP AS
SELECT id, lanes, 3 + dense_rank() OVER (ORDER BY lanes) AS txid
FROM (
  SELECT outbox.id, array_agg(cursor.lock_id ORDER BY cursor.lock_id) AS lanes
  FROM courier.outbox
  JOIN courier.cursor
    -- No id visible in a snapshot is above its floor: what is, was published here since the restore,
    -- whatever the snapshot of the other cluster says of its transaction id.
    ON (outbox.id > cursor.from_floor
        OR NOT pg_visible_in_snapshot(outbox.txid, cursor.from_snapshot))
   AND (cursor.until_snapshot IS NULL
        OR outbox.id > cursor.last_id
        OR NOT pg_visible_in_snapshot(outbox.txid, cursor.until_snapshot))
  GROUP BY outbox.id
) AS awaited;

ALTER TABLE rebased ADD PRIMARY KEY (id);

UPDATE courier.outbox
SET txid = (coalesce((SELECT rebased.txid FROM rebased WHERE rebased.id = outbox.id), 3))::text::xid8;

WITH classes AS (
  SELECT DISTINCT txid, lanes FROM rebased
), bound AS (
  SELECT coalesce(max(txid), 3) + 1 AS next FROM classes
), rewritten AS (
  SELECT cursor.lock_id, bound.next,
         coalesce(min(classes.txid), bound.next) AS first,
         coalesce(string_agg(classes.txid::text, ',' ORDER BY classes.txid), '') AS xip
  FROM bound CROSS JOIN courier.cursor
  LEFT JOIN classes ON cursor.lock_id = ANY (classes.lanes)
  GROUP BY cursor.lock_id, bound.next
)
UPDATE courier.cursor
SET epoch = epoch + 1,
    system_identifier = (SELECT system_identifier FROM pg_control_system()),
    from_snapshot = (first || ':' || next || ':' || xip)::pg_snapshot,
    from_floor = coalesce(pg_sequence_last_value('courier.outbox_id_seq'::regclass), 0),
    from_xid = next::text::xid8,
    until_snapshot = NULL, until_floor = NULL, until_xid = NULL, last_id = 0,
    settled_at = now()
FROM rewritten
WHERE rewritten.lock_id = cursor.lock_id;

-- What was noted of full partitions is of the other cluster's ids, too: it is noted again.
UPDATE courier.outbox_partition SET closed_xid = NULL;

-- Receivers that nobody has delivered to yet begin here.
UPDATE courier.endpoint
SET start_snapshot = pg_current_snapshot(),
    start_floor = coalesce(pg_sequence_last_value('courier.outbox_id_seq'::regclass), 0)
WHERE NOT EXISTS (SELECT FROM courier.cursor WHERE cursor.sink = endpoint.sink AND cursor.lane = endpoint.id);
