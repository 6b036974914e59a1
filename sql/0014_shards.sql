-- pgcourier schema, version 14: a sink in several shards, and the relays that share them
-- (docs/scaling.md).

-- Divides the keys of a sink: 0 to n - 1. An event without a key goes by its id, and so does a receiver. The hash
-- is the one by which PostgreSQL divides tables (PARTITION BY HASH); the planner inlines the function.
CREATE FUNCTION courier.shard_of(key text, n integer, id bigint DEFAULT NULL) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT pg_catalog.mod(coalesce(pg_catalog.hashtextextended(key COLLATE "C", 0) & 9223372036854775807, id), n)::integer
$$;
COMMENT ON FUNCTION courier.shard_of(text, integer, bigint)
  IS 'The shard of a key, or of an event without one by its id, in a sink of n shards: 0 to n - 1';

-- The lane of a shard. Lane 0 is a whole sink; no relay that knows nothing of shards takes part of one for it.
CREATE FUNCTION courier.shard_lane(shard integer, n integer) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN n = 1 THEN 0 ELSE -1 - shard END
$$;
COMMENT ON FUNCTION courier.shard_lane(integer, integer)
  IS 'The number of a shard''s lane: 0 if the sink has one shard, else -1 for shard 0, -2 for shard 1 and so on';

ALTER TABLE courier.sink
  ADD COLUMN shards        integer NOT NULL DEFAULT 1,
  ADD COLUMN shards_before integer,
  ADD COLUMN shards_wanted integer,
  ADD COLUMN hash_check    bigint  NOT NULL DEFAULT hashtextextended('pgcourier' COLLATE "C", 0),
  ADD CONSTRAINT shards_must_be_1_to_256 CHECK (shards BETWEEN 1 AND 256 AND shards_wanted BETWEEN 1 AND 256);
COMMENT ON COLUMN courier.sink.shards IS 'How many shards it has';
COMMENT ON COLUMN courier.sink.shards_before IS 'How many it had before that; NULL: it was never changed';
COMMENT ON COLUMN courier.sink.shards_wanted
  IS 'How many it is to have: its relays give their shards back, and the last one divides it anew; NULL: no change is under way';
COMMENT ON COLUMN courier.sink.hash_check
  IS 'What the hash of courier.shard_of() gave for a certain text when the sink was divided';

-- Where the shards ended that a sink had before. Its new shards begin where the last of them was, and leave out
-- what the others had behind them. Rows go once all lanes are past them.
CREATE TABLE courier.shard_end (
  sink           text        NOT NULL,
  lock_id        integer     NOT NULL,
  shards         integer     NOT NULL,
  number         integer     NOT NULL,
  from_snapshot  pg_snapshot NOT NULL,
  until_snapshot pg_snapshot,
  last_id        bigint      NOT NULL,

  CONSTRAINT shard_end_pkey PRIMARY KEY (sink, lock_id)
);
COMMENT ON TABLE courier.shard_end IS 'Where former shards of sinks ended';
COMMENT ON COLUMN courier.shard_end.lock_id IS 'That of its cursor';
COMMENT ON COLUMN courier.shard_end.shards IS 'How many shards the sink had then';
COMMENT ON COLUMN courier.shard_end.number IS 'Which of them it was';

-- Of one server, which shows more and more.
CREATE FUNCTION courier.shows_less(a pg_snapshot, b pg_snapshot) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT pg_catalog.pg_snapshot_xmax(a) < pg_catalog.pg_snapshot_xmax(b)
         OR pg_catalog.pg_snapshot_xmax(a) = pg_catalog.pg_snapshot_xmax(b)
            AND (SELECT pg_catalog.count(*) FROM pg_catalog.pg_snapshot_xip(a))
                > (SELECT pg_catalog.count(*) FROM pg_catalog.pg_snapshot_xip(b))
$$;
COMMENT ON FUNCTION courier.shows_less(pg_snapshot, pg_snapshot)
  IS 'Whether snapshot a is older than b: of two snapshots of one server';

-- Whether a former shard of the sink had the event behind it.
CREATE FUNCTION courier.had_passed(sink text, key text, id bigint, txid xid8) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (
    SELECT FROM courier.shard_end AS ended
    WHERE ended.sink = had_passed.sink
      AND ended.number = courier.shard_of(had_passed.key, ended.shards, had_passed.id)
      AND courier.has_passed(ended.from_snapshot, ended.until_snapshot, ended.last_id, had_passed.id, had_passed.txid))
$$;
COMMENT ON FUNCTION courier.had_passed(text, text, bigint, xid8)
  IS 'Whether the shards that a sink had before had an event behind them';

-- The relays. Each is a member as long as its session holds the lock of its row; nothing is written while it lives.
CREATE TABLE courier.member (
  name       text        NOT NULL,
  lock_id    integer     GENERATED ALWAYS AS IDENTITY (INCREMENT -1 START -2 MINVALUE -2147483648 MAXVALUE -2),
  host       text        NOT NULL,
  version    text        NOT NULL,
  weight     integer     NOT NULL,
  shards     jsonb       NOT NULL,
  is_leaving boolean     NOT NULL DEFAULT false,
  is_drained boolean     NOT NULL DEFAULT false,
  joined_at  timestamptz NOT NULL DEFAULT clock_timestamp(),

  CONSTRAINT member_pkey PRIMARY KEY (name),
  CONSTRAINT member_lock_id_key UNIQUE (lock_id),
  CONSTRAINT weight_must_be_1_to_1000 CHECK (weight BETWEEN 1 AND 1000),
  CONSTRAINT shards_must_be_an_object CHECK (jsonb_typeof(shards) = 'object')
);
COMMENT ON TABLE courier.member IS 'The relays, as each told when it joined; courier.live_member shows those that live';
COMMENT ON COLUMN courier.member.lock_id
  IS 'Second key of the advisory lock that its session holds; the first is 1668248946';
COMMENT ON COLUMN courier.member.weight IS 'Its share of the shards, beside those of the others';
COMMENT ON COLUMN courier.member.shards IS 'The sinks that it serves, each with the number of shards in its configuration';
COMMENT ON COLUMN courier.member.is_leaving IS 'It hands its shards over and ends';
COMMENT ON COLUMN courier.member.is_drained IS 'By hand: it is to have no shards';

CREATE VIEW courier.live_member AS
  SELECT member.*, lock.pid, lock.client_addr, lock.client_port
  FROM courier.member JOIN courier.relay_lock AS lock ON lock.lock_id = (member.lock_id::bigint & 4294967295)
  WHERE lock.is_relay;
COMMENT ON VIEW courier.live_member IS 'The relays that live';

-- For a relay's session. Two relays of one name get different ones: the second is called name/2.
CREATE FUNCTION courier.join_relays(name text, host text, version text, weight integer, shards jsonb) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  mine courier.member;
BEGIN
  FOR i IN 1 .. 1000 LOOP
    INSERT INTO courier.member (name, host, version, weight, shards)
      VALUES (join_relays.name || CASE WHEN i > 1 THEN '/' || i ELSE '' END,
              join_relays.host, join_relays.version, join_relays.weight, join_relays.shards)
      ON CONFLICT ON CONSTRAINT member_pkey DO NOTHING;
    SELECT * INTO mine FROM courier.member AS m
      WHERE m.name = join_relays.name || CASE WHEN i > 1 THEN '/' || i ELSE '' END;
    IF pg_try_advisory_lock(1668248946, mine.lock_id) THEN
      UPDATE courier.member AS m
        SET host = join_relays.host, version = join_relays.version, weight = join_relays.weight,
            shards = join_relays.shards, is_leaving = false, joined_at = clock_timestamp()
        WHERE m.name = mine.name;
      PERFORM pg_notify('courier_members', '');
      RETURN mine.name;
    END IF;
  END LOOP;
  RAISE EXCEPTION 'there are a thousand relays called %', join_relays.name
    USING HINT = 'give each a relay.name of its own';
END
$$;
COMMENT ON FUNCTION courier.join_relays(text, text, text, integer, jsonb)
  IS 'For a relay''s session: makes it a member; returns its name';

-- Divides a sink anew. The caller has the locks of all its shards, so nothing of them is under way.
--
-- A shard of the new ones takes keys of one or more of the old. If all these stood at one place, it begins there;
-- else it begins where the one that was behind had opened its difference, and leaves out what the others had
-- behind them (courier.shard_end). Old lanes go, with their locks: what a relay would still write changes nothing.
CREATE FUNCTION courier.divide_sink(sink text, shards integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  old integer := (SELECT s.shards FROM courier.sink AS s WHERE s.name = divide_sink.sink);
BEGIN
  -- Cursors of a fan-out's shards read for receivers, each of which has a cursor of its own.
  INSERT INTO courier.shard_end (sink, lock_id, shards, number, from_snapshot, until_snapshot, last_id)
    SELECT c.sink, c.lock_id, old, greatest(-1 - c.lane, 0), c.from_snapshot, c.until_snapshot, c.last_id
    FROM courier.cursor AS c
    WHERE c.sink = divide_sink.sink AND c.lane <= 0 AND NOT c.is_owner_lane
      AND divide_sink.shards % old <> 0
      AND 1 < (SELECT count(DISTINCT (d.from_snapshot::text, d.until_snapshot::text, d.last_id)) FROM courier.cursor AS d
               WHERE d.sink = divide_sink.sink AND d.lane <= 0);
  WITH was AS MATERIALIZED (
    SELECT c.*, greatest(-1 - c.lane, 0) AS number FROM courier.cursor AS c
    WHERE c.sink = divide_sink.sink AND c.lane <= 0
  ), gone AS (
    DELETE FROM courier.cursor AS c WHERE c.sink = divide_sink.sink AND c.lane <= 0
  ), begins AS MATERIALIZED (
    SELECT DISTINCT ON (number_now) number_now, was.*,
           (SELECT count(*) FROM was AS other
            WHERE other.number % gcd(old, divide_sink.shards) = number_now % gcd(old, divide_sink.shards)
              AND (other.from_snapshot::text, other.until_snapshot::text, other.last_id)
                  IS DISTINCT FROM (was.from_snapshot::text, was.until_snapshot::text, was.last_id)) > 0 AS differ,
           (SELECT max(epoch) FROM was) AS last_epoch
    FROM generate_series(0, divide_sink.shards - 1) AS number_now
    JOIN was ON was.number % gcd(old, divide_sink.shards) = number_now % gcd(old, divide_sink.shards)
    ORDER BY number_now, pg_snapshot_xmax(was.from_snapshot),
             (SELECT count(*) FROM pg_snapshot_xip(was.from_snapshot)) DESC
  )
  INSERT INTO courier.cursor (sink, lane, epoch, system_identifier, from_snapshot, from_floor, from_xid,
    until_snapshot, until_floor, until_xid, last_id, is_owner_lane)
  SELECT sink, -1000 - number_now, last_epoch, system_identifier, from_snapshot, from_floor, from_xid,
         CASE WHEN NOT differ THEN until_snapshot END, CASE WHEN NOT differ THEN until_floor END,
         CASE WHEN NOT differ THEN until_xid END, CASE WHEN differ THEN 0 ELSE last_id END, is_owner_lane
  FROM begins;
  UPDATE courier.cursor AS c SET lane = courier.shard_lane(-1000 - c.lane, divide_sink.shards)
    WHERE c.sink = divide_sink.sink AND c.lane <= -1000;
  UPDATE courier.parked AS p
    SET lane = courier.shard_lane(courier.shard_of(p.key, divide_sink.shards, p.outbox_id), divide_sink.shards)
    WHERE p.sink = divide_sink.sink AND p.lane <= 0
      AND p.lane <> courier.shard_lane(courier.shard_of(p.key, divide_sink.shards, p.outbox_id), divide_sink.shards);
  UPDATE courier.sink AS s SET shards = divide_sink.shards, shards_before = old, shards_wanted = NULL
    WHERE s.name = divide_sink.sink;
END
$$;
COMMENT ON FUNCTION courier.divide_sink(text, integer)
  IS 'For courier.agree_shards(): gives a sink another number of shards';

-- For a relay that is to serve a sink, before it takes any shard: makes the cursors of a new sink, and gives a sink
-- the number of shards that the relay's configuration names. Verdicts:
--
--   ready     the sink has so many shards
--   changing  the number is being changed: relays that have shards of the sink give them back
--   older     another relay has a newer configuration
--
-- Which of two numbers is newer? A relay that comes with a number other than the one in force brings a change,
-- unless it is the number of before: then the relay was not restarted yet, or was restarted with its old file, and
-- waits as long as some other relay lives whose number is in force.
CREATE FUNCTION courier.agree_shards(
  sink text, shards integer, fans_out boolean, from_now boolean, relay text,
  OUT verdict text, OUT in_force integer, OUT newest_end text
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
#variable_conflict use_column
DECLARE
  snapshot pg_snapshot;
  floor    bigint;
  xid      xid8;
  noted    courier.sink;
  lane     record;
BEGIN
  -- What the snapshot still needs is kept from here on: courier.maintain() waits for this transaction. The floor is
  -- read after the snapshot, and the next transaction id after both, before this transaction draws one.
  LOCK TABLE courier.cursor IN ROW EXCLUSIVE MODE;
  SELECT pg_current_snapshot() INTO snapshot;
  SELECT courier.outbox_floor() INTO floor;
  SELECT (pg_snapshot_xmax(snapshot)::text::bigint + age(pg_snapshot_xmax(snapshot)::xid))::text::xid8 INTO xid;
  IF NOT from_now THEN -- a snapshot that sees nothing, and the first transaction id there is
    snapshot := '1:1:';
    floor := 0;
    xid := '3';
  END IF;

  INSERT INTO courier.sink (name, fans_out, shards)
    VALUES (agree_shards.sink, agree_shards.fans_out, agree_shards.shards) ON CONFLICT DO NOTHING;
  SELECT * INTO noted FROM courier.sink AS s WHERE s.name = agree_shards.sink FOR UPDATE;
  IF noted.shards > 1 AND noted.hash_check <> hashtextextended('pgcourier' COLLATE "C", 0) THEN
    RAISE EXCEPTION 'the shards of sink % were divided by another hash function', agree_shards.sink
      USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'this PostgreSQL runs on another kind of machine than the one before: run pgcourier rebase';
  END IF;

  IF NOT EXISTS (SELECT FROM courier.cursor AS c WHERE c.sink = agree_shards.sink AND c.lane <= 0) THEN
    UPDATE courier.sink AS s SET shards = agree_shards.shards, shards_before = NULL, shards_wanted = NULL
      WHERE s.name = agree_shards.sink;
    INSERT INTO courier.cursor (sink, lane, system_identifier, from_snapshot, from_floor, from_xid, is_owner_lane)
      SELECT agree_shards.sink, courier.shard_lane(number, agree_shards.shards), system_identifier,
             snapshot, floor, xid, agree_shards.fans_out
      FROM pg_control_system(), generate_series(0, agree_shards.shards - 1) AS number;
    noted.shards := agree_shards.shards;
    noted.shards_wanted := NULL;
  END IF;

  IF noted.shards_wanted IS NULL AND noted.shards <> agree_shards.shards
     AND (agree_shards.shards IS DISTINCT FROM noted.shards_before
          OR NOT EXISTS (SELECT FROM courier.live_member AS m
                         WHERE m.name <> agree_shards.relay
                           AND m.shards ->> agree_shards.sink = noted.shards::text)) THEN
    UPDATE courier.sink AS s SET shards_wanted = agree_shards.shards WHERE s.name = agree_shards.sink;
    PERFORM pg_notify('courier_control', '');
    noted.shards_wanted := agree_shards.shards;
  END IF;

  verdict := 'ready';
  IF noted.shards_wanted IS NOT NULL THEN
    -- A session could have a lock twice: this one gives its shards back first.
    IF EXISTS (SELECT FROM courier.relay_lock AS held JOIN courier.cursor AS c ON c.lock_id = held.lock_id
               WHERE held.pid = pg_backend_pid() AND c.sink = agree_shards.sink AND c.lane <= 0) THEN
      verdict := 'changing';
    END IF;
    FOR lane IN SELECT c.lock_id FROM courier.cursor AS c
                WHERE c.sink = agree_shards.sink AND c.lane <= 0 ORDER BY c.lock_id LOOP
      EXIT WHEN verdict = 'changing';
      IF NOT pg_try_advisory_xact_lock(1668248946, lane.lock_id) THEN
        verdict := 'changing';
      END IF;
    END LOOP;
    IF verdict = 'ready' THEN
      PERFORM courier.divide_sink(agree_shards.sink, noted.shards_wanted);
      PERFORM pg_notify('courier_control', '');
      noted.shards := noted.shards_wanted;
    END IF;
  END IF;
  IF verdict = 'ready' AND noted.shards <> agree_shards.shards THEN
    verdict := 'older';
  END IF;
  in_force := noted.shards;
  newest_end := (SELECT s::text
                 FROM courier.shard_end AS e, unnest(ARRAY[e.from_snapshot, e.until_snapshot]) AS s
                 WHERE e.sink = agree_shards.sink AND s IS NOT NULL
                 ORDER BY pg_snapshot_xmax(s) DESC, (SELECT count(*) FROM pg_snapshot_xip(s)) LIMIT 1);
END
$$;
COMMENT ON FUNCTION courier.agree_shards(text, integer, boolean, boolean, text)
  IS 'For a relay that is to serve a sink: gives it the number of shards that its configuration names';

-- Removes the ends of former shards that all lanes of their sinks are past.
CREATE FUNCTION courier.forget_shard_ends() RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  WITH gone AS (
    DELETE FROM courier.shard_end AS e
    WHERE NOT EXISTS (
      SELECT FROM courier.cursor AS c
      WHERE c.sink = e.sink AND c.lane <= 0
        AND (courier.shows_less(c.from_snapshot, e.from_snapshot)
             OR courier.shows_less(c.from_snapshot, e.until_snapshot)))
    RETURNING 1
  )
  SELECT count(*) FROM gone
$$;
COMMENT ON FUNCTION courier.forget_shard_ends() IS 'For courier.maintain(): removes what no lane needs of former shards';

-- The lock of a receiver's lane is that of its shard.
CREATE OR REPLACE VIEW courier.lane_owner AS
  SELECT lane.sink, lane.lane, lock.pid, lock.application_name, lock.client_addr, lock.client_port
  FROM courier.cursor AS lane
  LEFT JOIN courier.sink AS noted ON noted.name = lane.sink
  JOIN courier.cursor AS locked
    ON locked.sink = lane.sink
       AND (locked.lane = lane.lane
            OR lane.lane > 0 AND locked.lane = courier.shard_lane(courier.shard_of(NULL, coalesce(noted.shards, 1), lane.lane),
                                                                  coalesce(noted.shards, 1)))
  JOIN courier.relay_lock AS lock ON lock.lock_id = locked.lock_id
  WHERE lock.is_relay;
COMMENT ON VIEW courier.lane_owner
  IS 'The relay that owns a lane: it holds the lock of that lane, or for a receiver''s that of its shard';

-- A relay of an older version knows nothing of shards: it would make a cursor for the whole sink.
CREATE FUNCTION courier.keep_lanes() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (SELECT shards FROM courier.sink WHERE name = NEW.sink) > 1 THEN
    RAISE EXCEPTION 'sink % is divided into shards, which this relay knows nothing of', NEW.sink
      USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'run the version of pgcourier that the others run';
  END IF;
  RETURN NEW;
END
$$;
COMMENT ON FUNCTION courier.keep_lanes() IS 'Refuses the cursor of a whole sink that has shards';
CREATE TRIGGER keep_lanes BEFORE INSERT ON courier.cursor
  FOR EACH ROW WHEN (NEW.lane = 0) EXECUTE FUNCTION courier.keep_lanes();

REVOKE ALL ON FUNCTION courier.shard_of(text, integer, bigint), courier.shard_lane(integer, integer),
  courier.shows_less(pg_snapshot, pg_snapshot), courier.had_passed(text, text, bigint, xid8),
  courier.join_relays(text, text, text, integer, jsonb), courier.divide_sink(text, integer),
  courier.agree_shards(text, integer, boolean, boolean, text), courier.forget_shard_ends(), courier.keep_lanes()
  FROM PUBLIC;
GRANT EXECUTE ON FUNCTION courier.shard_of(text, integer, bigint) TO PUBLIC;
GRANT EXECUTE ON FUNCTION courier.shard_lane(integer, integer),
  courier.shows_less(pg_snapshot, pg_snapshot), courier.had_passed(text, text, bigint, xid8),
  courier.join_relays(text, text, text, integer, jsonb), courier.divide_sink(text, integer),
  courier.agree_shards(text, integer, boolean, boolean, text), courier.forget_shard_ends() TO courier_relay;
GRANT SELECT, INSERT, DELETE ON courier.shard_end TO courier_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON courier.member TO courier_relay;
GRANT SELECT ON courier.live_member TO courier_relay;

INSERT INTO courier.schema_version (version, name) VALUES (14, 'shards');
