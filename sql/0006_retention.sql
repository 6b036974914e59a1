-- pgcourier schema, version 6: the partitions of the outbox, made ahead and dropped when they have expired.
--
-- Rows are never deleted one by one: a partition is dropped as a whole, when it is old enough and no
-- lane needs it. Why that cannot lose an event: docs/architecture.md.

-- What courier.maintain() knows of each partition but the default one.
--
-- closed_xid: a transaction id drawn after the sequence had passed the partition. Transactions with a
-- higher one draw higher ids; when all with a lower one have ended, the partition changes no more.
CREATE TABLE courier.outbox_partition (
  name       name        NOT NULL,
  lower      bigint      NOT NULL,
  upper      bigint      NOT NULL,
  began_at   timestamptz,
  closed_at  timestamptz,
  closed_xid xid8,
  emptied_at timestamptz,
  held_by    text[],
  held_since timestamptz,

  CONSTRAINT outbox_partition_pkey PRIMARY KEY (name),
  CONSTRAINT outbox_partition_lower_key UNIQUE (lower)
);
COMMENT ON TABLE courier.outbox_partition
  IS 'The partitions of courier.outbox; written by courier.maintain()';
COMMENT ON COLUMN courier.outbox_partition.upper IS 'The first id above it';
COMMENT ON COLUMN courier.outbox_partition.began_at IS 'When its first id was seen to be drawn';
COMMENT ON COLUMN courier.outbox_partition.closed_at
  IS 'When its last id was seen to be drawn: its youngest event is older';
COMMENT ON COLUMN courier.outbox_partition.emptied_at
  IS 'Its rows are gone; the table goes when a lock can be had';
COMMENT ON COLUMN courier.outbox_partition.held_by
  IS 'What needed it when it had expired: sinks, receivers as sink/lane, or a transaction';

INSERT INTO courier.outbox_partition (name, lower, upper)
VALUES ('outbox_p1', 1, 1000001), ('outbox_p1000001', 1000001, 5000001);

-- Events that were dropped although a lane had not had them, because of retention_max.
CREATE TABLE courier.outbox_loss (
  sink      text        NOT NULL,
  lane      integer     NOT NULL,
  partition name        NOT NULL,
  lower     bigint      NOT NULL,
  upper     bigint      NOT NULL,
  events    bigint      NOT NULL,
  lost_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX outbox_loss_lost_at_idx ON courier.outbox_loss (lost_at);
COMMENT ON TABLE courier.outbox_loss
  IS 'Events dropped by retention_max before a sink had them; rows may be deleted at any time';
COMMENT ON COLUMN courier.outbox_loss.events
  IS 'How many dropped events the lane had not read, of any topic';

-- All lanes that read the log, and from where. A receiver that was never served begins at the
-- snapshot of its row; one that begins with whatever is there needs nothing in particular.
CREATE VIEW courier.outbox_reader AS
  SELECT sink, lane, system_identifier, from_snapshot, until_snapshot, last_id, from_floor
  FROM courier.cursor WHERE NOT is_owner_lane
  UNION ALL
  SELECT e.sink, e.id, NULL, e.start_snapshot, NULL, 0, e.start_floor
  FROM courier.receiver AS e
  WHERE e.start = 'now' AND e.start_snapshot IS NOT NULL
    AND NOT EXISTS (SELECT FROM courier.cursor AS c WHERE c.sink = e.sink AND c.lane = e.id);
COMMENT ON VIEW courier.outbox_reader IS 'The lanes that read the outbox, and how far each has durably come';

-- The lanes that still need events of a closed partition, and how many events, if they are to be counted.
-- Of most lanes the snapshots alone show that they have passed it; for the others the partition is read,
-- by the index on (txid, id).
CREATE FUNCTION courier.outbox_needs(p courier.outbox_partition, are_counted boolean)
RETURNS TABLE (sink text, lane integer, events bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  here   bigint := (SELECT system_identifier FROM pg_control_system());
  reader record;
BEGIN
  FOR reader IN
    SELECT r.*, CASE WHEN r.lane < 0 THEN s.shards END AS shards, -- of a shard those of its keys
           r.lane <= 0 AND EXISTS (SELECT FROM courier.shard_end AS e WHERE e.sink = r.sink) AS was_divided
    FROM courier.outbox_reader AS r LEFT JOIN courier.sink AS s ON s.name = r.sink
  LOOP
    sink := reader.sink;
    lane := reader.lane;
    IF reader.system_identifier <> here THEN -- its snapshots mean nothing here: pgcourier rebase
      events := NULL;
      RETURN NEXT;
      CONTINUE;
    END IF;
    CONTINUE WHEN pg_snapshot_xmin(reader.from_snapshot) >= p.closed_xid;
    CONTINUE WHEN reader.last_id >= p.upper - 1 AND pg_snapshot_xmin(reader.until_snapshot) >= p.closed_xid;
    EXECUTE format(
      'SELECT count(*) FROM (SELECT FROM courier.%I WHERE txid >= pg_snapshot_xmin($1)'
      ' AND NOT courier.has_passed($1, $2, $3, id, txid)'
      ' AND ($5 IS NULL OR courier.shard_of(key, $5, id) = -1 - $6)'
      ' AND NOT ($7 AND courier.had_passed($8, key, id, txid)) LIMIT $4) AS needed', p.name)
      INTO events
      USING reader.from_snapshot, reader.until_snapshot, reader.last_id, CASE WHEN NOT are_counted THEN 1 END,
            reader.shards, reader.lane, reader.was_divided, reader.sink;
    IF events > 0 THEN
      RETURN NEXT;
    END IF;
  END LOOP;
END
$$;
COMMENT ON FUNCTION courier.outbox_needs(courier.outbox_partition, boolean)
  IS 'The lanes that still need events of a closed partition';

-- The same for people, to whom the shards of a sink are lane 0.
CREATE FUNCTION courier.outbox_holders(p courier.outbox_partition, are_counted boolean)
RETURNS TABLE (sink text, lane integer, events bigint)
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT n.sink, greatest(n.lane, 0), sum(n.events)::bigint FROM courier.outbox_needs(p, are_counted) AS n
  GROUP BY 1, 2 ORDER BY 1, 2
$$;
COMMENT ON FUNCTION courier.outbox_holders(courier.outbox_partition, boolean)
  IS 'The sinks and receivers that still need events of a closed partition';

-- Notes which partitions the sequence has entered and passed since the last time. A transaction id
-- is good for closed_xid only if it is drawn after the sequence was read.
CREATE FUNCTION courier.outbox_close_partitions() RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  had_xid boolean := pg_current_xact_id_if_assigned() IS NOT NULL;
  -- What is full stays so: an id that was drawn again would come into an expired partition.
  last_id bigint  := courier.outbox_floor((SELECT max(upper) - 1 FROM courier.outbox_partition
                                           WHERE closed_xid IS NOT NULL));
BEGIN
  IF NOT had_xid THEN
    UPDATE courier.outbox_partition AS p
      SET closed_xid = pg_current_xact_id(),
          closed_at = coalesce(p.closed_at, clock_timestamp()), began_at = coalesce(p.began_at, clock_timestamp())
      WHERE p.upper - 1 <= last_id
        -- One that is yet to come is of another cluster: the database was restored from a dump.
        AND (p.closed_xid IS NULL OR p.closed_xid >= pg_snapshot_xmax(pg_current_snapshot()));
  END IF;
  UPDATE courier.outbox_partition AS p SET began_at = clock_timestamp()
    WHERE p.lower <= last_id AND p.began_at IS NULL;
  RETURN last_id;
END
$$;
COMMENT ON FUNCTION courier.outbox_close_partitions()
  IS 'Notes which partitions are full; returns the last id that was drawn';

-- Waits for the transactions that have added a receiver or moved a cursor and not committed: what they
-- need cannot be seen yet. False if that takes too long. Transactions that begin later see what is visible
-- now, so the lock is released at once.
CREATE FUNCTION courier.outbox_await_readers() RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  LOCK TABLE courier.receiver, courier.cursor IN SHARE MODE;
  RAISE EXCEPTION USING ERRCODE = 'CX000'; -- takes the lock back
EXCEPTION
  WHEN SQLSTATE 'CX000' THEN
    RETURN true;
  WHEN lock_not_available THEN
    RETURN false;
END
$$;
COMMENT ON FUNCTION courier.outbox_await_readers()
  IS 'Waits for transactions that have added a receiver or moved a cursor';

-- How many ids the next partition shall take: about an eighth of what is drawn in `keep`, as far as
-- that can be told from the partitions that are there, and no more than four times the current one.
CREATE FUNCTION courier.outbox_next_width(keep interval, last_id bigint, at_least bigint, at_most bigint) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT greatest(at_least, (SELECT least(at_most,
    4 * (SELECT c.upper - c.lower FROM courier.outbox_partition AS c
         WHERE c.lower <= last_id ORDER BY c.lower DESC LIMIT 1),
    (last_id - o.lower) / greatest(1, extract(epoch FROM clock_timestamp() - o.began_at))
      * extract(epoch FROM greatest(keep, '10 minutes')) / 8)
    FROM courier.outbox_partition AS o WHERE o.began_at IS NOT NULL ORDER BY o.lower LIMIT 1)::bigint)
$$;
COMMENT ON FUNCTION courier.outbox_next_width(interval, bigint, bigint, bigint)
  IS 'How many ids the next partition takes';

-- Makes the next two partitions, as far as they are missing and as it may, and returns their names.
--
-- A statement goes on with the partitions that it knew when it began: an event whose id belongs to one
-- that was made meanwhile would be refused. So either no statement runs just now, or it is
-- an hour at least, at the pace of the current partition, before the ids of the new one are drawn:
-- attaching it needs no lock that writers would wait for.
CREATE FUNCTION courier.outbox_make_partitions(keep interval, least_width bigint, most_width bigint, is_locked boolean)
RETURNS name[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  made    name[] := '{}';
  last_id bigint := coalesce(pg_sequence_last_value('courier.outbox_id_seq'::regclass), 0);
  width   bigint := courier.outbox_next_width(keep, last_id, least_width, most_width);
  n_ahead integer;
  first   bigint;
  made_as name;
BEGIN
  LOOP
    SELECT count(*), greatest(last_id + 1, (SELECT max(upper) FROM courier.outbox_partition))
      INTO n_ahead, first FROM courier.outbox_partition WHERE lower > last_id;
    EXIT WHEN n_ahead >= 2 OR NOT (is_locked OR EXISTS (
      SELECT FROM courier.outbox_partition AS c WHERE c.lower <= last_id AND c.upper > last_id AND c.upper < first
        AND (first - last_id) * extract(epoch FROM clock_timestamp() - c.began_at) >= 3600 * (last_id - c.lower + 1)));
    made_as := 'outbox_p' || first;
    EXECUTE format('CREATE TABLE courier.%I (LIKE courier.outbox INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', made_as);
    EXECUTE format('ALTER TABLE courier.outbox ATTACH PARTITION courier.%I FOR VALUES FROM (%s) TO (%s)',
      made_as, first, first + width);
    INSERT INTO courier.outbox_partition (name, lower, upper) VALUES (made_as, first, first + width);
    made := made || made_as;
  END LOOP;
  RETURN made;
EXCEPTION
  -- A session reads the default partition; or the sequence was faster.
  WHEN lock_not_available OR check_violation THEN
    RETURN '{}';
END
$$;
COMMENT ON FUNCTION courier.outbox_make_partitions(interval, bigint, bigint, boolean)
  IS 'Makes partitions ahead';

-- Rows of the default partition: it becomes an ordinary one, and an empty one takes its place. To be
-- called while no other session can use the outbox. False if its rows do not fit into one partition.
CREATE FUNCTION courier.outbox_replace_default() RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  last_id bigint := coalesce(pg_sequence_last_value('courier.outbox_id_seq'::regclass), 0);
  first   bigint := (SELECT coalesce(max(upper), 1) FROM courier.outbox_partition);
BEGIN
  IF last_id < first THEN
    RETURN false;
  END IF;
  ALTER TABLE courier.outbox DETACH PARTITION courier.outbox_default;
  EXECUTE format('ALTER TABLE courier.outbox_default RENAME TO %I', 'outbox_p' || first);
  EXECUTE format('ALTER TABLE courier.outbox ATTACH PARTITION courier.%I FOR VALUES FROM (%s) TO (%s)',
    'outbox_p' || first, first, last_id + 1);
  CREATE TABLE courier.outbox_default PARTITION OF courier.outbox DEFAULT;
  INSERT INTO courier.outbox_partition (name, lower, upper, began_at)
    VALUES ('outbox_p' || first, first, last_id + 1, clock_timestamp());
  RETURN true;
EXCEPTION
  WHEN check_violation THEN
    RETURN false;
END
$$;
COMMENT ON FUNCTION courier.outbox_replace_default()
  IS 'Makes an ordinary partition of the default one';

-- Makes partitions ahead and drops expired ones, and returns what it did:
--
--   made      a partition for ids that are to come; or of the default one, that had rows
--   dropped   an expired partition; bytes, and how many ids it was for
--   emptied   the same, but its table goes later, because the outbox is in use just now
--   lost      events of a partition that retention_max dropped, of a lane that had not had them
--   held      a partition that has expired, but is needed
--   waits     there is more to do, but the outbox is in use just now
--   expired   a partition of courier.attempt was dropped
--   stray     rows of the default partition whose ids were not drawn from the sequence
--
-- retention: events are kept for so long at least. retention_max: and for so long at most, even if a lane
-- needs them; 0: as long as a lane does. While one call runs, others return at once.
--
-- Dropping partitions takes a lock that excludes all other use of the outbox. The call waits for it no
-- longer than lock_wait_ms (ten times that, when no partition is ahead), because all later statements
-- queue behind it. An expired partition can be emptied without the lock, and the next one made, so that
-- transactions that stay open for long do no harm.
CREATE FUNCTION courier.maintain(
  retention     interval DEFAULT '7 days',
  retention_max interval DEFAULT '0',
  least_width   bigint   DEFAULT 1000000,
  most_width    bigint   DEFAULT 1000000000,
  lock_wait_ms  integer  DEFAULT 100
) RETURNS TABLE (action text, name name, lower bigint, upper bigint, bytes bigint,
                 sink text, lane integer, events bigint, held_by text[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  p         courier.outbox_partition;
  holder    record;
  losses    courier.outbox_loss[] := '{}';
  loss      courier.outbox_loss;
  ended     courier.outbox_partition[] := '{}';
  gone      name[] := '{}';
  made      name[] := '{}';
  last_id   bigint;
  n_ahead   bigint;
  oldest    xid8;
  are_readers_known boolean;
  age       interval;
  holders   text[];
  is_dropped boolean;
  is_locked boolean := false;
  is_spilled boolean;
  has_strays boolean := false;
BEGIN
  IF retention IS NULL OR retention < '0' OR retention_max IS NULL OR retention_max < '0'
     OR (retention_max > '0' AND retention_max < retention) THEN
    RAISE EXCEPTION 'invalid retention % or retention_max %', quote_nullable(retention::text),
        quote_nullable(retention_max::text)
      USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Neither may be negative, and retention_max must be 0 or at least retention';
  END IF;
  IF (least_width >= 10 AND most_width >= least_width AND lock_wait_ms BETWEEN 1 AND 10000) IS NOT TRUE THEN
    RAISE EXCEPTION 'invalid least_width %, most_width % or lock_wait_ms %', least_width, most_width, lock_wait_ms
      USING ERRCODE = 'invalid_parameter_value', HINT = 'least_width must be at least 10, most_width at least least_width, and lock_wait_ms from 1 to 10000';
  END IF;
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'courier.maintain() needs isolation level read committed'
      USING ERRCODE = 'invalid_transaction_state', HINT = 'Begin the transaction with: BEGIN ISOLATION LEVEL READ COMMITTED';
  END IF;
  IF NOT pg_try_advisory_xact_lock(1668248946, -1) THEN
    RETURN;
  END IF;
  PERFORM set_config('lock_timeout', lock_wait_ms::text, true);
  last_id := courier.outbox_close_partitions();

  -- Which partitions have expired, and what needs them. In this order: a receiver that is added after the
  -- oldest transaction was looked for sees all that older ones wrote; one that was added before is waited
  -- for.
  oldest := pg_snapshot_xmin(pg_current_snapshot());
  are_readers_known := NOT EXISTS (
    SELECT FROM courier.outbox_partition AS o
    WHERE o.closed_xid IS NOT NULL AND o.emptied_at IS NULL AND clock_timestamp() - o.closed_at >= retention)
    OR courier.outbox_await_readers();
  FOR p IN SELECT * FROM courier.outbox_partition AS o WHERE o.closed_xid IS NOT NULL ORDER BY o.lower LOOP
    age := clock_timestamp() - p.closed_at;
    CONTINUE WHEN age < retention AND p.emptied_at IS NULL;
    IF p.emptied_at IS NOT NULL THEN
      ended := ended || p;
      CONTINUE;
    END IF;
    holders := '{}';
    IF oldest < p.closed_xid THEN
      holders := ARRAY['a transaction that has not ended'];
    ELSIF NOT are_readers_known THEN
      holders := ARRAY['a transaction that has changed receivers or cursors'];
    END IF;
    FOR holder IN SELECT * FROM courier.outbox_holders(p, retention_max > '0' AND age >= retention_max) LOOP
      holders := holders || (holder.sink || CASE WHEN holder.lane = 0 THEN '' ELSE '/' || holder.lane END);
      IF retention_max > '0' AND age >= retention_max THEN
        losses := losses || ROW(holder.sink, holder.lane, p.name, p.lower, p.upper,
                                coalesce(holder.events, p.upper - p.lower), clock_timestamp())::courier.outbox_loss;
      END IF;
    END LOOP;
    IF holders = '{}' OR (retention_max > '0' AND age >= retention_max) THEN
      ended := ended || p;
    ELSE
      UPDATE courier.outbox_partition AS o
        SET held_by = holders, held_since = coalesce(o.held_since, clock_timestamp())
        WHERE o.name = p.name AND o.held_by IS DISTINCT FROM holders;
      RETURN QUERY SELECT 'held', p.name, p.lower, p.upper,
        pg_total_relation_size(format('courier.%I', p.name)::regclass), NULL::text, NULL::integer, NULL::bigint, holders;
    END IF;
  END LOOP;

  n_ahead := (SELECT count(*) FROM courier.outbox_partition AS o WHERE o.lower > last_id);
  is_spilled := EXISTS (SELECT FROM courier.outbox_default);
  IF cardinality(ended) > 0 OR n_ahead < 2 OR is_spilled THEN
    BEGIN
      -- Later statements queue behind this lock. That is better once than for ever with a default
      -- partition that grows.
      PERFORM set_config('lock_timeout', (lock_wait_ms * CASE WHEN n_ahead = 0 THEN 10 ELSE 1 END)::text, true);
      LOCK TABLE ONLY courier.outbox IN ACCESS EXCLUSIVE MODE;
      is_locked := true;
    EXCEPTION WHEN lock_not_available THEN
      NULL;
    END;
    PERFORM set_config('lock_timeout', lock_wait_ms::text, true);
  END IF;

  IF is_locked AND is_spilled THEN
    IF courier.outbox_replace_default() THEN
      made := ARRAY[(SELECT o.name FROM courier.outbox_partition AS o ORDER BY o.lower DESC LIMIT 1)];
    ELSE
      has_strays := true;
    END IF;
  END IF;
  made := made || courier.outbox_make_partitions(retention, least_width, most_width, is_locked);

  FOREACH p IN ARRAY ended LOOP
    bytes := coalesce(pg_total_relation_size(to_regclass(format('courier.%I', p.name))), 0);
    is_dropped := false;
    BEGIN
      IF is_locked THEN
        EXECUTE format('DROP TABLE IF EXISTS courier.%I', p.name);
        DELETE FROM courier.outbox_partition AS o WHERE o.name = p.name;
        is_dropped := true;
      ELSIF p.emptied_at IS NULL THEN
        EXECUTE format('TRUNCATE courier.%I', p.name);
        UPDATE courier.outbox_partition AS o SET emptied_at = clock_timestamp() WHERE o.name = p.name;
        is_dropped := true;
      END IF;
    EXCEPTION WHEN lock_not_available THEN
      NULL; -- the next time
    END;
    IF is_dropped THEN
      gone := gone || p.name;
      RETURN QUERY SELECT CASE WHEN is_locked THEN 'dropped' ELSE 'emptied' END, p.name, p.lower, p.upper, bytes,
        NULL::text, NULL::integer, NULL::bigint, NULL::text[];
    END IF;
  END LOOP;

  FOREACH loss IN ARRAY losses LOOP
    CONTINUE WHEN NOT loss.partition = ANY (gone);
    INSERT INTO courier.outbox_loss VALUES (loss.*);
    RETURN QUERY SELECT 'lost', loss.partition, loss.lower, loss.upper, NULL::bigint, loss.sink, loss.lane, loss.events, NULL::text[];
  END LOOP;
  RETURN QUERY SELECT 'made', o.name, o.lower, o.upper, NULL::bigint, NULL::text, NULL::integer, NULL::bigint, NULL::text[]
    FROM courier.outbox_partition AS o WHERE o.name = ANY (made) ORDER BY o.lower;
  IF NOT is_locked AND (cardinality(ended) > 0 OR is_spilled OR n_ahead + cardinality(made) < 2) THEN
    RETURN QUERY SELECT 'waits', 'outbox'::name, NULL::bigint, NULL::bigint, NULL::bigint, NULL::text,
      NULL::integer, NULL::bigint, NULL::text[];
  END IF;
  IF has_strays THEN
    RETURN QUERY SELECT 'stray', 'outbox_default'::name, NULL::bigint, NULL::bigint,
      pg_total_relation_size('courier.outbox_default'), NULL::text, NULL::integer, NULL::bigint, NULL::text[];
  END IF;
  PERFORM courier.drop_links(); -- 0013_portal.sql
  PERFORM courier.forget_shard_ends(); -- 0014_shards.sql
  -- Last, because its lock keeps relays from writing attempts until this transaction ends (0011_story.sql).
  RETURN QUERY SELECT 'expired', d.name, NULL::bigint, NULL::bigint, d.bytes, NULL::text, NULL::integer, NULL::bigint,
    NULL::text[] FROM courier.drop_attempts() AS d;
END
$$;
COMMENT ON FUNCTION courier.maintain(interval, interval, bigint, bigint, integer)
  IS 'Makes partitions of the outbox ahead, and drops expired ones';

-- What is there, for people and metrics. The default partition is the one without bounds.
CREATE VIEW courier.retention AS
  SELECT c.relname AS name, p.lower, p.upper, pg_total_relation_size(c.oid) AS bytes,
         p.began_at, p.closed_at, p.emptied_at, p.held_by, p.held_since
  FROM pg_inherits AS i
  JOIN pg_class AS c ON c.oid = i.inhrelid
  LEFT JOIN courier.outbox_partition AS p ON p.name = c.relname
  WHERE i.inhparent = 'courier.outbox'::regclass;
COMMENT ON VIEW courier.retention
  IS 'The partitions of the outbox: bounds, size, age, and what needs expired ones';

REVOKE ALL ON FUNCTION courier.maintain(interval, interval, bigint, bigint, integer),
  courier.outbox_needs(courier.outbox_partition, boolean),
  courier.outbox_holders(courier.outbox_partition, boolean), courier.outbox_close_partitions(),
  courier.outbox_await_readers(),
  courier.outbox_next_width(interval, bigint, bigint, bigint), courier.outbox_replace_default(),
  courier.outbox_make_partitions(interval, bigint, bigint, boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION courier.maintain(interval, interval, bigint, bigint, integer) TO courier_relay;
GRANT SELECT ON courier.retention, courier.outbox_partition, courier.outbox_loss TO courier_relay;

INSERT INTO courier.schema_version (version, name) VALUES (6, 'retention');
