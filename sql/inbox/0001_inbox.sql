-- pgcourier's inbox, version 1: which events a consumer has accepted.
--
-- It belongs in the consumer's database, which need not have schema courier. Applied by
-- `pgcourier migrate --inbox` in one transaction, under an advisory lock. To apply it with another
-- tool: `pgcourier migrate --inbox --print`.

CREATE SCHEMA courier_inbox;
COMMENT ON SCHEMA courier_inbox IS 'pgcourier: events that the consumers of this database have accepted';

CREATE TABLE courier_inbox.schema_version (
  version    integer     PRIMARY KEY,
  name       text        NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE courier_inbox.schema_version
  IS 'The migrations that have been applied; the highest version is the schema''s';

-- A role without login: grant it to the roles that consumers log in with.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'courier_consumer') THEN
    CREATE ROLE courier_consumer NOLOGIN;
  END IF;
EXCEPTION
  WHEN duplicate_object OR unique_violation THEN
    NULL; -- another session was faster
  WHEN insufficient_privilege THEN
    RAISE EXCEPTION 'role courier_consumer does not exist and % may not create it', current_user
      USING ERRCODE = 'insufficient_privilege',
            HINT = 'Ask an administrator: CREATE ROLE courier_consumer NOLOGIN';
END
$$;

-- Three tables in a ring. At each moment one of them is the current one, the table after it the next
-- one, and the third is spare. An id that is accepted goes into the current table and into the next.
-- After each retention the ring turns: the next table becomes the current one. So an id is found until
-- the second turn, a retention later at least; then its table is spare, and is emptied as a whole.
--
-- Two pairs out of three tables always share a table. So two sessions that accept the same id meet in
-- one unique index, whatever each of them believes the current table to be: its clock, its snapshot or
-- its isolation level may be as they like. The second waits for the first, as for any unique index.
-- (Ids in one table of several by time would have to be looked for in the others, where a snapshot shows
-- neither what is not yet committed nor, above read committed, what was committed since it was taken.)
DO $$
BEGIN
  FOR number IN 0..2 LOOP
    EXECUTE pg_catalog.format('CREATE TABLE courier_inbox.slot_%s ('
      ' event_id    uuid        NOT NULL,'
      ' accepted_at timestamptz NOT NULL DEFAULT now(),'
      ' consumer    text        COLLATE "C" NOT NULL,'
      ' CONSTRAINT slot_%1$s_pkey PRIMARY KEY (event_id, consumer))', number);
    EXECUTE pg_catalog.format('COMMENT ON TABLE courier_inbox.slot_%s'
      ' IS ''One of the three tables of accepted events; courier_inbox.settings says which is the current one''', number);
  END LOOP;
END
$$;

CREATE TABLE courier_inbox.settings (
  retention      interval    NOT NULL DEFAULT '30 days',
  current        smallint    NOT NULL DEFAULT 0,
  turned_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  spare_is_empty boolean     NOT NULL DEFAULT true,
  is_the_row     boolean     NOT NULL DEFAULT true,

  CONSTRAINT settings_pkey PRIMARY KEY (is_the_row),
  CONSTRAINT settings_are_one_row CHECK (is_the_row),
  CONSTRAINT retention_must_be_at_least_an_hour CHECK (retention >= '1 hour'),
  CONSTRAINT current_is_one_of_three_slots CHECK (current BETWEEN 0 AND 2)
);
INSERT INTO courier_inbox.settings DEFAULT VALUES;
COMMENT ON TABLE courier_inbox.settings IS 'One row; its owner may change the retention at any time';
COMMENT ON COLUMN courier_inbox.settings.retention
  IS 'For so long at least an accepted event is recognised; longer than the sender can repeat it';
COMMENT ON COLUMN courier_inbox.settings.current IS 'The current slot; written by courier_inbox.maintain()';
COMMENT ON COLUMN courier_inbox.settings.turned_at IS 'When it became the current slot';
COMMENT ON COLUMN courier_inbox.settings.spare_is_empty IS 'The slot that was the current one before it has been emptied';

-- When steps are due. The slot that was the current one is emptied a 32nd of the retention after the ring
-- turned: transactions that were open then may be using it.
CREATE VIEW courier_inbox.ring AS
  SELECT current, (current + 1) % 3 AS next, (current + 2) % 3 AS spare, spare_is_empty,
         clock_timestamp() >= turned_at + retention AS must_turn,
         NOT spare_is_empty AND clock_timestamp() >= turned_at + retention / 32 AS must_empty
  FROM courier_inbox.settings;
COMMENT ON VIEW courier_inbox.ring IS 'Which slot is which, and which steps of courier_inbox.maintain() are due';

-- Takes the steps that are due, and says so.
--
-- It waits for no session, and no session waits for it. It takes its locks only if they are free: that of the
-- row, so that one session takes the step, and an exclusive one of the spare slot. Consumers use the
-- other two slots, also those that still see the settings as they were; so a transaction that keeps
-- both locks for hours does no harm.
CREATE FUNCTION courier_inbox.maintain() RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  ring  courier_inbox.ring;
  spare text;
BEGIN
  SELECT * INTO ring FROM courier_inbox.ring FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN 'another session does it';
  ELSIF NOT ring.must_turn AND NOT ring.must_empty THEN
    RETURN 'nothing to do';
  END IF;
  spare := format('courier_inbox.slot_%s', ring.spare);
  IF NOT ring.spare_is_empty THEN
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE NOWAIT', spare);
    EXECUTE format('TRUNCATE %s', spare);
  END IF;
  IF ring.must_turn THEN
    UPDATE courier_inbox.settings SET current = ring.next, turned_at = clock_timestamp(), spare_is_empty = false;
    RETURN format('turned: slot_%s is the current one', ring.next);
  END IF;
  UPDATE courier_inbox.settings SET spare_is_empty = true;
  RETURN format('emptied slot_%s', ring.spare);
EXCEPTION
  WHEN lock_not_available THEN
    RETURN format('slot_%s is in use', ring.spare);
END
$$;
COMMENT ON FUNCTION courier_inbox.maintain()
  IS 'Empties the expired slot and turns the ring, if that is due; consumers do it by themselves';

-- Says what is wrong with the arguments of accept() and accept_many(). Checks of the tables would say it too,
-- but would cost half as much as accept() itself.
CREATE FUNCTION courier_inbox.refuse(consumer text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF consumer IS NULL OR length(consumer) BETWEEN 1 AND 100 AND consumer !~ '[[:cntrl:]]' THEN
    RAISE EXCEPTION 'neither the consumer nor an event''s id may be NULL' USING ERRCODE = 'null_value_not_allowed';
  END IF;
  RAISE EXCEPTION 'invalid name of a consumer: %', quote_literal(left(consumer, 100))
    USING ERRCODE = 'invalid_parameter_value',
          HINT = 'It must have 1 to 100 characters, and no control characters';
END
$$;
COMMENT ON FUNCTION courier_inbox.refuse(text) IS 'Says what is wrong with the arguments of courier_inbox.accept()';

-- Slots are taken in the order of their numbers, so that two sessions with the same id cannot wait for
-- each other. Above read committed the step is left to others: a row that has changed since the
-- snapshot would fail the consumer's transaction.
CREATE FUNCTION courier_inbox.accept(consumer text, event_id uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  slot   smallint;
  is_due boolean;
BEGIN
  IF event_id IS NULL OR (length(consumer) BETWEEN 1 AND 100 AND consumer !~ '[[:cntrl:]]') IS NOT TRUE THEN
    PERFORM courier_inbox.refuse(consumer);
  END IF;
  SELECT current, must_turn OR must_empty INTO slot, is_due FROM courier_inbox.ring;
  IF is_due AND current_setting('transaction_isolation') = 'read committed' THEN
    PERFORM courier_inbox.maintain();
  END IF;

  IF slot <> 1 THEN
    INSERT INTO courier_inbox.slot_0 (consumer, event_id) VALUES ($1, $2) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
      RETURN false;
    END IF;
  END IF;
  IF slot <> 2 THEN
    INSERT INTO courier_inbox.slot_1 (consumer, event_id) VALUES ($1, $2) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
      RETURN false;
    END IF;
  END IF;
  IF slot <> 0 THEN
    INSERT INTO courier_inbox.slot_2 (consumer, event_id) VALUES ($1, $2) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
      RETURN false;
    END IF;
  END IF;
  RETURN true;
END
$$;
COMMENT ON FUNCTION courier_inbox.accept(text, uuid)
  IS 'Whether the consumer accepts the event for the first time; counts if the transaction commits';

-- In the order of ids, so that two sessions cannot wait for each other.
CREATE FUNCTION courier_inbox.accept_many(consumer text, event_ids uuid[]) RETURNS SETOF uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  slot   smallint;
  is_due boolean;
  fresh  uuid[] := (SELECT array_agg(DISTINCT id ORDER BY id) FROM unnest(event_ids) AS id);
BEGIN
  IF event_ids IS NULL OR array_position(event_ids, NULL) IS NOT NULL
     OR (length(consumer) BETWEEN 1 AND 100 AND consumer !~ '[[:cntrl:]]') IS NOT TRUE THEN
    PERFORM courier_inbox.refuse(consumer);
  END IF;
  SELECT current, must_turn OR must_empty INTO slot, is_due FROM courier_inbox.ring;
  IF is_due AND current_setting('transaction_isolation') = 'read committed' THEN
    PERFORM courier_inbox.maintain();
  END IF;

  IF slot <> 1 THEN
    WITH taken AS (INSERT INTO courier_inbox.slot_0 (consumer, event_id)
                   SELECT $1, id FROM unnest(fresh) AS id ON CONFLICT DO NOTHING RETURNING event_id AS id)
    SELECT array_agg(id ORDER BY id) INTO fresh FROM taken;
  END IF;
  IF slot <> 2 THEN
    WITH taken AS (INSERT INTO courier_inbox.slot_1 (consumer, event_id)
                   SELECT $1, id FROM unnest(fresh) AS id ON CONFLICT DO NOTHING RETURNING event_id AS id)
    SELECT array_agg(id ORDER BY id) INTO fresh FROM taken;
  END IF;
  IF slot <> 0 THEN
    WITH taken AS (INSERT INTO courier_inbox.slot_2 (consumer, event_id)
                   SELECT $1, id FROM unnest(fresh) AS id ON CONFLICT DO NOTHING RETURNING event_id AS id)
    SELECT array_agg(id ORDER BY id) INTO fresh FROM taken;
  END IF;
  RETURN QUERY SELECT unnest(fresh);
END
$$;
COMMENT ON FUNCTION courier_inbox.accept_many(text, uuid[])
  IS 'The ids, in order, that the consumer accepts for the first time';

-- For a replay that is meant to be processed again.
CREATE FUNCTION courier_inbox.forget(consumer text, event_id uuid DEFAULT NULL) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH gone_0 AS (DELETE FROM courier_inbox.slot_0 AS s
                  WHERE s.consumer = $1 AND ($2 IS NULL OR s.event_id = $2) RETURNING s.event_id),
       gone_1 AS (DELETE FROM courier_inbox.slot_1 AS s
                  WHERE s.consumer = $1 AND ($2 IS NULL OR s.event_id = $2) RETURNING s.event_id),
       gone_2 AS (DELETE FROM courier_inbox.slot_2 AS s
                  WHERE s.consumer = $1 AND ($2 IS NULL OR s.event_id = $2) RETURNING s.event_id)
  SELECT count(*) FROM (SELECT * FROM gone_0 UNION SELECT * FROM gone_1 UNION SELECT * FROM gone_2) AS gone
$$;
COMMENT ON FUNCTION courier_inbox.forget(text, uuid)
  IS 'Lets a consumer accept an event again, or (NULL) all events; returns how many';

CREATE VIEW courier_inbox.accepted AS
  SELECT event_id, consumer, min(accepted_at) AS accepted_at
  FROM (SELECT * FROM courier_inbox.slot_0
        UNION ALL SELECT * FROM courier_inbox.slot_1
        UNION ALL SELECT * FROM courier_inbox.slot_2) AS slots
  GROUP BY event_id, consumer;
COMMENT ON VIEW courier_inbox.accepted IS 'The accepted events that have not been removed yet';

REVOKE ALL ON FUNCTION courier_inbox.refuse(text), courier_inbox.accept(text, uuid), courier_inbox.accept_many(text, uuid[]),
  courier_inbox.maintain(), courier_inbox.forget(text, uuid) FROM PUBLIC;
GRANT USAGE ON SCHEMA courier_inbox TO courier_consumer;
GRANT EXECUTE ON FUNCTION courier_inbox.accept(text, uuid), courier_inbox.accept_many(text, uuid[])
  TO courier_consumer;

INSERT INTO courier_inbox.schema_version (version, name) VALUES (1, 'inbox');
