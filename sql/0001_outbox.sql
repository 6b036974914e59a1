-- pgcourier schema, version 1: the outbox, the cursors, the doorbell, the roles.
--
-- Applied by `pgcourier migrate` in one transaction, under an advisory lock. To apply it with
-- another tool: `pgcourier migrate --print`.

CREATE SCHEMA courier;
COMMENT ON SCHEMA courier IS 'pgcourier: events on their way out of this database';

CREATE TABLE courier.schema_version (
  version    integer     PRIMARY KEY,
  name       text        NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE courier.schema_version
  IS 'The migrations that have been applied; the highest version is the schema''s';

-- Roles without login: grant them to the roles that applications and the relay log in with.
DO $$
DECLARE
  role_name text;
BEGIN
  FOREACH role_name IN ARRAY ARRAY['courier_publisher', 'courier_relay', 'courier_attacher'] LOOP
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = role_name) THEN
      BEGIN
        EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN', role_name);
      EXCEPTION
        WHEN duplicate_object OR unique_violation THEN
          NULL; -- another session was faster
        WHEN insufficient_privilege THEN
          RAISE EXCEPTION 'role % does not exist and % may not create it', role_name, current_user
            USING ERRCODE = 'insufficient_privilege',
                  HINT = pg_catalog.format('Ask an administrator: CREATE ROLE %I NOLOGIN', role_name);
      END;
    END IF;
  END LOOP;
END
$$;

-- The rules of an event. They belong to the types of the columns rather than to the table, because PostgreSQL
-- reads each CHECK of a table anew for each statement: nine took a third of the time of an INSERT. The rules of a
-- type are kept by the session. An error does not show the payload, either.
CREATE DOMAIN courier.event_topic AS text
  CONSTRAINT topic_must_not_be_empty CHECK (VALUE <> '')
  CONSTRAINT topic_must_be_at_most_255_bytes CHECK (octet_length(VALUE) <= 255)
  CONSTRAINT topic_must_not_contain_control_characters CHECK (VALUE !~ '[[:cntrl:]]');
CREATE DOMAIN courier.event_key AS text
  CONSTRAINT key_must_be_null_rather_than_empty CHECK (VALUE <> '')
  CONSTRAINT key_must_be_at_most_1024_bytes CHECK (octet_length(VALUE) <= 1024);
CREATE DOMAIN courier.event_type_name AS text
  CONSTRAINT type_must_be_null_rather_than_empty CHECK (VALUE <> '')
  CONSTRAINT type_must_be_at_most_255_bytes CHECK (octet_length(VALUE) <= 255);
CREATE DOMAIN courier.event_headers AS jsonb
  CONSTRAINT headers_must_be_an_object CHECK (jsonb_typeof(VALUE) = 'object')
  CONSTRAINT headers_must_be_at_most_16_kibibytes CHECK (pg_column_size(VALUE) <= 16384);
COMMENT ON DOMAIN courier.event_topic IS 'The topic of an event, by the rules';
COMMENT ON DOMAIN courier.event_key IS 'The key of an event, by the rules';
COMMENT ON DOMAIN courier.event_type_name IS 'The type of an event, by the rules';
COMMENT ON DOMAIN courier.event_headers IS 'The headers of an event, by the rules';

-- The doorbell. A busy relay polls. A sleeping relay has to be woken; it holds the advisory lock
-- (1668248946, 0), or waits for it. A writer that gets the lock in shared mode knows that no relay
-- sleeps: it does not call the function, and keeps the lock until its transaction ends, so that no relay
-- falls asleep before that (docs/architecture.md). The notification has no payload; PostgreSQL sends
-- several of one transaction as one. courier.has_rung spares the transaction further calls; a rollback
-- to a savepoint takes back both.
--
-- The default of outbox.txid does this. The condition of a trigger would be parsed for each statement,
-- which cost a seventh of a small INSERT.
CREATE FUNCTION courier.ring() RETURNS xid8
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_catalog.pg_notify('courier', '');
  PERFORM pg_catalog.set_config('courier.has_rung', 'yes', true);
  RETURN pg_catalog.pg_current_xact_id();
END
$$;
COMMENT ON FUNCTION courier.ring()
  IS 'Wakes pgcourier when the transaction commits; returns the transaction''s id';

-- The outbox: an append-only log. No row is ever updated.
--
-- txid stands before id on purpose: defaults are evaluated in column order, so a transaction has
-- its xid before it draws its first id. The reader's bounds rest on that (docs/architecture.md).
-- Partitioned by id, so that old events are dropped a partition at a time: courier.maintain() makes
-- partitions ahead and drops old ones. If it is never called, the default partition takes all rows
-- (0006_retention.sql).
CREATE TABLE courier.outbox (
  txid       xid8                  NOT NULL DEFAULT
    CASE WHEN pg_catalog.pg_try_advisory_xact_lock_shared(1668248946, 0)
           OR pg_catalog.current_setting('courier.has_rung', true) = 'yes'
         THEN pg_catalog.pg_current_xact_id()
         ELSE courier.ring() END,
  id         bigint                GENERATED ALWAYS AS IDENTITY (CACHE 1),
  event_id   uuid                  NOT NULL DEFAULT gen_random_uuid(),
  topic      courier.event_topic   NOT NULL,
  key        courier.event_key,
  type       courier.event_type_name,
  payload    json,
  data       bytea,
  headers    courier.event_headers,
  created_at timestamptz           NOT NULL DEFAULT clock_timestamp(),
  deliver_at timestamptz,

  CONSTRAINT outbox_pkey PRIMARY KEY (id),
  CONSTRAINT exactly_one_of_payload_and_data CHECK ((payload IS NULL) <> (data IS NULL))
) PARTITION BY RANGE (id);

CREATE TABLE courier.outbox_p1 PARTITION OF courier.outbox FOR VALUES FROM (1) TO (1000001);
CREATE TABLE courier.outbox_p1000001 PARTITION OF courier.outbox FOR VALUES FROM (1000001) TO (5000001);
CREATE TABLE courier.outbox_default PARTITION OF courier.outbox DEFAULT;

-- Finds the rows of a few transactions, however small their ids: the reader's stragglers.
CREATE INDEX outbox_txid_id_idx ON courier.outbox (txid, id);

COMMENT ON TABLE courier.outbox IS 'Events, appended by the transactions that cause them; read by pgcourier';
COMMENT ON COLUMN courier.outbox.txid IS 'The transaction that wrote the row; never set by hand';
COMMENT ON COLUMN courier.outbox.id IS 'Order of insertion; gaps are normal';
COMMENT ON COLUMN courier.outbox.event_id
  IS 'Identity of the event towards receivers, the same at every attempt';
COMMENT ON COLUMN courier.outbox.topic
  IS 'What the event is about, e.g. orders.created; sinks choose topics by pattern';
COMMENT ON COLUMN courier.outbox.key
  IS 'Ordering key, usually the id of the aggregate; NULL: no order asked for';
COMMENT ON COLUMN courier.outbox.type IS 'The kind of event, for receivers; not used by pgcourier';
COMMENT ON COLUMN courier.outbox.payload
  IS 'The body as JSON, delivered byte for byte as it was written; NULL if data is set';
COMMENT ON COLUMN courier.outbox.data IS 'The body as bytes; NULL if payload is set';
COMMENT ON COLUMN courier.outbox.headers IS 'A JSON object of names and values that sinks may pass on';
COMMENT ON COLUMN courier.outbox.deliver_at
  IS 'Not delivered before this time; then it takes its place in the order of its key';

-- A reader trusts that each id is above all that were drawn before it (docs/architecture.md). A sequence
-- with a CACHE gives a session ids in advance, and one that was set back gives ids again. Returns what is
-- wrong and what helps; NULL: nothing is wrong. reached: the last id must not be below it.
CREATE FUNCTION courier.outbox_sequence_trouble(reached bigint, OUT trouble text, OUT remedy text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  last_id bigint := coalesce(pg_sequence_last_value('courier.outbox_id_seq'::regclass), 0);
  made    record := pg_sequence_parameters('courier.outbox_id_seq'::regclass);
BEGIN
  IF made.increment <> 1 OR made.cache_size <> 1 OR made.cycle_option THEN
    trouble := format('the sequence courier.outbox_id_seq was altered to INCREMENT %s CACHE %s %s, with which events'
                      ' would be passed over',
                      made.increment, made.cache_size, CASE WHEN made.cycle_option THEN 'CYCLE' ELSE 'NO CYCLE' END);
    remedy := 'ALTER SEQUENCE courier.outbox_id_seq INCREMENT 1 CACHE 1 NO CYCLE';
  ELSIF last_id < reached THEN
    trouble := format('the sequence courier.outbox_id_seq was set back to %s, although it had reached %s: events'
                      ' would be passed over', last_id, reached);
    remedy := 'Stop all relays and run: pgcourier rebase';
  END IF;
END
$$;
COMMENT ON FUNCTION courier.outbox_sequence_trouble(bigint)
  IS 'What is wrong with the sequence of the outbox, and what to do about it; NULL: nothing';

-- The floor of a frame: the last id that was drawn. Fails if the sequence cannot be relied on, or is
-- below what it had reached before; then no frame is made.
--
-- The value is read first: that takes a lock, held until the transaction ends, which ALTER SEQUENCE waits
-- for. So the settings read after it are those that the value was drawn with. A function reads them,
-- because the statement's snapshot is older than the lock.
CREATE FUNCTION courier.outbox_floor(reached bigint DEFAULT 0) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  last_id bigint := coalesce(pg_sequence_last_value('courier.outbox_id_seq'::regclass), 0);
  made    record := pg_sequence_parameters('courier.outbox_id_seq'::regclass);
  found   record;
BEGIN
  IF last_id < reached OR made.increment <> 1 OR made.cache_size <> 1 OR made.cycle_option THEN
    found := courier.outbox_sequence_trouble(reached);
    RAISE EXCEPTION '%', found.trouble USING ERRCODE = 'object_not_in_prerequisite_state', HINT = found.remedy;
  END IF;
  RETURN last_id;
END
$$;
COMMENT ON FUNCTION courier.outbox_floor(bigint)
  IS 'The last id that was drawn for an event; fails if the sequence cannot be relied on';

-- How far each lane has durably come. One row for each lane of each sink.
--
-- A cursor is a snapshot: everything visible in from_snapshot has been delivered. While a newer
-- snapshot is being worked through (until_*), so has everything of the difference up to last_id.
-- floor is the outbox's sequence, read after the snapshot was taken; xid is a transaction id drawn
-- after both.
-- How a lane delivers, for people: when it last did (microseconds since 1970), how many events a second in
-- the last minutes, and how many microseconds half of them and 99 of 100 took at most.
CREATE TYPE courier.pace AS (delivered_us bigint, rate real, p50_us integer, p99_us integer);
COMMENT ON TYPE courier.pace IS 'When and how fast a lane delivered';

CREATE TABLE courier.cursor (
  sink              text        NOT NULL,
  lane              integer     NOT NULL DEFAULT 0,
  lock_id           integer     GENERATED ALWAYS AS IDENTITY,
  epoch             bigint      NOT NULL DEFAULT 0,
  system_identifier bigint      NOT NULL,
  from_snapshot     pg_snapshot NOT NULL,
  from_floor        bigint      NOT NULL,
  from_xid          xid8        NOT NULL,
  until_snapshot    pg_snapshot,
  until_floor       bigint,
  until_xid         xid8,
  last_id           bigint      NOT NULL DEFAULT 0,
  settled_at        timestamptz NOT NULL DEFAULT now(),
  pace              courier.pace,
  is_owner_lane     boolean     NOT NULL DEFAULT false,

  CONSTRAINT cursor_pkey PRIMARY KEY (sink, lane),
  CONSTRAINT cursor_lock_id_key UNIQUE (lock_id),
  CONSTRAINT a_difference_is_open_or_not CHECK (num_nulls(until_snapshot, until_floor, until_xid) IN (0, 3))
) WITH (fillfactor = 50);

COMMENT ON TABLE courier.cursor IS 'How far each sink has durably come in the outbox';
COMMENT ON COLUMN courier.cursor.lock_id
  IS 'Second key of the advisory lock that the lane''s owner holds; the first is 1668248946';
COMMENT ON COLUMN courier.cursor.epoch
  IS 'Raised whenever a relay takes the lane; a settle of an older epoch changes nothing';
COMMENT ON COLUMN courier.cursor.system_identifier
  IS 'The cluster that the transaction ids of the snapshots belong to';
COMMENT ON COLUMN courier.cursor.pace IS 'How the lane delivered when it last settled; NULL: it never did';
COMMENT ON COLUMN courier.cursor.is_owner_lane
  IS 'This row delivers nothing: its lock covers the sink''s other lanes, and it keeps no events';

-- Whether a lane has an event behind it: every event that from_snapshot shows, and of an open difference
-- those with an id up to last_id. The planner inlines it.
CREATE FUNCTION courier.has_passed(
  from_snapshot pg_snapshot, until_snapshot pg_snapshot, last_id bigint, id bigint, txid xid8
) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT pg_catalog.pg_visible_in_snapshot(txid, from_snapshot)
         OR until_snapshot IS NOT NULL AND id <= last_id
            AND pg_catalog.pg_visible_in_snapshot(txid, until_snapshot)
$$;
COMMENT ON FUNCTION courier.has_passed(pg_snapshot, pg_snapshot, bigint, bigint, xid8)
  IS 'Whether a lane with this cursor has an event with this id and txid behind it';

-- The advisory locks of the relays: their first key is 1668248946 ("cour"), the second is the lock_id of
-- a lane, 0 for the doorbell or -1 (as an oid 4294967295) for courier.maintain(). Every role that may
-- connect can take one of them; but a role that may not move cursors runs no relay.
CREATE VIEW courier.relay_lock AS
  SELECT lock.objid::bigint AS lock_id, lock.pid, lock.mode = 'ExclusiveLock' AS is_exclusive,
         coalesce(pg_catalog.has_table_privilege(session.usesysid, 'courier.cursor', 'UPDATE'), true) AS is_relay,
         session.usename, session.application_name, session.client_addr, session.client_port,
         session.backend_start
  FROM pg_catalog.pg_locks AS lock
  LEFT JOIN pg_catalog.pg_stat_activity AS session USING (pid)
  WHERE lock.locktype = 'advisory' AND lock.classid = 1668248946 AND lock.objsubid = 2 AND lock.granted
    AND lock.database = (SELECT oid FROM pg_catalog.pg_database
                         WHERE datname = pg_catalog.current_database());
COMMENT ON VIEW courier.relay_lock
  IS 'The advisory locks of the relays in this database, and the sessions that hold them';
COMMENT ON COLUMN courier.relay_lock.is_relay
  IS 'Its role may move cursors; a session without that right only keeps relays out';

CREATE VIEW courier.lane_owner AS
  SELECT lane.sink, lane.lane, lock.pid, lock.application_name, lock.client_addr, lock.client_port
  FROM courier.cursor AS lane
  JOIN courier.cursor AS locked ON locked.sink = lane.sink AND locked.lane IN (0, lane.lane)
  JOIN courier.relay_lock AS lock ON lock.lock_id = locked.lock_id
  WHERE lock.is_relay;
COMMENT ON VIEW courier.lane_owner
  IS 'The relay that owns a lane: it holds the lock of that lane, or that of lane 0, which covers the sink''s others';

-- For the relay: takes the lock for this session, or gives up after at_most_ms. While it waits, new
-- writers do not get the lock in shared mode; when it is granted, all transactions that had it have
-- ended. It may be granted in the moment in which the time is up: then it is released again.
CREATE FUNCTION courier.await_quiet(at_most_ms integer) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_catalog.set_config('lock_timeout', at_most_ms::text, true);
  PERFORM pg_catalog.pg_advisory_lock(1668248946, 0);
  RETURN true;
EXCEPTION
  WHEN lock_not_available THEN
    PERFORM pg_catalog.pg_advisory_unlock_all();
    RETURN false;
END
$$;
COMMENT ON FUNCTION courier.await_quiet(integer)
  IS 'Takes the doorbell''s lock for the session: from then on every writer of events rings';

-- Publishes one event in the caller's transaction and returns its event_id. Give the body as
-- payload (JSON) or as data (bytes). The same as an INSERT into courier.outbox, with names:
--
--   SELECT courier.publish('orders.created', '{"order": 17}', key => '17');
--
-- Change rows first, publish last. An event is sure to come after that of another transaction if it is
-- published after that transaction committed, or after waiting for a lock that it held, such as the lock
-- of a row that both change.
--
-- With a dedup_key only the first event of that key is published: a later call returns that event's
-- event_id and publishes nothing (0010_dedup.sql).
--
-- Errors: check_violation with the name of the broken rule, e.g. topic_must_not_be_empty.
--
-- In plpgsql, because a session keeps its plans: before PostgreSQL 18, a function in SQL is parsed and
-- planned anew with each call.
CREATE FUNCTION courier.publish(
  topic      text,
  payload    json        DEFAULT NULL,
  key        text        DEFAULT NULL,
  type       text        DEFAULT NULL,
  headers    jsonb       DEFAULT NULL,
  deliver_at timestamptz DEFAULT NULL,
  data       bytea       DEFAULT NULL,
  event_id   uuid        DEFAULT gen_random_uuid(),
  dedup_key  text        DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql AS $$
DECLARE
  first_id uuid;
BEGIN
  IF dedup_key IS NOT NULL THEN
    first_id := courier.remember_dedup_key(dedup_key, event_id);
    IF first_id IS NOT NULL THEN
      RETURN first_id;
    END IF;
    headers := courier.dedup_headers(headers, dedup_key);
  END IF;
  INSERT INTO courier.outbox (event_id, topic, key, type, payload, data, headers, deliver_at)
  VALUES (event_id, topic, key, type, payload, data, headers, deliver_at);
  RETURN event_id;
END
$$;
COMMENT ON FUNCTION courier.publish(text, json, text, text, jsonb, timestamptz, bytea, uuid, text)
  IS 'Publishes one event in the current transaction; returns its event_id, or that of the first event of the dedup_key';

-- A publisher may publish, and nothing else: not read events, not choose txid or id.
REVOKE ALL ON FUNCTION courier.publish(text, json, text, text, jsonb, timestamptz, bytea, uuid, text) FROM PUBLIC;
GRANT USAGE ON SCHEMA courier TO courier_publisher;
GRANT INSERT (event_id, topic, key, type, payload, data, headers, deliver_at)
  ON courier.outbox TO courier_publisher;
GRANT EXECUTE ON FUNCTION courier.publish(text, json, text, text, jsonb, timestamptz, bytea, uuid, text)
  TO courier_publisher;

-- The highest id that is in use: by an event, a cursor, a receiver or a full partition.
CREATE FUNCTION courier.outbox_reached() RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN greatest(0, (SELECT max(id) FROM courier.outbox),
                  (SELECT greatest(max(from_floor), max(until_floor)) FROM courier.cursor),
                  (SELECT max(start_floor) FROM courier.receiver),
                  (SELECT max(upper) - 1 FROM courier.outbox_partition WHERE closed_xid IS NOT NULL));
END
$$;
COMMENT ON FUNCTION courier.outbox_reached() IS 'The lowest value that the sequence of the outbox may have';

-- TRUNCATE with RESTART IDENTITY would draw ids again that cursors and receivers have passed.
CREATE FUNCTION courier.keep_sequence() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF coalesce(pg_sequence_last_value('courier.outbox_id_seq'::regclass), 0) < courier.outbox_reached() THEN
    RAISE EXCEPTION 'the ids of courier.outbox must not restart: sinks would skip events'
      USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'TRUNCATE without RESTART IDENTITY';
  END IF;
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION courier.keep_sequence() IS 'Refuses to TRUNCATE the outbox with RESTART IDENTITY';

CREATE TRIGGER keep_sequence AFTER TRUNCATE ON courier.outbox
  FOR EACH STATEMENT EXECUTE FUNCTION courier.keep_sequence();

-- The relay reads events and moves cursors. It changes no event and no object.
GRANT USAGE ON SCHEMA courier TO courier_relay;
GRANT SELECT ON courier.outbox, courier.schema_version TO courier_relay;
GRANT SELECT ON SEQUENCE courier.outbox_id_seq TO courier_relay;
GRANT SELECT, INSERT, UPDATE ON courier.cursor TO courier_relay;
GRANT SELECT ON courier.relay_lock, courier.lane_owner TO courier_relay;
REVOKE ALL ON FUNCTION courier.has_passed(pg_snapshot, pg_snapshot, bigint, bigint, xid8) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION courier.has_passed(pg_snapshot, pg_snapshot, bigint, bigint, xid8) TO courier_relay;
REVOKE ALL ON FUNCTION courier.await_quiet(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION courier.await_quiet(integer) TO courier_relay;
-- All but outbox_floor(): the defaults of courier.receiver call it with the rights of the role that adds a
-- receiver.
REVOKE ALL ON FUNCTION courier.outbox_sequence_trouble(bigint), courier.outbox_reached(), courier.keep_sequence()
  FROM PUBLIC;
GRANT EXECUTE ON FUNCTION courier.outbox_sequence_trouble(bigint), courier.outbox_reached() TO courier_relay;

INSERT INTO courier.schema_version (version, name) VALUES (1, 'outbox');
