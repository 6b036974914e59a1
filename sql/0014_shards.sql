-- pgcourier schema, version 14: a sink in several shards, and the relays that share them
-- (docs/architecture.md).

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
  from_floor     bigint      NOT NULL,
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
  -- Names of relays that have not been seen for long, such as those of pods.
  DELETE FROM courier.member AS m
    WHERE joined_at < clock_timestamp() - interval '7 days' AND NOT is_drained
      AND NOT EXISTS (SELECT FROM courier.relay_lock AS held
                      WHERE held.lock_id = (m.lock_id::bigint & 4294967295));
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

-- Puts what is parked for a sink into the lanes of so many shards.
CREATE FUNCTION courier.move_parked(sink text, shards integer) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  UPDATE courier.parked AS p
    SET lane = courier.shard_lane(courier.shard_of(p.key, move_parked.shards, p.outbox_id), move_parked.shards)
    WHERE p.sink = move_parked.sink AND p.lane <= 0
      AND p.lane <> courier.shard_lane(courier.shard_of(p.key, move_parked.shards, p.outbox_id), move_parked.shards)
$$;
COMMENT ON FUNCTION courier.move_parked(text, integer)
  IS 'For courier.divide_sink(): puts what is parked for a sink into the lanes of its shards';

-- For commands that park a delivery, which no lane has at hand: the lane of its receiver, or of its key's shard.
-- Until the transaction ends the sink is not divided anew.
CREATE FUNCTION courier.lane_to_park(sink text, lane integer, key text, id bigint) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  n integer;
BEGIN
  IF lane > 0 THEN
    RETURN lane;
  END IF;
  SELECT s.shards INTO n FROM courier.sink AS s WHERE s.name = lane_to_park.sink FOR SHARE;
  n := coalesce(n, 1); -- no relay has served it yet
  RETURN courier.shard_lane(courier.shard_of(key, n, id), n);
END
$$;
COMMENT ON FUNCTION courier.lane_to_park(text, integer, text, bigint)
  IS 'The lane in which a delivery is parked by hand; the sink keeps its shards until the transaction ends';

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
  INSERT INTO courier.shard_end (sink, lock_id, shards, number, from_snapshot, from_floor, until_snapshot, last_id)
    SELECT c.sink, c.lock_id, old, greatest(-1 - c.lane, 0), c.from_snapshot, c.from_floor, c.until_snapshot, c.last_id
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
  PERFORM courier.move_parked(divide_sink.sink, divide_sink.shards);
  UPDATE courier.sink AS s
    SET shards = divide_sink.shards, shards_before = old, shards_wanted = NULL, hash_check = DEFAULT
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
    UPDATE courier.sink AS s
      SET shards = agree_shards.shards, shards_before = NULL, shards_wanted = NULL, hash_check = DEFAULT
      WHERE s.name = agree_shards.sink;
    INSERT INTO courier.cursor (sink, lane, system_identifier, from_snapshot, from_floor, from_xid, is_owner_lane)
      SELECT agree_shards.sink, courier.shard_lane(number, agree_shards.shards), system_identifier,
             snapshot, floor, xid, agree_shards.fans_out
      FROM pg_control_system(), generate_series(0, agree_shards.shards - 1) AS number;
    PERFORM courier.move_parked(agree_shards.sink, agree_shards.shards); -- redriven before
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

-- The highest id that is in use: by an event, a cursor, a receiver or a full partition.
CREATE OR REPLACE FUNCTION courier.outbox_reached() RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN greatest(0, (SELECT max(id) FROM courier.outbox),
                  (SELECT greatest(max(from_floor), max(until_floor)) FROM courier.cursor),
                  (SELECT greatest(max(from_floor), max(last_id)) FROM courier.shard_end),
                  (SELECT max(start_floor) FROM courier.receiver),
                  (SELECT max(upper) - 1 FROM courier.outbox_partition WHERE closed_xid IS NOT NULL));
END
$$;

-- The story of each receiver, without its secrets. A row takes a few milliseconds if many events wait for
-- the receiver, so ask by name, or for some columns only.
CREATE OR REPLACE VIEW courier.receiver_status AS
  SELECT r.sink, r.name, r.id AS lane, r.state, r.state_reason, r.state_since, r.failing_since,
         pace.delivered_at AS last_delivered_at, pace.rate, pace.p50, pace.p99,
         greatest(failed.at, r.last_failed_at) AS last_failed_at,
         CASE WHEN failed.at >= coalesce(r.last_failed_at, '-infinity') OR failed.answer = r.last_error THEN failed.status END AS last_status,
         CASE WHEN failed.at >= coalesce(r.last_failed_at, '-infinity') THEN failed.answer ELSE r.last_error END AS last_error,
         waiting.events AS waiting, waiting.is_exact AS waiting_is_exact, waiting.since AS waiting_since,
         parked.retrying, parked.next_at, parked.blocked, parked.blocked_keys, parked.delayed, dead.n AS dead,
         EXISTS (SELECT FROM courier.lane_owner AS owner JOIN courier.sink AS noted ON noted.name = owner.sink AND noted.fans_out
                 WHERE owner.sink = r.sink
                   AND owner.lane = courier.shard_lane(courier.shard_of(NULL, noted.shards, r.id), noted.shards)) AS is_served,
         regexp_replace(r.url, '[?#].*$', '?...') AS url, r.topics, r.types, r.filter::text AS filter,
         r.rate AS rate_limit, r.burst, r.concurrency, r.start, r.description, r.created_at
  FROM courier.receiver AS r
  LEFT JOIN courier.cursor AS c ON c.sink = r.sink AND c.lane = r.id
  CROSS JOIN LATERAL courier.pace_now(c.pace) AS pace
  CROSS JOIN LATERAL courier.waiting(r.sink, r.id) AS waiting
  CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE p.state = 'retry') AS retrying,
           min(p.due_at) FILTER (WHERE p.state = 'retry') AS next_at,
           count(*) FILTER (WHERE p.state = 'blocked') AS blocked,
           count(DISTINCT p.key) FILTER (WHERE p.state = 'blocked') AS blocked_keys,
           count(*) FILTER (WHERE p.state = 'delayed') AS delayed
    FROM courier.parked AS p WHERE p.sink = r.sink AND p.lane = r.id) AS parked
  CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM courier.dead_letter AS d
    WHERE d.sink = r.sink AND d.lane = r.id AND d.lane <> 0) AS dead
  LEFT JOIN LATERAL (
    SELECT p.at, p.status, p.answer FROM courier.attempt_pack AS p
    WHERE p.lane = r.id AND p.outcome <> 'delivered' ORDER BY p.at DESC LIMIT 1) AS failed ON true;
COMMENT ON VIEW courier.receiver_status
  IS 'How each receiver is, since when, what waits for it and what it last answered';

-- The way of one event: a row for each sink and receiver.
--
--   delivered   the destination took it; at, took_ms and status if the attempt was recorded
--   waiting     it has not been tried; the reason says behind what
--   retrying    an attempt failed; next_at says when the next one is due
--   dead        given up; the reason says why
--   not_taken   the reason says by which of topics, types, headers or filter
--
-- Filters are asked of lanes that have passed the event without a trace of it: the relay has asked them in
-- time. If the outbox does not have the event any more, there are rows only where something of it is left.
CREATE OR REPLACE FUNCTION courier.trace(outbox_id bigint)
RETURNS TABLE (sink text, receiver text, lane integer, state text, reason text, at timestamptz, took_ms double precision,
               status integer, attempts integer, next_at timestamptz)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
  WITH event AS MATERIALIZED (
    SELECT o.* FROM courier.outbox AS o WHERE o.id = trace.outbox_id LIMIT 1
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
                WHEN j.parked_state IS NOT NULL THEN 'waiting'
                WHEN j.dead_reason IS NOT NULL AND j.outcome IS DISTINCT FROM 'delivered' THEN 'dead'
                WHEN j.outcome = 'delivered' THEN 'delivered'
                WHEN j.not_taken IS NOT NULL THEN 'not_taken'
                WHEN j.is_passed THEN 'delivered'
                WHEN j.outcome = 'dead' THEN 'dead' -- its dead letter was dropped
                ELSE 'waiting' END AS state
    FROM judged AS j
    OFFSET 0
  )
  SELECT s.sink, s.receiver, s.lane, s.state,
         CASE s.state
           WHEN 'retrying' THEN s.parked_error
           WHEN 'dead' THEN coalesce(s.dead_reason || ': ' || s.error, s.answer)
           WHEN 'not_taken' THEN s.not_taken
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
                      WHEN 'retrying' THEN s.last_failed_at ELSE s.tried_at END,
         (s.took_us / 1e3)::double precision, s.status::integer,
         greatest(s.n_tried, s.parked_attempts, s.dead_attempts)::integer,
         CASE WHEN s.state IN ('retrying', 'waiting') AND s.parked_state <> 'blocked' THEN s.due_at END
  FROM stated AS s
  ORDER BY s.sink, s.lane
$$;
COMMENT ON FUNCTION courier.trace(bigint) IS 'The way of one event: what became of it at each sink and receiver';

REVOKE ALL ON FUNCTION courier.shard_of(text, integer, bigint), courier.shard_lane(integer, integer),
  courier.shows_less(pg_snapshot, pg_snapshot), courier.had_passed(text, text, bigint, xid8),
  courier.join_relays(text, text, text, integer, jsonb), courier.move_parked(text, integer),
  courier.lane_to_park(text, integer, text, bigint), courier.divide_sink(text, integer),
  courier.agree_shards(text, integer, boolean, boolean, text), courier.forget_shard_ends(), courier.keep_lanes(),
  courier.trace(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION courier.shard_of(text, integer, bigint) TO PUBLIC;
GRANT EXECUTE ON FUNCTION courier.shard_lane(integer, integer),
  courier.shows_less(pg_snapshot, pg_snapshot), courier.had_passed(text, text, bigint, xid8),
  courier.join_relays(text, text, text, integer, jsonb), courier.move_parked(text, integer),
  courier.lane_to_park(text, integer, text, bigint), courier.divide_sink(text, integer),
  courier.agree_shards(text, integer, boolean, boolean, text), courier.forget_shard_ends(), courier.trace(bigint) TO courier_relay;
GRANT SELECT, INSERT, DELETE ON courier.shard_end TO courier_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON courier.member TO courier_relay;
GRANT SELECT ON courier.live_member, courier.receiver_status TO courier_relay;

-- Programs of version 14 and later read it.
ALTER TABLE courier.schema_version ADD COLUMN serves_from integer;
COMMENT ON COLUMN courier.schema_version.serves_from
  IS 'The oldest version whose programs this version of the schema serves as well; NULL: it serves its own only';

INSERT INTO courier.schema_version (version, name) VALUES (14, 'shards');
