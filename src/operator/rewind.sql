-- Moves cursors back to an id (used by src/operator/history.c).
--
-- $1 sink  $2 a receiver, 0: the sink's own lanes, NULL: all  $3 the first id to be delivered again
--
-- A cursor says: everything visible in `from` is behind us, and of the difference up to `until`
-- everything up to last_id. So a difference from a snapshot that sees nothing up to one whose events
-- we have had, with last_id just below $3, is what is wanted: all of those events with an id from $3
-- on come again, and when the difference is through, the lane goes on at its end as if nothing had
-- been.
--
-- Where that difference ends is the trap. At a snapshot of today it would be wrong: what was
-- committed since the lane last looked, with an id below $3, would count as behind us, though it was
-- never delivered (an id is drawn before its transaction commits, so a late commit has a low one).
-- It has to end at a snapshot that the lane itself has worked through:
--
--   no difference is open             at `from`: all that is visible there was delivered
--   one is open, and $3 is within     at its `until`: what was not delivered of it has ids above
--   what was delivered of it          last_id, and so from $3 on
--   one is open, and $3 is beyond     at `from` again: the open one is given up and comes once more
--   last_id
--
-- An id that the lane has not reached would be no way back: those cursors stay as they are.
--
-- Where former shards of the sink ended is forgotten: they had the events behind them that are to come again.
--
-- The epoch is raised as by a new owner: settles of a relay that still takes itself for the owner
-- change nothing.
WITH ended AS (
  DELETE FROM courier.shard_end WHERE sink = $1 AND coalesce($2::integer, 0) = 0
)
UPDATE courier.cursor
SET epoch = was.epoch + 1,
    from_snapshot = '1:1:', from_floor = 0, from_xid = '3',
    until_snapshot = CASE WHEN is_within THEN was.until_snapshot ELSE was.from_snapshot END,
    until_floor = CASE WHEN is_within THEN was.until_floor ELSE was.from_floor END,
    until_xid = CASE WHEN is_within THEN was.until_xid ELSE was.from_xid END,
    last_id = $3::bigint - 1,
    settled_at = now()
FROM (SELECT *, coalesce(until_snapshot IS NOT NULL AND $3::bigint - 1 <= last_id, false) AS is_within
      FROM courier.cursor
      WHERE sink = $1 AND ($2 IS NULL OR lane = $2 OR lane < 0 AND $2 = 0) FOR UPDATE) AS was
WHERE cursor.sink = was.sink AND cursor.lane = was.lane
  AND (is_within OR $3::bigint - 1 < was.from_floor)
RETURNING 1
