-- pgcourier schema, version 11: what happened: attempts and what waits. How each receiver is and the way of one
-- event: 0014_shards.sql.

-- A time for people and programs: RFC 3339 in UTC, with so many digits of a second; NULL if it is none, or infinite.
-- Everything that pgcourier prints as JSON has its times from here, whatever the session's time zone.
CREATE FUNCTION courier.utc(moment timestamptz, digits integer DEFAULT 6) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN pg_catalog.to_char(moment AT TIME ZONE 'UTC',
  'YYYY-MM-DD"T"HH24:MI:SS' || CASE WHEN digits > 0 THEN '.FF' || digits::text ELSE '' END || '"Z"');
COMMENT ON FUNCTION courier.utc(timestamptz, integer) IS 'A time as RFC 3339 in UTC, as pgcourier prints it';

-- Attempts that a relay made: those of sinks with `attempts: failures` or `all`. Nothing that delivers
-- reads them. They are written with the settle that comes next. Attempts of one lane that ended alike are one
-- row, a pack, with an array for each of what differs: so a thousand deliveries cost little more than one. A
-- row belongs to the partition of the day (in UTC) on which it expires, so that sinks with different
-- `attempts_retention` share the table.
CREATE TABLE courier.attempt_pack (
  at         timestamptz NOT NULL,
  first_id   bigint      NOT NULL,
  last_id    bigint      NOT NULL,
  lane       integer     NOT NULL,
  number     integer     NOT NULL,
  expires_on date        NOT NULL,
  status     smallint,
  sink       text        NOT NULL,
  outcome    text        NOT NULL,
  answer     text,
  ids        bigint[]    NOT NULL,
  after_us   integer[]   NOT NULL,
  took_us    integer[]   NOT NULL
) PARTITION BY RANGE (expires_on);

-- Arrays of a thousand attempts are compressed. PostgreSQL's own method would take more time for that than
-- everything else; a server that was built without lz4 keeps them as they are.
DO $$
BEGIN
  ALTER TABLE courier.attempt_pack
    ALTER ids SET COMPRESSION lz4, ALTER after_us SET COMPRESSION lz4, ALTER took_us SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
  ALTER TABLE courier.attempt_pack
    ALTER ids SET STORAGE EXTERNAL, ALTER after_us SET STORAGE EXTERNAL, ALTER took_us SET STORAGE EXTERNAL;
END
$$;

-- By number alone: only lane 0 belongs to several sinks.
CREATE INDEX attempt_pack_at_idx ON courier.attempt_pack (lane, at);
CREATE INDEX attempt_pack_failed_idx ON courier.attempt_pack (lane, at) WHERE outcome <> 'delivered';
CREATE INDEX attempt_pack_id_idx ON courier.attempt_pack (lane, last_id, first_id);

COMMENT ON TABLE courier.attempt_pack IS 'Attempts, those of one lane that ended alike in one row; read courier.attempt';
COMMENT ON COLUMN courier.attempt_pack.at IS 'When the first of them began';
COMMENT ON COLUMN courier.attempt_pack.first_id IS 'The lowest of ids; the highest is less than 10,000 above it';
COMMENT ON COLUMN courier.attempt_pack.expires_on IS 'The row is kept until this day (UTC) begins';
COMMENT ON COLUMN courier.attempt_pack.ids IS 'The events: courier.outbox.id';
COMMENT ON COLUMN courier.attempt_pack.after_us IS 'How long after the first each began; microseconds';

CREATE VIEW courier.attempt AS
  SELECT p.sink, p.lane, each.outbox_id, p.number, p.at + each.after_us * interval '1 us' AS at,
         each.took_us, p.outcome, p.status, p.answer, p.expires_on
  FROM courier.attempt_pack AS p, unnest(p.ids, p.after_us, p.took_us) AS each (outbox_id, after_us, took_us);
COMMENT ON VIEW courier.attempt IS 'Attempts to deliver, by sinks with attempts: failures or all';
COMMENT ON COLUMN courier.attempt.lane IS 'courier.receiver.id; 0: the sink has one destination';
COMMENT ON COLUMN courier.attempt.outbox_id IS 'courier.outbox.id of the event, whose row may be gone by now';
COMMENT ON COLUMN courier.attempt.number
  IS '1 for the first attempt; those that an outage ended are not counted, so they share a number';
COMMENT ON COLUMN courier.attempt.at IS 'When the attempt began';
COMMENT ON COLUMN courier.attempt.took_us IS 'Microseconds from its beginning to its end';
COMMENT ON COLUMN courier.attempt.outcome
  IS 'delivered; retry: tried again later; dead: given up; sink_down: the destination is down as far as this attempt can tell, which costs the event nothing; dropped: broken off by a stop or a lost connection, so the event comes again';
COMMENT ON COLUMN courier.attempt.status
  IS 'What the destination answered: a status of HTTP, a reply code of SMTP; NULL: nothing';
COMMENT ON COLUMN courier.attempt.answer
  IS 'What went wrong, in the destination''s words or ours, or the beginning of what it answered';
COMMENT ON COLUMN courier.attempt.expires_on IS 'It is kept until this day (UTC) begins';

-- The newest attempts of a receiver. A pack that began later may hold attempts that began earlier than some of
-- the pack before it, by the time between two settles.
CREATE FUNCTION courier.newest_attempts(lane integer, at_most integer) RETURNS SETOF courier.attempt
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT p.sink, p.lane, each.outbox_id, p.number, p.at + each.after_us * interval '1 us' AS at,
         each.took_us, p.outcome, p.status, p.answer, p.expires_on
  FROM (SELECT * FROM courier.attempt_pack AS newest WHERE newest.lane = newest_attempts.lane
        ORDER BY newest.at DESC LIMIT at_most) AS p,
       unnest(p.ids, p.after_us, p.took_us) AS each (outbox_id, after_us, took_us)
  ORDER BY 5 DESC LIMIT at_most
$$;
COMMENT ON FUNCTION courier.newest_attempts(integer, integer) IS 'The newest attempts of a receiver';

CREATE FUNCTION courier.make_attempt_partition(expires_on date) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  made_as name := 'attempt_' || to_char(expires_on, 'YYYYMMDD');
BEGIN
  -- To attach a table needs no lock that others who write would wait for.
  EXECUTE format('CREATE TABLE courier.%I (LIKE courier.attempt_pack INCLUDING COMPRESSION INCLUDING STORAGE)', made_as);
  EXECUTE format('ALTER TABLE courier.attempt_pack ATTACH PARTITION courier.%I FOR VALUES FROM (%L) TO (%L)',
    made_as, expires_on, expires_on + 1);
EXCEPTION
  WHEN duplicate_table OR unique_violation THEN
    NULL; -- another session was faster
END
$$;
COMMENT ON FUNCTION courier.make_attempt_partition(date)
  IS 'Makes the partition of attempts that expire on a day';

-- For the relay, as a part of its settles: writes attempts, one element of each array for each. Makes the
-- partition of a day when its first attempt comes. Returns NULL, or in words why nothing was written: that
-- must cost no settle, so no error leaves it.
CREATE FUNCTION courier.note_attempts(
  sinks text[], lanes integer[], outcomes text[], numbers integer[], statuses smallint[], answers text[],
  days integer[], began_us bigint[], first_ids bigint[], last_ids bigint[], ids text[], after_us text[], took_us text[]
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
  day integer;
BEGIN
  FOR try IN 1 .. 2 LOOP
    BEGIN
      INSERT INTO courier.attempt_pack (sink, lane, outcome, number, status, answer, expires_on, at,
                                        first_id, last_id, ids, after_us, took_us)
      SELECT t.sink, t.lane, t.outcome, t.number, t.status, t.answer, '1970-01-01'::date + t.day,
             'epoch'::timestamptz + t.began_us * interval '1 us', t.first_id, t.last_id,
             t.ids::bigint[], t.after_us::integer[], t.took_us::integer[]
      FROM unnest(sinks, lanes, outcomes, numbers, statuses, answers, days, began_us, first_ids, last_ids, ids,
                  after_us, took_us)
        AS t (sink, lane, outcome, number, status, answer, day, began_us, first_id, last_id, ids, after_us, took_us);
      RETURN NULL;
    EXCEPTION
      WHEN check_violation THEN -- a day has no partition yet
        IF try = 2 THEN
          RETURN sqlerrm;
        END IF;
      WHEN others THEN
        RETURN sqlerrm;
    END;
    BEGIN
      FOR day IN SELECT DISTINCT d FROM unnest(days) AS d LOOP
        PERFORM courier.make_attempt_partition('1970-01-01'::date + day)
          WHERE to_regclass(format('courier.attempt_%s', to_char('1970-01-01'::date + day, 'YYYYMMDD'))) IS NULL;
      END LOOP;
    EXCEPTION
      WHEN others THEN
        RETURN sqlerrm;
    END;
  END LOOP;
END
$$;
COMMENT ON FUNCTION courier.note_attempts(text[], integer[], text[], integer[], smallint[], text[], integer[],
  bigint[], bigint[], bigint[], text[], text[], text[])
  IS 'For the relay: writes attempts; returns why it could not, or NULL';

-- Drops partitions of attempts that have expired, and returns them. Waits for locks no longer than
-- lock_timeout; what it did not get is dropped by a later call. courier.maintain() calls it.
CREATE FUNCTION courier.drop_attempts(OUT name name, OUT bytes bigint) RETURNS SETOF record
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  FOR name IN
    SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'courier.attempt_pack'::regclass
      AND substr(c.relname, 9) <= to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYYMMDD')
    ORDER BY c.relname
  LOOP
    bytes := pg_total_relation_size(format('courier.%I', name)::regclass);
    EXECUTE format('DROP TABLE courier.%I', name);
    RETURN NEXT;
  END LOOP;
EXCEPTION
  WHEN lock_not_available THEN
    RETURN;
END
$$;
COMMENT ON FUNCTION courier.drop_attempts() IS 'Drops attempts that have expired';

-- Events that wait in the outbox for a lane: how many, and since when the oldest does. Counts no more than
-- 1,000 of them, within so many events behind the lane's cursor as `reads` says (a thousand take about a
-- millisecond); is_exact tells whether these are all. A filter is not asked, nor the headers that a sink asks
-- for: then the number may be too high, and is not exact.
CREATE FUNCTION courier.waiting(
  sink text, lane integer, reads integer DEFAULT 1000, OUT events bigint, OUT is_exact boolean, OUT since timestamptz)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan AS $$ -- to plan takes ten times as long as to count few events
DECLARE
  c      record;
  upto   bigint;
  last   bigint; -- as a bound of its own, so that the plan for any parameters reads the index
  begins text;
  kind   record; -- of each topic and type: how many events, and of when the oldest is
  late   record; -- the same of stragglers
  is_cut boolean := false;
BEGIN
  IF lane = 0 AND (SELECT s.shards FROM courier.sink AS s WHERE s.name = waiting.sink) > 1 THEN
    SELECT sum(w.events), bool_and(w.is_exact) AND sum(w.events) <= 1000, min(w.since)
      INTO events, is_exact, since
      FROM courier.cursor AS cur, LATERAL courier.waiting(cur.sink, cur.lane, reads) AS w
      WHERE cur.sink = waiting.sink AND cur.lane < 0;
    events := least(events, 1000);
    RETURN;
  END IF;
  SELECT coalesce(cur.from_snapshot, r.start_snapshot) AS from_snapshot, cur.until_snapshot,
         coalesce(cur.last_id, 0) AS last_id,
         coalesce(greatest(cur.from_floor, cur.last_id), CASE r.start WHEN 'beginning' THEN 0 ELSE r.start_floor END) AS above,
         cur.from_xid, cur.until_xid,
         pg_snapshot_xmin(cur.from_snapshot) < cur.from_xid
           OR coalesce(pg_snapshot_xmin(cur.until_snapshot) < cur.until_xid, false) AS has_stragglers,
         s.topics, s.types, r.topics AS lane_topics, r.types AS lane_types,
         r.filter IS NULL AND s.topics IS NOT NULL AND NOT s.settings ?| '{headers,filter}' AS is_known,
         CASE WHEN waiting.lane < 0 THEN s.shards END AS shards, -- of a shard those of its keys
         waiting.lane <= 0 AND EXISTS (SELECT FROM courier.shard_end AS e WHERE e.sink = waiting.sink) AS was_divided
    INTO c
    FROM (VALUES (1)) AS one
    LEFT JOIN courier.cursor AS cur ON cur.sink = waiting.sink AND cur.lane = waiting.lane
    LEFT JOIN courier.receiver AS r ON r.sink = waiting.sink AND r.id = waiting.lane
    LEFT JOIN courier.sink AS s ON s.name = waiting.sink;
  events := 0;
  IF c.above IS NULL THEN -- no relay has run it, so it has no place in the log yet
    is_exact := false;
    RETURN;
  END IF;
  -- What stands before the first * of a pattern tells most topics that it does not match, and sooner than the
  -- whole pattern.
  SELECT CASE WHEN bool_and(p NOT LIKE '*%') THEN
           '^(?:' || string_agg(regexp_replace(split_part(p, '*', 1), '([].\\+?()[{}|^$])', '\\\1', 'g'), '|') || ')' END
    INTO begins FROM unnest(coalesce(c.lane_topics, c.topics)) AS p WHERE p NOT LIKE '!%';
  SELECT o.id INTO upto FROM courier.outbox AS o WHERE o.id > c.above ORDER BY o.id OFFSET reads LIMIT 1;
  last := coalesce(upto, 9223372036854775807);
  SELECT coalesce(array_agg(each.topic), '{}') AS topics, array_agg(each.type) AS types,
         array_agg(each.n) AS counts, array_agg(each.oldest) AS oldest
    INTO kind
    FROM (SELECT o.topic::text, o.type::text, count(*) AS n, min(o.created_at) AS oldest
          FROM courier.outbox AS o
          WHERE o.id > c.above AND o.id <= last AND (begins IS NULL OR o.topic ~ begins)
            AND (c.shards IS NULL OR courier.shard_of(o.key, c.shards, o.id) = -1 - waiting.lane)
            AND NOT (c.was_divided AND courier.had_passed(waiting.sink, o.key, o.id, o.txid))
          GROUP BY o.topic, o.type) AS each;
  IF c.has_stragglers THEN
    SELECT coalesce(array_agg(each.topic), '{}') AS topics, array_agg(each.type) AS types,
           array_agg(each.n) AS counts, array_agg(each.oldest) AS oldest, sum(each.n_read) > 1000 AS is_cut
      INTO late
      FROM (
        SELECT o.topic::text, o.type::text, count(*) FILTER (WHERE o.waits) AS n,
               min(o.created_at) FILTER (WHERE o.waits) AS oldest, count(*) AS n_read
        FROM (
          SELECT o.topic, o.type, o.created_at,
                 NOT courier.has_passed(c.from_snapshot, c.until_snapshot, c.last_id, o.id, o.txid)
                   AND (c.shards IS NULL OR courier.shard_of(o.key, c.shards, o.id) = -1 - waiting.lane)
                   AND NOT (c.was_divided AND courier.had_passed(waiting.sink, o.key, o.id, o.txid)) AS waits
          FROM (
            SELECT o.* -- the snapshots list most of their transactions
            FROM (SELECT pg_snapshot_xip(c.from_snapshot) UNION SELECT pg_snapshot_xip(c.until_snapshot)) AS listed (txid),
                 LATERAL (SELECT * FROM courier.outbox
                          WHERE (outbox.txid, outbox.id) > (listed.txid, 0)
                            AND (outbox.txid, outbox.id) <= (listed.txid, c.above)
                          ORDER BY outbox.txid, outbox.id LIMIT 1001) AS o
            UNION ALL -- from a snapshot's xmax on they are in no list
            SELECT o.*
            FROM (VALUES (pg_snapshot_xmax(c.from_snapshot), c.from_xid),
                         (greatest(pg_snapshot_xmax(c.until_snapshot), c.from_xid), c.until_xid)) AS bounds (first, below),
                 LATERAL (SELECT * FROM courier.outbox
                          WHERE outbox.txid >= bounds.first AND outbox.txid < bounds.below
                          ORDER BY outbox.txid, outbox.id LIMIT 1001) AS o
            WHERE o.id <= c.above
              AND NOT EXISTS (SELECT FROM pg_snapshot_xip(c.until_snapshot) AS listed (txid) WHERE listed.txid = o.txid)
          ) AS o
        ) AS o
        GROUP BY o.topic, o.type) AS each;
    is_cut := late.is_cut;
    kind.topics := kind.topics || late.topics;
    kind.types := kind.types || late.types;
    kind.counts := kind.counts || late.counts;
    kind.oldest := kind.oldest || late.oldest;
  END IF;
  IF kind.topics <> '{}' THEN
    SELECT coalesce(sum(each.n), 0), min(each.oldest) INTO events, since
      FROM unnest(kind.counts, kind.oldest,
        CASE WHEN c.topics <> '{**}' OR c.types <> '{}' THEN
          courier.patterns_take(c.topics, c.types, false, kind.topics, kind.types) END,
        CASE WHEN lane > 0 THEN
          courier.patterns_take(c.lane_topics, c.lane_types, true, kind.topics, kind.types) END
      ) AS each (n, oldest, by_sink, by_lane)
      WHERE coalesce(by_sink, true) AND coalesce(by_lane, true);
  END IF;
  is_exact := upto IS NULL AND is_cut IS NOT TRUE AND events <= 1000 AND (events = 0 OR coalesce(c.is_known, false));
  events := least(events, 1000);
END
$$;
COMMENT ON FUNCTION courier.waiting(text, integer, integer)
  IS 'Events that wait in the outbox for a lane: up to 1,000, whether that is all, and since when';

-- What a lane's pace says now: of five minutes without a delivery there are no times, and the rate is 0.
-- In seconds.
CREATE FUNCTION courier.pace_now(
  pace courier.pace, OUT delivered_at timestamptz, OUT rate real, OUT p50 double precision, OUT p99 double precision)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT at, CASE WHEN is_recent THEN (pace).rate ELSE 0 END,
         CASE WHEN is_recent THEN nullif((pace).p50_us, -1) / 1e6 END,
         CASE WHEN is_recent THEN nullif((pace).p99_us, -1) / 1e6 END
  FROM (SELECT 'epoch'::timestamptz + (pace).delivered_us * interval '1 us') AS last (at),
       LATERAL (SELECT coalesce(at > now() - interval '5 minutes', false)) AS recent (is_recent)
$$;
COMMENT ON FUNCTION courier.pace_now(courier.pace) IS 'When a lane last delivered, and how fast it does, in seconds';

-- The number of the event with this id, or NULL. No index leads to it, because each INSERT would have to
-- keep that: the outbox is read from its newest partition to its oldest.
CREATE FUNCTION courier.find_event(event_id uuid) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  part  regclass;
  found bigint;
BEGIN
  FOR part IN
    SELECT i.inhrelid::regclass FROM pg_inherits AS i
    LEFT JOIN courier.outbox_partition AS p ON format('courier.%I', p.name)::regclass = i.inhrelid
    WHERE i.inhparent = 'courier.outbox'::regclass ORDER BY p.lower DESC NULLS FIRST
  LOOP
    EXECUTE format('SELECT id FROM %s AS o WHERE o.event_id = $1 ORDER BY id LIMIT 1', part) INTO found USING event_id;
    IF found IS NOT NULL THEN
      RETURN found;
    END IF;
  END LOOP;
  RETURN coalesce(
    (SELECT p.outbox_id FROM courier.parked AS p WHERE p.event_id = find_event.event_id LIMIT 1),
    (SELECT d.outbox_id FROM courier.dead_letter AS d WHERE d.event_id = find_event.event_id LIMIT 1));
END
$$;
COMMENT ON FUNCTION courier.find_event(uuid) IS 'The number (courier.outbox.id) of the event with this id, or NULL';

-- Whether an event with these headers has all that match_headers of a sink asks for: ["region=eu", "tenant"].
CREATE FUNCTION courier.headers_match(headers jsonb, wanted jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(bool_and(coalesce(
           CASE WHEN strpos(w, '=') = 0 THEN headers ? w
                ELSE headers ->> split_part(w, '=', 1) = substr(w, strpos(w, '=') + 1) END, false)), true)
  FROM jsonb_array_elements_text(wanted) AS w
$$;
COMMENT ON FUNCTION courier.headers_match(jsonb, jsonb) IS 'Whether headers of an event meet match_headers of a sink';

REVOKE ALL ON FUNCTION courier.newest_attempts(integer, integer), courier.make_attempt_partition(date), courier.drop_attempts(), courier.find_event(uuid),
  courier.headers_match(jsonb, jsonb),
  courier.note_attempts(text[], integer[], text[], integer[], smallint[], text[], integer[], bigint[], bigint[],
                        bigint[], text[], text[], text[]),
  courier.waiting(text, integer, integer), courier.pace_now(courier.pace) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
  courier.note_attempts(text[], integer[], text[], integer[], smallint[], text[], integer[], bigint[], bigint[],
                        bigint[], text[], text[], text[]),
  courier.newest_attempts(integer, integer), courier.find_event(uuid), courier.waiting(text, integer, integer),
  courier.pace_now(courier.pace), courier.headers_match(jsonb, jsonb) TO courier_relay;
GRANT SELECT ON courier.attempt, courier.attempt_pack TO courier_relay;

INSERT INTO courier.schema_version (version, name) VALUES (11, 'story');
