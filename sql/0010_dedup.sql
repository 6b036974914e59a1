-- pgcourier schema, version 10: publish once.
--
-- courier.publish(..., dedup_key => 'order-17:v1') publishes the first event of a key, and returns that
-- event's id to every later call of the key, until the retention of the keys is over. The key's row is
-- written by the transaction that publishes: both are there, or neither is. The unique index makes
-- concurrent calls wait for each other.

-- Keys are compared as bytes: the order of a collation may change with the system's libraries, and the
-- index would then let a key in twice. Expired rows are removed in the order of published_at; what vacuum
-- has not cleaned up yet lies in the way there, so it comes early.
CREATE TABLE courier.dedup (
  key          text        COLLATE "C" NOT NULL,
  event_id     uuid        NOT NULL,
  published_at timestamptz NOT NULL DEFAULT clock_timestamp(),

  CONSTRAINT dedup_pkey PRIMARY KEY (key),
  CONSTRAINT dedup_key_must_not_be_empty CHECK (key <> ''),
  CONSTRAINT dedup_key_must_be_at_most_255_bytes CHECK (octet_length(key) <= 255),
  CONSTRAINT dedup_key_must_not_contain_control_characters CHECK (key COLLATE "default" !~ '[[:cntrl:]]')
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX dedup_published_at_idx ON courier.dedup (published_at);

COMMENT ON TABLE courier.dedup
  IS 'The dedup keys of events that were published; a key that is older than courier.dedup_retention is free';
COMMENT ON COLUMN courier.dedup.event_id IS 'The event that the key stands for; its row in courier.outbox may be gone';

-- One row: for how long a key stands for its event. Publishers have no configuration, so the relay writes
-- outbox.dedup_retention here.
CREATE TABLE courier.dedup_retention (
  retention interval NOT NULL,

  CONSTRAINT retention_must_be_at_least_a_minute CHECK (retention >= '1 minute')
);
CREATE UNIQUE INDEX dedup_retention_has_one_row ON courier.dedup_retention ((true));
INSERT INTO courier.dedup_retention (retention) VALUES ('7 days');
COMMENT ON TABLE courier.dedup_retention
  IS 'For how long a dedup key stands for its event; written by courier.forget_dedup_keys()';

-- Makes the key stand for the event and returns NULL; or returns the event that it stands for already.
--
-- A key that another transaction is just writing is waited for: if that one rolls back, the key is free.
-- A key that stands for an event is only read: calls that repeat it write nothing, and do not wait for
-- each other. With repeatable read or serializable, a key that was written after the transaction's
-- snapshot is a serialization_failure.
--
-- Publishers may call it, but not read the table: it runs as the owner of the schema, and tells an
-- event_id only to who knows its key.
CREATE FUNCTION courier.remember_dedup_key(dedup_key text, new_event_id uuid) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  expired  timestamptz;
  found_id uuid;
  found_at timestamptz;
BEGIN
  LOOP
    INSERT INTO courier.dedup (key, event_id) VALUES (dedup_key, new_event_id) ON CONFLICT (key) DO NOTHING;
    IF FOUND THEN
      RETURN NULL;
    END IF;
    expired := clock_timestamp() - (SELECT r.retention FROM courier.dedup_retention AS r);
    SELECT d.event_id, d.published_at INTO found_id, found_at FROM courier.dedup AS d WHERE d.key = dedup_key;
    CONTINUE WHEN NOT FOUND; -- it was removed in between
    IF (found_at < expired) IS NOT TRUE THEN
      RETURN found_id;
    END IF;
    UPDATE courier.dedup AS d SET event_id = new_event_id, published_at = clock_timestamp()
      WHERE d.key = dedup_key AND d.published_at < expired;
    IF FOUND THEN
      RETURN NULL;
    END IF;
  END LOOP;
END
$$;
COMMENT ON FUNCTION courier.remember_dedup_key(text, uuid)
  IS 'Makes a dedup key stand for an event; or returns the event that it stands for already';

-- The headers of an event with a dedup key.
CREATE FUNCTION courier.dedup_headers(headers jsonb, dedup_key text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF headers ->> 'dedup-key' IS DISTINCT FROM dedup_key AND headers ? 'dedup-key' THEN
    RAISE EXCEPTION 'headers have a "dedup-key" of their own, which is not the dedup_key %', quote_literal(dedup_key)
      USING ERRCODE = 'check_violation', CONSTRAINT = 'headers_must_not_have_another_dedup_key',
            HINT = 'Leave it out of the headers: courier.publish() adds it';
  END IF;
  RETURN coalesce(headers, '{}') || jsonb_build_object('dedup-key', dedup_key);
END
$$;
COMMENT ON FUNCTION courier.dedup_headers(jsonb, text) IS 'The headers of an event with a dedup key';

-- Removes at most at_most expired keys, the oldest first, and returns how many, and the time of the
-- youngest; give that as since to go on behind them. retention: for how long a key stands for its event,
-- from now on; NULL: as before. Keys that a transaction has just taken anew are passed over.
CREATE FUNCTION courier.forget_dedup_keys(
  retention interval    DEFAULT NULL,
  at_most   integer     DEFAULT 10000,
  since     timestamptz DEFAULT '-infinity',
  OUT keys  bigint,
  OUT until timestamptz
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  expired timestamptz;
BEGIN
  IF retention < '1 minute' THEN
    RAISE EXCEPTION 'invalid retention % of dedup keys', quote_literal(retention)
      USING ERRCODE = 'invalid_parameter_value', HINT = 'It must be at least 1 minute; NULL leaves it as it is';
  END IF;
  IF (at_most BETWEEN 1 AND 1000000) IS NOT TRUE OR since IS NULL THEN
    RAISE EXCEPTION 'invalid at_most % or since %', at_most, quote_nullable(since)
      USING ERRCODE = 'invalid_parameter_value', HINT = 'at_most must be from 1 to 1000000, and since a time';
  END IF;
  UPDATE courier.dedup_retention AS r SET retention = forget_dedup_keys.retention
    WHERE r.retention <> forget_dedup_keys.retention;
  expired := clock_timestamp() - (SELECT r.retention FROM courier.dedup_retention AS r);
  WITH gone AS (
    DELETE FROM courier.dedup WHERE ctid = ANY (ARRAY(
      SELECT d.ctid FROM courier.dedup AS d WHERE d.published_at >= since AND d.published_at < expired
      ORDER BY d.published_at LIMIT at_most FOR UPDATE SKIP LOCKED))
    RETURNING published_at)
  SELECT count(*), max(g.published_at) INTO keys, until FROM gone AS g;
END
$$;
COMMENT ON FUNCTION courier.forget_dedup_keys(interval, integer, timestamptz)
  IS 'Removes expired dedup keys, and says from now on for how long they are kept';

REVOKE ALL ON FUNCTION courier.remember_dedup_key(text, uuid), courier.dedup_headers(jsonb, text),
  courier.forget_dedup_keys(interval, integer, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION courier.remember_dedup_key(text, uuid), courier.dedup_headers(jsonb, text)
  TO courier_publisher;
GRANT EXECUTE ON FUNCTION courier.forget_dedup_keys(interval, integer, timestamptz) TO courier_relay;

INSERT INTO courier.schema_version (version, name) VALUES (10, 'dedup');
