-- Whether the transaction ids in the outbox and its cursors mean here what they meant where they were
-- written (used by src/operator/rebase.c).
--
-- Which cluster that was does not matter. A snapshot is asked about numbers, and answers by comparing:
-- it is wrong only where a number that it knows is drawn again. So all is well if this cluster is past
-- all of them, as it is after pg_upgrade, which takes the counter along. Each frame (a snapshot with its
-- floor and xid) is also asked whether the rows that were published since stand where a reader of it looks.
WITH here AS (
  SELECT pg_current_snapshot() AS snapshot, (SELECT system_identifier FROM pg_control_system())
), frame AS (
  SELECT snapshot::pg_snapshot AS snapshot, floor, xid, bool_or(is_foreign) AS is_foreign
  FROM (
    SELECT from_snapshot::text, from_floor, from_xid, system_identifier <> (SELECT system_identifier FROM here)
    FROM courier.cursor
    UNION ALL
    SELECT until_snapshot::text, until_floor, until_xid, system_identifier <> (SELECT system_identifier FROM here)
    FROM courier.cursor WHERE until_snapshot IS NOT NULL
    UNION ALL
    -- A receiver that has no cursor yet; its row does not say in which cluster it was added.
    SELECT start_snapshot::text, start_floor, NULL, true
    FROM courier.receiver
    WHERE start = 'now' AND NOT EXISTS (SELECT FROM courier.cursor
                                        WHERE (cursor.sink, cursor.lane) = (receiver.sink, receiver.id))
  ) AS named (snapshot, floor, xid, is_foreign)
  GROUP BY named.snapshot, floor, xid
)
SELECT
  -- No transaction that is open, or yet to come, has an id that a foreign frame knows.
  NOT EXISTS (SELECT FROM frame, here
              WHERE is_foreign AND greatest(pg_snapshot_xmax(frame.snapshot), xid) > pg_snapshot_xmin(here.snapshot))
  -- No row is of the future.
  AND NOT EXISTS (SELECT FROM courier.outbox WHERE txid >= (SELECT pg_snapshot_xmax(snapshot) FROM here))
  -- No row was published since, by a transaction whose id a frame takes for one of those before it.
  AND NOT EXISTS (SELECT FROM frame JOIN courier.outbox
                  ON outbox.id > floor AND pg_visible_in_snapshot(txid, frame.snapshot))
  -- No row got an id that was drawn before: the sequence was not set back, nor is it now.
  AND NOT EXISTS (SELECT FROM frame JOIN courier.outbox ON txid >= xid AND outbox.id <= floor)
  AND (SELECT trouble IS NULL FROM courier.outbox_sequence_trouble(courier.outbox_reached()))
  -- The same of where former shards ended.
  AND NOT EXISTS (SELECT FROM here, courier.shard_end, unnest(ARRAY[from_snapshot, until_snapshot]) AS ended (at)
                  WHERE pg_snapshot_xmax(ended.at) > pg_snapshot_xmin(here.snapshot))
  AND NOT EXISTS (SELECT FROM courier.shard_end JOIN courier.outbox
                  ON outbox.id > greatest(from_floor, last_id) AND pg_visible_in_snapshot(txid, from_snapshot))
  -- Shards are divided by the hash function that is here.
  AND NOT EXISTS (SELECT FROM courier.sink
                  WHERE shards > 1 AND hash_check <> hashtextextended('pgcourier' COLLATE "C", 0))
