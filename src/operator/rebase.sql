-- Makes every cursor and every event speak this cluster's language (used by src/operator/rebase.c).
--
-- After a dump was restored elsewhere, the transaction ids in the outbox and in the cursors are
-- those of another cluster. What they say is still right among themselves: which events each lane
-- has behind it. That is written down anew with small transaction ids: 3 for events that no lane waits
-- for, and one more for each set of lanes that waits for the same events. A lane's snapshot then has
-- those in its list that it waits for. No transaction may get one of these ids later: rebase.c sees to it.
--
-- A receiver that has no cursor yet gets the one that its row says it begins with.
INSERT INTO courier.cursor (sink, lane, system_identifier, from_snapshot, from_floor, from_xid)
SELECT sink, id, 0, start_snapshot, start_floor, '3' FROM courier.receiver
WHERE start = 'now'
ON CONFLICT DO NOTHING;

-- The shards of a sink whose hash function has another outcome here take each other's keys: all go back to where the
-- furthest behind of them opened its difference.
UPDATE courier.cursor
SET from_snapshot = first.from_snapshot, from_floor = first.from_floor, from_xid = first.from_xid,
    until_snapshot = NULL, until_floor = NULL, until_xid = NULL, last_id = 0
FROM (
  SELECT DISTINCT ON (cursor.sink) cursor.*
  FROM courier.cursor JOIN courier.sink ON sink.name = cursor.sink
  WHERE lane < 0 AND NOT is_owner_lane AND hash_check <> hashtextextended('pgcourier' COLLATE "C", 0)
  ORDER BY cursor.sink, pg_snapshot_xmax(from_snapshot), (SELECT count(*) FROM pg_snapshot_xip(from_snapshot)) DESC
) AS first
WHERE cursor.sink = first.sink AND cursor.lane < 0;

SELECT courier.move_parked(name, shards) FROM courier.sink;

DELETE FROM courier.shard_end USING courier.sink
WHERE name = shard_end.sink AND hash_check <> hashtextextended('pgcourier' COLLATE "C", 0);

UPDATE courier.sink SET hash_check = DEFAULT WHERE hash_check <> hashtextextended('pgcourier' COLLATE "C", 0);

-- A lane of a shard waits here for the events of all shards of its sink, so that one of two snapshots always shows
-- less than the other: courier.divide_sink() goes by that. What former shards had behind them none waits for, and so
-- they are forgotten.
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
  WHERE cursor.lane > 0 OR NOT EXISTS (
    SELECT FROM courier.shard_end AS ended
    WHERE ended.sink = cursor.sink AND ended.number = courier.shard_of(outbox.key, ended.shards, outbox.id)
      AND outbox.id <= greatest(ended.from_floor, ended.last_id)
      AND courier.has_passed(ended.from_snapshot, ended.until_snapshot, ended.last_id, outbox.id, outbox.txid))
  GROUP BY outbox.id
) AS awaited;

DELETE FROM courier.shard_end;

ALTER TABLE rebased ADD PRIMARY KEY (id);

-- The sequence as the schema has it, above all that it had reached: it may have been set back.
DO $$
DECLARE
  reached bigint := greatest(courier.outbox_reached(), pg_sequence_last_value('courier.outbox_id_seq'::regclass));
BEGIN
  EXECUTE format('ALTER SEQUENCE courier.outbox_id_seq AS bigint INCREMENT 1 MINVALUE 1 NO MAXVALUE'
                 ' CACHE 1 NO CYCLE RESTART WITH %s', reached + 1);
  IF reached > 0 THEN
    PERFORM setval('courier.outbox_id_seq', reached);
  END IF;
END
$$;

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
    from_floor = courier.outbox_floor(),
    from_xid = next::text::xid8,
    until_snapshot = NULL, until_floor = NULL, until_xid = NULL, last_id = 0,
    settled_at = now()
FROM rewritten
WHERE rewritten.lock_id = cursor.lock_id;

-- What was noted of full partitions is of the other cluster's ids, too: it is noted again.
UPDATE courier.outbox_partition SET closed_xid = NULL;
