-- pgcourier schema, version 17: events that wait can be taken back and moved (docs/architecture.md).
--
-- An event with a deliver_at reaches a sink in one way only: a lane parks it, even if it is overdue when the lane
-- reads it, and claims the row when it is due, by courier.claim_due(). courier.cancel() and courier.reschedule() note
-- in courier.delay what was changed, and each claim looks there. What makes it exact:
--
--   the event's lock   a change has it until its transaction ends; a claim that does not get it leaves the row for now
--   the order          a change takes the lock, then reads the clock; a claim reads the clock, then takes the lock,
--                      then a new snapshot for courier.delay. So the change sees that the time has come, or the claim
--                      sees the change
--   the time reached   a claim notes its time in a sequence, which no transaction hides: a clock that is set back
--                      does not let a change come late
--
-- The lock has the first key 1668248947 and a hash of the event's id for the second one: two events may have one lock,
-- and then wait for each other a little.

-- What was changed after an event was published.
CREATE TABLE courier.delay (
  event_id     uuid        NOT NULL,
  outbox_id    bigint      NOT NULL,
  deliver_at   timestamptz,
  is_cancelled boolean     NOT NULL DEFAULT false,
  has_begun    boolean     NOT NULL DEFAULT false,
  is_earlier   boolean     NOT NULL DEFAULT false,
  is_unseen    boolean     NOT NULL DEFAULT false,
  noted_at     timestamptz NOT NULL DEFAULT clock_timestamp(),

  CONSTRAINT delay_pkey PRIMARY KEY (event_id)
);
CREATE INDEX delay_outbox_id_idx ON courier.delay (outbox_id);
CREATE INDEX delay_unseen_idx ON courier.delay (event_id) WHERE is_unseen;
COMMENT ON TABLE courier.delay IS 'Delayed events that were cancelled or rescheduled';
COMMENT ON COLUMN courier.delay.deliver_at IS 'Instead of that of the event; NULL: it is as it was published';
COMMENT ON COLUMN courier.delay.is_cancelled IS 'It is never delivered';
COMMENT ON COLUMN courier.delay.has_begun IS 'By hand it was delivered before its time: it cannot be taken back';
COMMENT ON COLUMN courier.delay.is_earlier IS 'The last change moved it to an earlier time';
COMMENT ON COLUMN courier.delay.is_unseen
  IS 'The change was made with a snapshot that may not show all rows of courier.parked: courier.maintain() moves those';

-- Up to which time, in microseconds since 1970, lanes have claimed delayed events. If the server's clock was far
-- ahead for a while, nothing can be changed until it is there again, or until: SELECT setval('courier.delay_reached', 1).
CREATE SEQUENCE courier.delay_reached;
COMMENT ON SEQUENCE courier.delay_reached IS 'Up to which time lanes have claimed delayed events: microseconds since 1970';

-- Empty; for its locks. Who parks delayed events has it in ROW EXCLUSIVE MODE, who moves one to an earlier time in
-- SHARE MODE: neither would see what the other writes.
CREATE TABLE courier.delay_gate ();
COMMENT ON TABLE courier.delay_gate IS 'Its locks keep apart who parks delayed events and who moves them';

-- Only delayed events are in these, so that other events cost nothing. Writers wait until the outbox is read.
CREATE INDEX outbox_delayed_idx ON courier.outbox (event_id) WHERE deliver_at IS NOT NULL;
CREATE INDEX parked_delayed_idx ON courier.parked (event_id) WHERE state = 'delayed';

ALTER TABLE courier.parked ADD COLUMN waits_until timestamptz, ADD COLUMN is_unsure boolean;
COMMENT ON COLUMN courier.parked.waits_until
  IS 'While delayed: the time of the event; by hand due_at may be earlier. NULL: due_at says it';
COMMENT ON COLUMN courier.parked.is_unsure
  IS 'While delayed: due_at only says when to look, because the event''s time was being changed; else NULL';

-- An event that was published with a time ahead, and its time now. The outbox need not have it any more.
CREATE FUNCTION courier.find_delayed(event_id uuid, OUT outbox_id bigint, OUT deliver_at timestamptz)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
  SELECT max(w.outbox_id), coalesce(
           (SELECT d.deliver_at FROM courier.delay AS d WHERE d.event_id = find_delayed.event_id), min(w.deliver_at))
    INTO find_delayed.outbox_id, find_delayed.deliver_at
    FROM (
      SELECT o.id AS outbox_id, o.deliver_at FROM courier.outbox AS o
      WHERE o.event_id = find_delayed.event_id AND o.deliver_at IS NOT NULL AND o.deliver_at > o.created_at
      UNION ALL
      SELECT p.outbox_id, coalesce(p.waits_until, p.due_at) FROM courier.parked AS p
      WHERE p.event_id = find_delayed.event_id AND p.state = 'delayed' AND NOT p.is_redriven) AS w;
END
$$;
COMMENT ON FUNCTION courier.find_delayed(uuid) IS 'A delayed event: its number and its time';

-- For courier.cancel() and courier.reschedule().
CREATE FUNCTION courier.change_delay(event_id uuid, deliver_at timestamptz) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  its        record;
  moment     timestamptz;
  is_earlier boolean;
BEGIN
  PERFORM pg_advisory_xact_lock(1668248947, uuid_hash(change_delay.event_id));
  its := courier.find_delayed(change_delay.event_id);
  SELECT greatest(clock_timestamp(), 'epoch'::timestamptz + r.last_value * interval '1 us')
    INTO moment FROM courier.delay_reached AS r;
  IF (its.deliver_at > moment) IS NOT TRUE THEN
    RETURN false;
  END IF;
  IF change_delay.deliver_at < moment THEN
    change_delay.deliver_at := moment;
  END IF;
  is_earlier := coalesce(change_delay.deliver_at < its.deliver_at, false);
  INSERT INTO courier.delay AS d (event_id, outbox_id, deliver_at, is_cancelled, is_earlier, is_unseen)
    VALUES (change_delay.event_id, its.outbox_id, change_delay.deliver_at, change_delay.deliver_at IS NULL, is_earlier,
            is_earlier AND current_setting('transaction_isolation') <> 'read committed')
    ON CONFLICT ON CONSTRAINT delay_pkey DO UPDATE
      SET deliver_at = EXCLUDED.deliver_at, is_cancelled = EXCLUDED.is_cancelled, is_earlier = EXCLUDED.is_earlier,
          is_unseen = d.is_unseen OR EXCLUDED.is_unseen, noted_at = clock_timestamp()
      WHERE NOT d.is_cancelled AND NOT d.has_begun;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  IF is_earlier THEN
    PERFORM pg_notify('courier_control', '');
  END IF;
  RETURN true;
END
$$;
COMMENT ON FUNCTION courier.change_delay(uuid, timestamptz)
  IS 'For courier.cancel() and courier.reschedule(): gives a delayed event another time; NULL: none';

-- Takes a delayed event back in the caller's transaction: once that commits, the event is never delivered, by no sink
-- or receiver, also not after a rewind or a replay.
--
-- false: the event is on its way, because its time has come; or it was delivered, is not known, was published without
-- a time ahead, or was cancelled before. Then nothing is changed. A relay may find the time come while the
-- transaction goes on: it leaves the event until the transaction has ended. A change of the same event by another
-- transaction is waited for.
--
-- The transaction keeps a lock for each event, as for a table: some thousands fit one transaction.
CREATE FUNCTION courier.cancel(event_id uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN courier.change_delay(event_id, NULL);
END
$$;
COMMENT ON FUNCTION courier.cancel(uuid)
  IS 'Takes a delayed event back; false: its time has come, or there is no such event, and nothing is changed';

-- Gives a delayed event another time, earlier or later, on the same terms. A time that is over, or NULL, is now.
-- It is delivered by that time, in the place behind its key that it has then. If the time is earlier, a notification
-- wakes the relays, with which a transaction cannot be prepared (PREPARE TRANSACTION).
CREATE FUNCTION courier.reschedule(event_id uuid, deliver_at timestamptz) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN courier.change_delay(event_id, coalesce(deliver_at, '-infinity'));
END
$$;
COMMENT ON FUNCTION courier.reschedule(uuid, timestamptz)
  IS 'Gives a delayed event another time; false: its time has come, or there is no such event, and nothing is changed';

-- What a change does to the rows of courier.parked that are there. A row that it does not see is dealt with when it
-- is claimed.
CREATE FUNCTION courier.apply_delay(d courier.delay) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
BEGIN
  IF d.is_cancelled THEN
    DELETE FROM courier.parked AS p WHERE p.event_id = d.event_id AND p.state = 'delayed';
  ELSE
    IF d.is_earlier THEN
      LOCK TABLE courier.delay_gate IN SHARE MODE;
    END IF;
    UPDATE courier.parked AS p SET due_at = d.deliver_at, waits_until = d.deliver_at, is_unsure = NULL
      WHERE p.event_id = d.event_id AND p.state = 'delayed' AND NOT p.is_redriven AND NOT p.skip;
  END IF;
  -- The marker looks at it then.
  UPDATE courier.unmarked AS u SET due_at = coalesce(d.deliver_at, clock_timestamp())
    WHERE u.outbox_id IN (SELECT v.outbox_id FROM courier.unmarked AS v
                          WHERE v.outbox_id = d.outbox_id AND v.state = 'parked' FOR UPDATE SKIP LOCKED);
END
$$;
COMMENT ON FUNCTION courier.apply_delay(courier.delay) IS 'Does to courier.parked what courier.delay says of an event';

-- When the transaction commits: until then no row of courier.parked is locked.
CREATE FUNCTION courier.apply_delay_at_commit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM courier.apply_delay(NEW);
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION courier.apply_delay_at_commit() IS 'Does what was changed of an event';
CREATE CONSTRAINT TRIGGER apply_at_commit AFTER INSERT OR UPDATE OF deliver_at, is_cancelled ON courier.delay
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.is_cancelled OR NEW.deliver_at IS NOT NULL)
  EXECUTE FUNCTION courier.apply_delay_at_commit();

-- For a lane that parks delayed events: the time of each, NULL if it was cancelled. is_open: these are to be the rows'
-- due_at. Otherwise an event is just being moved to an earlier time, whose transaction will not see the rows: they are
-- due at once, and the claim finds out.
CREATE FUNCTION courier.delayed_until(
  event_ids uuid[], deliver_ats timestamptz[], OUT times timestamptz[], OUT is_open boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  BEGIN
    LOCK TABLE courier.delay_gate IN ROW EXCLUSIVE MODE NOWAIT;
    is_open := true;
  EXCEPTION WHEN lock_not_available THEN
    is_open := false;
  END;
  SELECT array_agg(CASE WHEN d.is_cancelled THEN NULL ELSE coalesce(d.deliver_at, given.deliver_at) END ORDER BY given.nth)
    INTO times
    FROM unnest(event_ids, deliver_ats) WITH ORDINALITY AS given (event_id, deliver_at, nth)
    LEFT JOIN courier.delay AS d ON d.event_id = given.event_id;
END
$$;
COMMENT ON FUNCTION courier.delayed_until(uuid[], timestamptz[]) IS 'For a lane that parks delayed events: until when';

-- Of rows that are due at that time, and whose events are not just being changed (is_free): which are to be delivered,
-- and when to look again at the others. Rows of cancelled events are removed, those of rescheduled events moved. A row
-- that is not there any more was removed by courier.cancel(), after the claim saw it.
CREATE FUNCTION courier.judge_due(
  sink text, lane integer, at timestamptz, ids bigint[], are_free boolean[], OUT come boolean[], OUT again timestamptz)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  its record;
BEGIN
  SELECT array_agg(e.id) FILTER (WHERE e.is_cancelled) AS cancelled,
         array_agg(e.id) FILTER (WHERE e.is_later) AS later, array_agg(e.until) FILTER (WHERE e.is_later) AS until,
         array_agg(e.id) FILTER (WHERE e.is_by_hand) AS by_hand,
         array_agg(e.is_free AND e.is_there AND NOT e.is_cancelled AND NOT e.is_later ORDER BY e.place) AS come,
         CASE WHEN bool_and(e.is_free) THEN min(e.until) FILTER (WHERE e.is_later AND e.until < 'infinity')
              ELSE clock_timestamp() + interval '100 ms' END AS again
    INTO its
    FROM (SELECT g.id, g.place, g.is_free, coalesce(j.is_there, false) AS is_there, j.until,
                 coalesce(j.is_cancelled, false) AS is_cancelled,
                 j.is_by_hand AND NOT j.is_cancelled AND NOT j.is_due AS is_by_hand,
                 coalesce(j.until > at AND NOT j.is_cancelled AND NOT j.is_by_hand AND NOT j.is_due, false) AS is_later
          FROM unnest(ids, are_free) WITH ORDINALITY AS g (id, is_free, place)
          LEFT JOIN LATERAL (
            SELECT true AS is_there, p.skip OR p.state <> 'delayed' AS is_due,
                   p.state = 'delayed' AND coalesce(d.is_cancelled, false) AS is_cancelled,
                   coalesce(d.deliver_at, p.waits_until, p.due_at) AS until,
                   p.is_redriven OR coalesce(p.due_at < p.waits_until AND p.is_unsure IS NOT TRUE
                                             AND coalesce(d.deliver_at = p.waits_until, true), false) AS is_by_hand
            FROM courier.parked AS p LEFT JOIN courier.delay AS d ON d.event_id = p.event_id
            WHERE p.sink = judge_due.sink AND p.lane = judge_due.lane AND p.outbox_id = g.id
            LIMIT 1) AS j ON g.is_free) AS e;
  come := its.come;
  again := its.again;
  IF its.cancelled IS NOT NULL THEN
    DELETE FROM courier.parked AS p
      WHERE p.sink = judge_due.sink AND p.lane = judge_due.lane AND p.outbox_id = ANY (its.cancelled);
  END IF;
  IF its.later IS NOT NULL THEN
    UPDATE courier.parked AS p SET due_at = moved.until, waits_until = moved.until, is_unsure = NULL
      FROM unnest(its.later, its.until) AS moved (id, until)
      WHERE p.sink = judge_due.sink AND p.lane = judge_due.lane AND p.outbox_id = moved.id;
  END IF;
  IF its.by_hand IS NOT NULL THEN -- what comes before its time cannot be taken back any more
    INSERT INTO courier.delay AS d (event_id, outbox_id, has_begun)
      SELECT DISTINCT ON (p.event_id) p.event_id, p.outbox_id, true
      FROM unnest(its.by_hand) AS g (id)
      CROSS JOIN LATERAL (SELECT * FROM courier.parked AS p
        WHERE p.sink = judge_due.sink AND p.lane = judge_due.lane AND p.outbox_id = g.id LIMIT 1) AS p
      LEFT JOIN courier.delay AS had ON had.event_id = p.event_id
      WHERE coalesce(had.deliver_at, (SELECT o.deliver_at FROM courier.outbox AS o WHERE o.id = g.id)) > at
         OR EXISTS (SELECT FROM courier.parked AS q
                    WHERE q.event_id = p.event_id AND q.state = 'delayed' AND NOT q.is_redriven
                      AND coalesce(q.waits_until, q.due_at) > at)
      ORDER BY p.event_id
      ON CONFLICT ON CONSTRAINT delay_pkey DO UPDATE SET has_begun = true WHERE NOT d.has_begun;
  END IF;
END
$$;
COMMENT ON FUNCTION courier.judge_due(text, integer, timestamptz, bigint[], boolean[])
  IS 'For courier.claim_due(): which rows are to be delivered, where some may not be';

-- For a lane with delayed rows that are due at that time: the rows to be delivered, in the order of their time, and one
-- more (comes: no) if there are more; of at most max_bytes, but for the first. Rows of events that were cancelled or
-- moved, or that a transaction is about to change, are left out.
--
-- A last row without an id says in how many milliseconds to look again, if something was left out.
CREATE FUNCTION courier.claim_due(
  sink text, lane integer, at timestamptz, claimed bigint[], max_rows integer, max_bytes bigint)
RETURNS TABLE (outbox_id bigint, nth bigint, comes boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  at_most       constant integer := least(max_rows, 500); -- so many locks are taken at once
  reached       constant bigint  := ceil(extract(epoch FROM at) * 1000000);
  last_due      timestamptz := '-infinity';
  last_position bigint      := 0;
  n             bigint      := 0;
  n_bytes       bigint      := 0;
  n_locked      bigint      := 0;
  again         timestamptz; -- when to look at what was left out
  chunk         record;
  judged        record;
  come          boolean[]; -- of the chunk
BEGIN
  IF (SELECT r.last_value < reached FROM courier.delay_reached AS r) THEN
    PERFORM pg_advisory_xact_lock(1668248948, 0);
    PERFORM setval('courier.delay_reached', reached) FROM courier.delay_reached AS r WHERE r.last_value < reached;
  END IF;
  LOOP
    -- In this statement the locks, in the next ones what was committed before they were taken.
    SELECT count(*) AS n, max(c.due_at) AS due_at, (array_agg(c.position))[count(*)] AS position, sum(c.bytes) AS n_bytes,
           array_agg(c.outbox_id) AS ids, array_agg(c.event_id) AS event_ids, array_agg(c.bytes) AS bytes,
           array_agg(c.is_free) AS come, bool_and(c.is_free) AS are_free, bool_or(c.is_odd) AS is_any_odd
      INTO chunk
      FROM (SELECT p.outbox_id, p.event_id, p.due_at, p.position,
                   p.state <> 'delayed' OR pg_try_advisory_xact_lock_shared(1668248947, uuid_hash(p.event_id)) AS is_free,
                   p.is_redriven OR p.is_unsure OR p.due_at < p.waits_until AS is_odd,
                   CASE WHEN p.data IS NOT NULL THEN octet_length(p.data)
                        WHEN pg_column_compression(p.payload) IS NULL THEN pg_column_size(p.payload)
                        ELSE octet_length(p.payload::text) END AS bytes
            FROM (SELECT * FROM courier.parked AS p
                  WHERE p.sink = claim_due.sink AND p.lane = claim_due.lane AND (p.state <> 'blocked' OR p.skip)
                    AND p.due_at <= claim_due.at AND (p.due_at, p.position) > (last_due, last_position)
                    AND p.outbox_id NOT IN (SELECT unnest(claimed))
                  ORDER BY p.due_at, p.position LIMIT at_most + 1) AS p) AS c;
    EXIT WHEN chunk.n = 0;
    last_due := chunk.due_at;
    last_position := chunk.position;
    n_locked := n_locked + chunk.n;
    come := chunk.come;
    IF NOT chunk.are_free OR chunk.is_any_odd OR EXISTS (
         SELECT FROM courier.delay AS d WHERE d.event_id = ANY (chunk.event_ids)) THEN
      judged := courier.judge_due(claim_due.sink, claim_due.lane, at, chunk.ids, chunk.come);
      come := judged.come;
      again := least(again, judged.again);
    END IF;

    RETURN QUERY
      SELECT w.id, w.nth, w.nth <= at_most AND (w.nth = 1 OR w.so_far <= max_bytes)
      FROM (SELECT g.id, n + row_number() OVER so_far AS nth, n_bytes + sum(g.bytes) OVER so_far AS so_far
            FROM unnest(chunk.ids, chunk.bytes, come) WITH ORDINALITY AS g (id, bytes, comes, place)
            WHERE g.comes
            WINDOW so_far AS (ORDER BY g.place ROWS UNBOUNDED PRECEDING)) AS w
      WHERE w.nth <= at_most + 1;
    IF judged IS NULL THEN
      n := n + chunk.n;
      n_bytes := n_bytes + chunk.n_bytes;
    ELSE
      SELECT n + count(*), n_bytes + coalesce(sum(g.bytes), 0) INTO n, n_bytes
        FROM unnest(chunk.bytes, come) AS g (bytes, comes) WHERE g.comes;
    END IF;
    EXIT WHEN chunk.n <= at_most OR n > at_most;
    IF n_locked > 2000 THEN -- the others the next time
      again := at;
      EXIT;
    END IF;
  END LOOP;
  IF again IS NOT NULL THEN
    RETURN QUERY SELECT NULL::bigint, greatest(0, ceil(extract(epoch FROM again - clock_timestamp()) * 1000))::bigint, false;
  END IF;
END
$$;
COMMENT ON FUNCTION courier.claim_due(text, integer, timestamptz, bigint[], integer, bigint)
  IS 'For a lane with delayed rows that are due: which of them are to be delivered';

-- Removes what nothing can ask for any more: the outbox does not have the event, and no row that is parked or given
-- up can come before its time.
CREATE FUNCTION courier.forget_delays() RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  WITH gone AS (
    DELETE FROM courier.delay WHERE event_id = ANY (ARRAY(
      SELECT d.event_id FROM courier.delay AS d
      WHERE d.outbox_id < (SELECT min(o.lower) FROM courier.outbox_partition AS o WHERE o.emptied_at IS NULL)
        AND NOT d.is_unseen
        AND NOT EXISTS (SELECT FROM courier.outbox AS o WHERE o.id = d.outbox_id)
        AND NOT (d.is_cancelled AND EXISTS (SELECT FROM courier.dead_letter AS l WHERE l.outbox_id = d.outbox_id))
        AND NOT ((d.is_cancelled OR d.has_begun)
                 AND EXISTS (SELECT FROM courier.parked AS p WHERE p.event_id = d.event_id AND p.state = 'delayed'))
      ORDER BY d.outbox_id LIMIT 10000 FOR UPDATE SKIP LOCKED))
    RETURNING 1
  )
  SELECT count(*) FROM gone
$$;
COMMENT ON FUNCTION courier.forget_delays() IS 'For courier.maintain(): removes what is over of courier.delay';

-- Moves to an earlier time what their own transactions could not see.
CREATE FUNCTION courier.apply_unseen_delays() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  d courier.delay;
BEGIN
  FOR d IN UPDATE courier.delay SET is_unseen = false WHERE event_id = ANY (ARRAY(
             SELECT u.event_id FROM courier.delay AS u WHERE u.is_unseen LIMIT 1000 FOR UPDATE SKIP LOCKED))
           RETURNING delay.* LOOP
    d.is_earlier := true;
    PERFORM courier.apply_delay(d);
  END LOOP;
  IF FOUND THEN
    PERFORM pg_notify('courier_control', '');
  END IF;
END
$$;
COMMENT ON FUNCTION courier.apply_unseen_delays() IS 'For courier.maintain(): see courier.delay.is_unseen';

ALTER FUNCTION courier.maintain(interval, interval, bigint, bigint, integer) RENAME TO maintain_outbox;
REVOKE ALL ON FUNCTION courier.maintain_outbox(interval, interval, bigint, bigint, integer) FROM courier_relay;

-- What courier.maintain_outbox() does (0006_retention.sql), and the same for courier.delay.
CREATE FUNCTION courier.maintain(
  retention     interval DEFAULT '7 days',
  retention_max interval DEFAULT '0',
  least_width   bigint   DEFAULT 1000000,
  most_width    bigint   DEFAULT 1000000000,
  lock_wait_ms  integer  DEFAULT 100
) RETURNS TABLE (action text, name name, lower bigint, upper bigint, bytes bigint,
                 sink text, lane integer, events bigint, held_by text[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  is_dropped boolean := false; -- the outbox is locked until the transaction ends
BEGIN
  FOR action, name, lower, upper, bytes, sink, lane, events, held_by IN
    SELECT * FROM courier.maintain_outbox(retention, retention_max, least_width, most_width, lock_wait_ms)
  LOOP
    is_dropped := is_dropped OR action = 'dropped';
    RETURN NEXT;
  END LOOP;
  IF pg_try_advisory_xact_lock(1668248946, -1) THEN -- else another session does all of it
    BEGIN
      PERFORM courier.apply_unseen_delays();
      IF NOT is_dropped THEN
        PERFORM courier.forget_delays();
      END IF;
    EXCEPTION WHEN lock_not_available THEN
      NULL; -- the next time
    END;
  END IF;
END
$$;
COMMENT ON FUNCTION courier.maintain(interval, interval, bigint, bigint, integer)
  IS 'Makes partitions of the outbox ahead, and drops expired ones';

-- The way of one event: a row for each sink and receiver.
--
--   delivered   the destination took it; at, took_ms, status and what it answered (reason) if the attempt was
--               recorded
--   waiting     it has not been tried; the reason says behind what
--   retrying    an attempt failed; next_at says when the next one is due
--   dead        given up; the reason says why
--   not_taken   the reason says by which of topics, types, headers or filter
--   cancelled   by courier.cancel(), before any lane had begun; at says when
--
-- Filters are asked of lanes that have passed the event without a trace of it: the relay has asked them in
-- time. If the outbox does not have the event any more, there are rows only where something of it is left.
CREATE OR REPLACE FUNCTION courier.trace(outbox_id bigint)
RETURNS TABLE (sink text, receiver text, lane integer, state text, reason text, at timestamptz, took_ms double precision,
               status integer, attempts integer, next_at timestamptz)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
  WITH event AS MATERIALIZED (
    SELECT o.*, d.noted_at AS cancelled_at
    FROM courier.outbox AS o LEFT JOIN courier.delay AS d ON d.event_id = o.event_id AND d.is_cancelled
    WHERE o.id = trace.outbox_id LIMIT 1
  ), fits AS MATERIALIZED ( -- the patterns that match it, of all sinks and receivers
    SELECT coalesce(array_agg(each.pattern) FILTER (WHERE each.is_topic AND NOT each.excludes), '{}') AS topics,
           -- An event of pgcourier's own only goes to receivers that name it.
           coalesce(array_agg(each.pattern) FILTER (WHERE each.is_topic AND NOT each.excludes
                      AND (each.word NOT LIKE 'courier.%' OR each.pattern LIKE 'courier.%')), '{}') AS lane_topics,
           coalesce(array_agg(each.pattern) FILTER (WHERE each.is_topic AND each.excludes), '{}') AS not_topics,
           coalesce(array_agg(each.pattern) FILTER (WHERE NOT each.is_topic AND NOT each.excludes), '{}') AS types,
           coalesce(array_agg(each.pattern) FILTER (WHERE NOT each.is_topic AND each.excludes), '{}') AS not_types
    FROM (
      SELECT DISTINCT given.pattern, given.is_topic, given.word, given.pattern LIKE '!%' AS excludes
      FROM (
        SELECT every.pattern, every.is_topic, CASE WHEN every.is_topic THEN event.topic ELSE event.type END AS word
        FROM event
        CROSS JOIN (SELECT unnest(r.topics) AS pattern, true AS is_topic FROM courier.receiver AS r
                    UNION ALL SELECT unnest(r.types), false FROM courier.receiver AS r WHERE r.types <> '{}'
                    UNION ALL SELECT unnest(s.topics), true FROM courier.sink AS s
                    UNION ALL SELECT unnest(s.types), false FROM courier.sink AS s) AS every) AS given
      -- Mostly it does not even begin so, which is told sooner than by a regular expression.
      WHERE starts_with(given.word, split_part(ltrim(given.pattern, '!'), '*', 1))
      OFFSET 0) AS each
    WHERE courier.pattern_matches(ltrim(each.pattern, '!'), each.word)
  ), sinks AS MATERIALIZED ( -- what is the same for all lanes of a sink
    SELECT s.name, s.fans_out, event.id, event.txid, event.key, s.shards, fits.lane_topics, fits.not_topics, fits.types, fits.not_types,
           s.topics IS NULL OR s.topics && fits.topics AND NOT s.topics && fits.not_topics AS topic_fits,
           s.types IS NULL OR s.types = '{}' OR s.types && fits.types AND NOT s.types && fits.not_types AS type_fits,
           s.settings -> 'match_headers' IS NULL
             OR courier.headers_match(event.headers, s.settings -> 'match_headers') AS headers_fit,
           nullif(s.settings ->> 'filter', '')::jsonpath AS filter,
           pause.by IS NOT NULL AS is_paused, 'the sink is paused by the ' || pause.by || coalesce(': ' || pause.reason, '') AS pause
    FROM courier.sink AS s
    CROSS JOIN fits
    LEFT JOIN event ON true
    LEFT JOIN LATERAL (SELECT p.by, p.reason FROM courier.pause AS p WHERE p.sink = s.name ORDER BY p.by LIMIT 1) AS pause ON true
  ), died AS MATERIALIZED (
    SELECT DISTINCT ON (d.sink, d.lane) d.* FROM courier.dead_letter AS d
    WHERE d.outbox_id = trace.outbox_id ORDER BY d.sink, d.lane, d.id DESC
  ), tried AS MATERIALIZED ( -- the index begins with the lane
    SELECT DISTINCT ON (p.sink, p.lane) p.sink, p.lane, p.outcome, p.status, p.answer,
           p.at + each.after_us * interval '1 us' AS at, each.took_us, count(*) OVER (PARTITION BY p.sink, p.lane) AS n
    FROM courier.attempt_pack AS p, unnest(p.ids, p.after_us, p.took_us) AS each (id, after_us, took_us)
    WHERE p.lane = ANY (ARRAY(SELECT r.id FROM courier.receiver AS r UNION ALL SELECT 0))
      AND each.id = trace.outbox_id AND p.first_id <= trace.outbox_id
      AND p.last_id BETWEEN trace.outbox_id AND trace.outbox_id + 9999
    ORDER BY p.sink, p.lane, p.at + each.after_us * interval '1 us' DESC
  ), stays AS MATERIALIZED ( -- by the primary key
    SELECT p.*, greatest(p.lane, 0) AS of_lane
    FROM (SELECT r.sink, r.id AS lane FROM courier.receiver AS r
          UNION ALL
          SELECT s.name, courier.shard_lane(n, s.shards) FROM courier.sink AS s, generate_series(0, s.shards - 1) AS n
          WHERE NOT s.fans_out) AS k
    JOIN courier.parked AS p ON p.sink = k.sink AND p.lane = k.lane AND p.outbox_id = trace.outbox_id
  ), way AS (
    SELECT s.name AS sink, coalesce(r.id, 0) AS lane, r.name AS receiver, s.id, s.headers_fit, s.filter, r.filter AS lane_filter,
           s.topic_fits AND (r.topics IS NULL OR r.topics && s.lane_topics AND NOT r.topics && s.not_topics) AS topic_fits,
           s.type_fits AND (r.types IS NULL OR r.types = '{}' OR r.types && s.types AND NOT r.types && s.not_types) AS type_fits,
           r.state AS receiver_state, r.state_reason, r.failing_since, r.last_error, s.is_paused, s.pause,
           c.sink IS NOT NULL AS has_cursor,
           courier.has_passed(c.from_snapshot, c.until_snapshot, c.last_id, s.id, s.txid)
             OR r.id IS NULL AND courier.had_passed(s.name, s.key, s.id, s.txid) AS is_passed,
           its.owner_lane,
           coalesce(r.start = 'now' AND pg_visible_in_snapshot(s.txid, r.start_snapshot), false) AS is_before
    FROM sinks AS s
    LEFT JOIN courier.receiver AS r ON s.fans_out AND r.sink = s.name
    CROSS JOIN LATERAL (SELECT courier.shard_lane(
      CASE WHEN r.id IS NULL THEN courier.shard_of(s.key, s.shards, s.id) ELSE courier.shard_of(NULL, s.shards, r.id) END,
      s.shards) AS owner_lane) AS its
    LEFT JOIN courier.cursor AS c ON c.sink = s.name AND c.lane = coalesce(r.id, its.owner_lane)
    WHERE s.fans_out = (r.id IS NOT NULL)
    UNION ALL -- lanes that are gone, and left something
    SELECT d.sink, d.lane, CASE WHEN d.lane <> 0 THEN '#' || d.lane END,
           NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, NULL, false
    FROM died AS d
    WHERE NOT CASE (SELECT s.fans_out FROM courier.sink AS s WHERE s.name = d.sink)
                WHEN true THEN EXISTS (SELECT FROM courier.receiver AS r WHERE r.id = d.lane AND r.sink = d.sink)
                WHEN false THEN d.lane = 0
                ELSE false END
  ), judged AS (
    SELECT way.sink, way.receiver, way.lane, way.receiver_state, way.state_reason, way.failing_since, way.last_error,
           way.is_paused, way.pause, way.has_cursor, way.is_passed, way.owner_lane,
           stays.state AS parked_state, stays.attempts AS parked_attempts, stays.last_error AS parked_error,
           stays.last_failed_at, stays.due_at, stays.key, stays.lane AS parked_lane,
           died.reason AS dead_reason, died.error, died.died_at, died.attempts AS dead_attempts,
           tried.outcome, tried.at AS tried_at, tried.took_us, tried.status, tried.answer, tried.n AS n_tried,
           CASE WHEN way.id IS NULL OR stays.state IS NOT NULL OR died.reason IS NOT NULL OR tried.outcome IS NOT NULL THEN NULL
                WHEN way.is_before THEN 'it was published before the receiver was added'
                WHEN NOT way.topic_fits THEN 'none of its topics matches, or one excludes it'
                WHEN NOT way.type_fits THEN 'none of its types matches'
                WHEN NOT way.headers_fit THEN 'it lacks a header that the sink asks for'
                WHEN way.is_passed AND (way.filter IS NOT NULL OR way.lane_filter IS NOT NULL)
                  AND cardinality(courier.true_filters((SELECT event.payload FROM event),
                        ARRAY(SELECT f FROM unnest(ARRAY[way.filter, way.lane_filter]) AS f WHERE f IS NOT NULL)))
                      < num_nonnulls(way.filter, way.lane_filter)
                  THEN 'its filter is not true of the payload' END AS not_taken
    FROM way
    LEFT JOIN tried ON tried.sink = way.sink AND tried.lane = way.lane
    LEFT JOIN died ON died.sink = way.sink AND died.lane = way.lane
    LEFT JOIN stays ON stays.sink = way.sink AND stays.of_lane = way.lane
    WHERE way.id IS NOT NULL OR stays.state IS NOT NULL OR died.reason IS NOT NULL OR tried.outcome IS NOT NULL
    OFFSET 0 -- so that the rules are asked once
  ), stated AS (
    SELECT j.*,
           CASE WHEN j.parked_state = 'retry' THEN 'retrying'
                WHEN j.parked_state IS NOT NULL AND cancelled.at IS NULL THEN 'waiting'
                WHEN j.dead_reason IS NOT NULL AND j.outcome IS DISTINCT FROM 'delivered' THEN 'dead'
                WHEN j.outcome = 'delivered' THEN 'delivered'
                WHEN j.not_taken IS NOT NULL THEN 'not_taken'
                WHEN cancelled.at IS NOT NULL THEN 'cancelled'
                WHEN j.is_passed THEN 'delivered'
                WHEN j.outcome = 'dead' THEN 'dead' -- its dead letter was dropped
                ELSE 'waiting' END AS state, cancelled.at AS cancelled_at
    FROM judged AS j LEFT JOIN (SELECT event.cancelled_at AS at FROM event) AS cancelled ON true
    OFFSET 0
  )
  SELECT s.sink, s.receiver, s.lane, s.state,
         CASE s.state
           WHEN 'retrying' THEN s.parked_error
           WHEN 'dead' THEN coalesce(s.dead_reason || ': ' || s.error, s.answer)
           WHEN 'not_taken' THEN s.not_taken
           WHEN 'delivered' THEN CASE WHEN s.outcome = 'delivered' THEN nullif(s.answer, '') END
           WHEN 'cancelled' THEN 'by courier.cancel()'
           WHEN 'waiting' THEN CASE
             WHEN s.parked_state = 'delayed' THEN 'until its time has come'
             WHEN s.parked_state = 'blocked' THEN coalesce('behind event ' || (
               SELECT b.outbox_id FROM courier.parked AS b
               WHERE b.sink = s.sink AND b.lane = s.parked_lane AND b.key = s.key AND b.state = 'retry'
               ORDER BY b.position LIMIT 1) || ' of its key, which is retried', 'behind an earlier event of its key')
             WHEN s.receiver_state IN ('paused', 'disabled')
               THEN 'the receiver is ' || s.receiver_state || coalesce(': ' || s.state_reason, '')
             WHEN s.is_paused THEN s.pause
             WHEN NOT s.has_cursor THEN 'no relay has run it yet'
             WHEN (s.sink, s.owner_lane) NOT IN (SELECT o.sink, o.lane FROM courier.lane_owner AS o) THEN 'no relay is running it'
             WHEN s.outcome = 'sink_down' THEN 'its destination is down: ' || s.answer
             WHEN s.failing_since IS NOT NULL THEN 'its destination fails: ' || s.last_error
             ELSE 'earlier events come first' END END,
         CASE s.state WHEN 'dead' THEN coalesce(s.died_at, s.tried_at)
                      WHEN 'retrying' THEN s.last_failed_at
                      WHEN 'cancelled' THEN s.cancelled_at ELSE s.tried_at END,
         (s.took_us / 1e3)::double precision, s.status::integer,
         greatest(s.n_tried, s.parked_attempts, s.dead_attempts)::integer,
         CASE WHEN s.state IN ('retrying', 'waiting') AND s.parked_state <> 'blocked' THEN s.due_at END
  FROM stated AS s
  ORDER BY s.sink, s.lane
$$;

-- For replays: an event that was cancelled is not delivered again either.
CREATE FUNCTION courier.is_cancelled(event_id uuid) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM courier.delay AS d WHERE d.event_id = is_cancelled.event_id AND d.is_cancelled)
$$;
COMMENT ON FUNCTION courier.is_cancelled(uuid) IS 'Whether courier.cancel() took the event back';

REVOKE ALL ON FUNCTION courier.cancel(uuid), courier.reschedule(uuid, timestamptz), courier.find_delayed(uuid),
  courier.change_delay(uuid, timestamptz), courier.apply_delay(courier.delay), courier.apply_delay_at_commit(),
  courier.delayed_until(uuid[], timestamptz[]),
  courier.claim_due(text, integer, timestamptz, bigint[], integer, bigint),
  courier.judge_due(text, integer, timestamptz, bigint[], boolean[]), courier.forget_delays(),
  courier.apply_unseen_delays(), courier.maintain(interval, interval, bigint, bigint, integer),
  courier.is_cancelled(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION courier.cancel(uuid), courier.reschedule(uuid, timestamptz) TO courier_publisher;
GRANT EXECUTE ON FUNCTION courier.delayed_until(uuid[], timestamptz[]),
  courier.claim_due(text, integer, timestamptz, bigint[], integer, bigint),
  courier.judge_due(text, integer, timestamptz, bigint[], boolean[]),
  courier.maintain(interval, interval, bigint, bigint, integer), courier.is_cancelled(uuid)
  TO courier_relay;
GRANT SELECT, INSERT, UPDATE ON courier.delay TO courier_relay;
GRANT INSERT ON courier.delay_gate TO courier_relay;
GRANT SELECT, UPDATE ON SEQUENCE courier.delay_reached TO courier_relay;

INSERT INTO courier.schema_version (version, name, serves_from) VALUES (17, 'waiting', 14);
