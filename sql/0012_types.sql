-- pgcourier schema, version 12: the catalogue of event types.
--
-- What the types of events mean, for those who receive them: a description, a JSON Schema, an example. The
-- catalogue is a help and no gate: unless outbox.types is strict, publishing does not look at it.

-- Schema and example are json, which keeps the order that their author gave to the members.
CREATE TABLE courier.event_type (
  name        courier.event_type_name COLLATE "C" NOT NULL,
  description text,
  schema      json,
  example     json,
  deprecated  boolean     NOT NULL DEFAULT false,
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  changed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),

  CONSTRAINT event_type_pkey PRIMARY KEY (name),
  CONSTRAINT name_must_not_contain_control_characters CHECK (name COLLATE "default" !~ '[[:cntrl:]]'),
  CONSTRAINT description_must_be_at_most_10000_bytes CHECK (octet_length(description) <= 10000),
  CONSTRAINT schema_must_be_an_object CHECK (json_typeof(schema) = 'object'),
  CONSTRAINT schema_must_be_at_most_256_kibibytes CHECK (octet_length(schema::text) <= 262144),
  CONSTRAINT example_must_be_at_most_256_kibibytes CHECK (octet_length(example::text) <= 262144)
);
COMMENT ON TABLE courier.event_type
  IS 'The catalogue of the types of events; see pgcourier type';
COMMENT ON COLUMN courier.event_type.name IS 'courier.outbox.type of these events';
COMMENT ON COLUMN courier.event_type.description IS 'What such an event says, for its receivers';
COMMENT ON COLUMN courier.event_type.schema
  IS 'A JSON Schema (2020-12) of the payload; no event is checked against it';
COMMENT ON COLUMN courier.event_type.example
  IS 'A payload as it may come; pgcourier receiver test --type sends it';
COMMENT ON COLUMN courier.event_type.deprecated
  IS 'Still published, but new receivers should not rely on it';
COMMENT ON COLUMN courier.event_type.created_at IS 'When the type was added; kept by a trigger';
COMMENT ON COLUMN courier.event_type.changed_at IS 'When the row was last changed; set by a trigger';

CREATE FUNCTION courier.keep_event_type() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  NEW.created_at := OLD.created_at;
  NEW.changed_at := clock_timestamp();
  RETURN NEW;
END
$$;
COMMENT ON FUNCTION courier.keep_event_type() IS 'Keeps created_at and changed_at true';

CREATE TRIGGER keep_event_type BEFORE UPDATE ON courier.event_type
  FOR EACH ROW EXECUTE FUNCTION courier.keep_event_type();

-- Refuses events whose type is not in the catalogue. Two kinds of events pass: those without a type, which
-- claim to be nothing, and those of pgcourier itself (courier.receiver.failing and others), without which a
-- relay could not do its work. Runs with its owner's rights, because publishers may not read the catalogue.
CREATE FUNCTION courier.refuse_unknown_types() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  unknown text := (
    SELECT p.type FROM published AS p
    WHERE p.type IS NOT NULL AND NOT starts_with(p.type, 'courier.')
      AND NOT EXISTS (SELECT FROM courier.event_type AS k WHERE k.name = p.type)
    LIMIT 1);
BEGIN
  IF unknown IS NOT NULL THEN
    RAISE EXCEPTION 'the type % is not in courier.event_type, and outbox.types is strict', quote_literal(unknown)
      USING ERRCODE = 'check_violation', CONSTRAINT = 'type_must_be_known',
            SCHEMA = 'courier', TABLE = 'outbox', COLUMN = 'type',
            HINT = format('Correct the type, or add it to the catalogue: pgcourier type set %s', unknown);
  END IF;
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION courier.refuse_unknown_types()
  IS 'Refuses events whose type is not in the catalogue; its trigger exists only while outbox.types is strict';

CREATE FUNCTION courier.are_types_strict() RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'courier.outbox'::regclass AND tgname = 'refuse_unknown_types')
$$;
COMMENT ON FUNCTION courier.are_types_strict() IS 'Whether publishing refuses types that are not in the catalogue';

-- For the relay, which does what outbox.types says: has publishing refuse unknown types, or not. Returns
-- 'changed', or 'waits' if the outbox was in use, or NULL if nothing was to be done.
--
-- A trigger does it, so plain INSERTs and COPY are checked too; without it publishing costs what it cost
-- before. It belongs to the statement, not to the rows: the catalogue is asked once about all rows of an
-- INSERT, and only the outbox itself has to be locked, not its partitions. Later statements queue behind
-- that lock, so the call waits for it no longer than lock_wait_ms.
CREATE FUNCTION courier.require_known_types(required boolean, lock_wait_ms integer DEFAULT 100) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF required IS NULL OR (lock_wait_ms BETWEEN 1 AND 10000) IS NOT TRUE THEN
    RAISE EXCEPTION 'invalid required % or lock_wait_ms %', coalesce(required::text, 'NULL'), coalesce(lock_wait_ms::text, 'NULL')
      USING ERRCODE = 'invalid_parameter_value', HINT = 'required must be true or false, and lock_wait_ms from 1 to 10000';
  END IF;
  IF required = courier.are_types_strict() THEN
    RETURN NULL;
  END IF;
  BEGIN
    PERFORM set_config('lock_timeout', lock_wait_ms::text, true);
    -- What CREATE TRIGGER and DROP TRIGGER take.
    IF required THEN
      LOCK TABLE ONLY courier.outbox IN SHARE ROW EXCLUSIVE MODE;
    ELSE
      LOCK TABLE ONLY courier.outbox IN ACCESS EXCLUSIVE MODE;
    END IF;
  EXCEPTION WHEN lock_not_available THEN
    RETURN 'waits';
  END;
  IF required = courier.are_types_strict() THEN
    RETURN NULL; -- another session was faster
  END IF;
  IF required THEN
    CREATE TRIGGER refuse_unknown_types AFTER INSERT ON courier.outbox
      REFERENCING NEW TABLE AS published FOR EACH STATEMENT EXECUTE FUNCTION courier.refuse_unknown_types();
  ELSE
    DROP TRIGGER refuse_unknown_types ON courier.outbox;
  END IF;
  RETURN 'changed';
END
$$;
COMMENT ON FUNCTION courier.require_known_types(boolean, integer)
  IS 'For the relay: has publishing refuse types that are not in the catalogue, or not';

-- A publisher may not change what it has to keep to.
REVOKE ALL ON FUNCTION courier.keep_event_type(), courier.refuse_unknown_types(), courier.are_types_strict(),
  courier.require_known_types(boolean, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION courier.are_types_strict(), courier.require_known_types(boolean, integer) TO courier_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON courier.event_type TO courier_relay;

INSERT INTO courier.schema_version (version, name) VALUES (12, 'types');
